//===- FuzzPlan.cpp - plan.json, its rules and its estimate ---------------===//
#include "cost_model/base/Sha256.h"
#include "cost_model/estimate/Estimate.h"
#include "cost_model/partition/LedgerJson.h"
#include "cost_model/plan/PlanJson.h"
#include "cost_model/rules/Rules.h"
#include "test/fuzz/FuzzCost.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const cost::Program program = smallProgram();
  static const cost::Hardware hardware = shippedCluster("dgx-h100");
  static const cost::Profile profile = shippedHabits("megatron-core");

  cost::Plan plan;
  cost::Failure failure;
  if (!cost::readPlan(textOf(data, size), "plan.json", plan, failure)) {
    requireRefusal(failure);
    return 0;
  }
  const std::string text = cost::canonicalText(plan);
  cost::Plan again;
  require(cost::readPlan(text, "again.json", again, failure) &&
              cost::canonicalText(again) == text,
          "a plan equals its canonical text");
  plan.modelName = plan.modelSha256 = "";
  if (!isLegal(program, plan))
    return 0;
  cost::Hardware cluster;
  if (cost::resized(hardware, plan.ranks(), cluster, failure))
    requireSane(cost::estimate(program, cluster, profile, plan));
  for (const cost::Ledger &ledger : cost::predictLedgers(program, plan))
    require(!cost::ledgerJson(ledger).empty(), "a ledger has a text");
  return 0;
}
