// Which way of training a model on a cluster is fastest? Asked from C++.
//   embed program.json CLUSTER GPUS GLOBAL_BATCH
#include "cost_model/Json.h"
#include "cost_model/ProgramEstimator.h"
#include "cost_model/Report.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace shardwright::cost;

int main(int argc, char **argv) {
  if (argc != 5)
    return std::cerr << "usage: embed program.json CLUSTER GPUS BATCH\n", 5;
  std::stringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  const char *cluster = shippedHardware(argv[2]);
  if (!cluster)
    return std::cerr << argv[2] << ": expected a shipped cluster\n", 5;
  Program program;
  Hardware machine, cut;
  Profile profile;
  Failure failure;
  if (!readProgram(text.str(), argv[1], program, failure) ||
      !readHardware(cluster, argv[2], machine, failure) ||
      !resized(machine, std::atoll(argv[3]), cut, failure) ||
      !readProfile(shippedProfile("native"), "native", profile, failure))
    return std::cerr << failure.messages.front() << "\n", 4;

  Plan base; // what the search leaves as it is
  base.sequence = program.sequence;
  base.globalBatch = std::atoll(argv[4]);
  base.dtypes = profile.dtypes;
  SearchOptions options;
  options.gpus = cut.ranks();
  options.layers = program.layers;
  options.experts = program.experts;
  options.globalBatch = base.globalBatch;
  options.policies = searchedPolicies(program);
  options.memoryLimit = cut.device.usable;
  ProgramEstimator estimator(program, cut, profile, base);
  for (const RankedPlan &ranked : search(estimator, options).plans)
    std::cout << secondsText(ranked.estimate.stepTime) << "  "
              << planText(program, ranked.plan) << "\n";
}
