// The fastest plan for a model on a cluster, asked from C++.
#include "cost_model/program/ProgramJson.h"
#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"

#include <fstream>
#include <iostream>
#include <sstream>

using namespace shardwright::cost;

int main(int argc, char **argv) {
  const char *cluster = argc == 5 ? shippedHardware(argv[2]) : nullptr;
  if (!cluster)
    return std::cerr << "usage: embed program.json CLUSTER GPUS BATCH\n", 5;
  std::stringstream text;
  text << std::ifstream(argv[1]).rdbuf();
  Program program;
  Hardware whole, machine;
  Profile profile;
  Failure failure;
  if (!readProgram(text.str(), argv[1], program, failure) ||
      !readHardware(cluster, argv[2], whole, failure) ||
      !resized(whole, std::stoll(argv[3]), machine, failure) ||
      !readProfile(shippedProfile("native"), "native", profile, failure))
    return std::cerr << failure.messages.front().text << "\n", 4;

  Plan base; // what a search leaves as it is
  base.sequence = program.sequence;
  base.globalBatch = std::stoll(argv[4]);
  base.dtypes = profile.dtypes;
  ProgramEstimator estimator(program, machine, profile, base);
  SearchOptions options;
  options.gpus = machine.ranks();
  options.globalBatch = base.globalBatch;
  options.layers = program.layers;
  options.experts = program.experts;
  options.policies = searchedPolicies(program);
  options.memoryLimit = machine.device.usable;
  for (const RankedPlan &ranked : search(estimator, options).plans)
    std::cout << secondsText(ranked.estimate.stepTime) << "  "
              << planText(program, ranked.plan) << "\n";
}
