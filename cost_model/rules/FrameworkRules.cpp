//===- FrameworkRules.cpp - What not every framework runs -----------------===//
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>

namespace shardwright::cost {

/// What `native` cannot compile the cost model can price: see Compile.cpp.
void checkFrameworkZero(RuleCheck &check) {
  if (check.framework == Framework::Native)
    return;
  const FrameworkFacts &facts = factsOf(check.framework);
  const Plan &plan = check.plan;
  const std::vector<int> &stages =
      plan.pp > 1 ? facts.zeroUnderPipeline : facts.zero;
  if (std::find(stages.begin(), stages.end(), plan.zero) != stages.end())
    return;
  std::vector<std::string> legal;
  std::string wanted;
  for (int stage : stages) {
    wanted += legal.empty() ? "" : ", ";
    wanted += std::to_string(stage);
    legal.push_back(std::to_string(stage));
  }
  check.fail("expected zero stage " + wanted + " under " +
                 std::string(name(check.framework)) +
                 (plan.pp > 1 ? " with pp > 1" : "") + ", but got " +
                 std::to_string(plan.zero),
             std::move(legal));
}

void checkFrameworkSchedule(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (check.framework == Framework::Native || plan.pp <= 1)
    return;
  const std::vector<ScheduleKind> &known = factsOf(check.framework).schedules;
  if (std::find(known.begin(), known.end(), plan.schedule) != known.end())
    return;
  std::vector<std::string> legal;
  for (ScheduleKind kind : known)
    legal.emplace_back(name(kind));
  check.fail("expected a schedule of " + std::string(name(check.framework)) +
                 ", but got " + std::string(name(plan.schedule)),
             std::move(legal));
}

void checkTensorNeedsSequence(RuleCheck &check) {
  if (factsOf(check.framework).tensorNeedsSequence && check.plan.tp > 1 &&
      !check.plan.sp)
    check.fail("expected sequence parallelism with tp = " +
                   std::to_string(check.plan.tp) + " under " +
                   std::string(name(check.framework)) + ", but got sp = false",
               {"sp = true", "tp = 1"});
}

void checkFrameworkKvHeads(RuleCheck &check) {
  const int64_t kvHeads = check.program.kvHeads, tp = check.plan.tp;
  if (factsOf(check.framework).replicatesKvHeads ||
      kvReplicasOf(check.program, tp) == 1)
    return;
  check.fail("expected the number of key/value heads (" +
                 std::to_string(kvHeads) + ") to be a multiple of tp under " +
                 std::string(name(check.framework)) +
                 ", which does not replicate heads, but got tp = " +
                 std::to_string(tp),
             RuleCheck::texts(commonDivisors({kvHeads})));
}

} // namespace shardwright::cost
