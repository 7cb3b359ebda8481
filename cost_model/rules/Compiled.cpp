//===- Compiled.cpp - What of a plan is compiled yet ----------------------===//
#include "cost_model/rules/Compiled.h"
#include "cost_model/base/Format.h"
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>

namespace shardwright::cost {

std::vector<NotCompiled> notCompiled(const Plan &plan) {
  std::vector<NotCompiled> all;
  const FrameworkFacts &facts = factsOf(Framework::Native);
  const auto among = [](const auto &known, auto value) {
    return std::find(known.begin(), known.end(), value) != known.end();
  };
  // The search enumerates facts.schedules; the compiler follows any table.
  if (splitsBackward(plan.schedule))
    all.push_back(
        {"/schedule/kind", "schedules that split the backward pass (this is '" +
                               std::string(name(plan.schedule)) + "')"});
  // The order of work is written out: 15 s and 0.9 GB for a million.
  constexpr int64_t mostMicrobatches = 1 << 20;
  const int64_t stages = stageCount(plan);
  if (const int64_t most = mostMicrobatches / stages;
      plan.microbatches() > most)
    all.push_back({"/batch/global",
                   "more than " + std::to_string(most) +
                       " microbatches a step on " + std::to_string(stages) +
                       plural(stages, " stage") + " (these are " +
                       std::to_string(plan.microbatches()) + ")"});
  if (!among(facts.zero, plan.zero) || plan.zeroRanks > 0)
    all.push_back({"/parallel/zero",
                   "anything but ZeRO 0 and 1 over all data ranks"});
  if (plan.cp > 1)
    all.push_back({"/parallel/cp", "context parallelism"});
  if (plan.offloadOptimizer)
    all.push_back({"/parallel/offload", "an optimizer on the host"});
  if (plan.offloadActivations)
    all.push_back({"/parallel/offload", "activations on the host"});
  if (plan.pp > 1 && plan.order != MeshOrder::PpDp)
    all.push_back({"/mesh", "a mesh without pp first"});
  if (plan.dtypes.products != Narrow::None)
    all.push_back({"/dtypes/products", "products in 8 or 4 bits"});
  return all;
}

void checkCompiled(RuleCheck &check) {
  if (!check.asked || check.framework != Framework::Native)
    return; // then whatever can be priced is wanted
  const auto fail = [&](const std::string &what) {
    check.fail("expected a plan that `compile` takes under native, but got " +
               what);
  };
  for (const NotCompiled &one : notCompiled(check.plan))
    fail(one.what);
  if (check.program.experts > 0)
    fail("routed experts");
}

} // namespace shardwright::cost
