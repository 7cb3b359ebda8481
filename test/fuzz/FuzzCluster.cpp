//===- FuzzCluster.cpp - Cluster files, and estimates on them -------------===//
#include "test/fuzz/FuzzCost.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const cost::Program program = smallProgram();
  static const cost::Plan plan = test::planFor(program, 2, 2, 2, true, 1);
  static const cost::Profile profile = shippedHabits("megatron-core");

  cost::Hardware hardware, cluster;
  cost::Failure failure;
  if (!cost::readHardware(textOf(data, size), "cluster.json", hardware,
                          failure)) {
    requireRefusal(failure);
    return 0;
  }
  if (!cost::resized(hardware, plan.ranks(), cluster, failure))
    requireRefusal(failure);
  else
    requireSane(cost::estimate(program, cluster, profile, plan));
  return 0;
}
