//===- FuzzProfile.cpp - Profiles of frameworks, and estimates by them ----===//
#include "test/fuzz/FuzzCost.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const cost::Program program = smallProgram();
  static const cost::Plan plan = test::planFor(program, 2, 2, 2, true, 1);
  static const cost::Hardware hardware = [] {
    cost::Hardware sized;
    cost::Failure failure;
    require(
        cost::resized(shippedCluster("dgx-h100"), plan.ranks(), sized, failure),
        "8 ranks are a cluster");
    return sized;
  }();

  cost::Profile profile;
  cost::Failure failure;
  if (!cost::readProfile(textOf(data, size), "profile.json", profile,
                         failure)) {
    requireRefusal(failure);
    return 0;
  }
  requireSane(cost::estimate(program, hardware, profile, plan));
  return 0;
}
