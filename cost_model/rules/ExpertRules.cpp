//===- ExpertRules.cpp - Feed-forward widths and degrees of experts -------===//
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>

namespace shardwright::cost {

std::vector<int64_t> ffnWidths(const Program &program, bool experts) {
  std::vector<int64_t> widths;
  if (!experts && program.experts == 0)
    return {program.ffn};
  for (const Kind &kind : program.kinds)
    for (const Parameter &parameter : kind.parameters)
      for (const Dim &dim : parameter.dims)
        if (dim.role == Role::Ffn &&
            (parameter.segment == Segment::Experts) == experts)
          widths.push_back(dim.size);
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

void checkFfn(RuleCheck &check) {
  for (int64_t width : ffnWidths(check.program, /*experts=*/false))
    check.divides("the feed-forward width", width, "tp", check.plan.tp);
}

void checkExperts(RuleCheck &check) {
  if (check.plan.ep == 1)
    return;
  if (check.program.experts == 0)
    check.fail("expected ep = 1, as the model has no experts, but got ep = " +
                   std::to_string(check.plan.ep),
               {"1"});
  else
    check.divides("the number of experts", check.program.experts, "ep",
                  check.plan.ep);
}

void checkExpertFfn(RuleCheck &check) {
  if (check.program.experts == 0 && check.plan.etp > 1)
    check.fail("expected etp = 1, as the model has no experts, but got etp = " +
                   std::to_string(check.plan.etp),
               {"1"});
  for (int64_t width : ffnWidths(check.program, /*experts=*/true))
    check.divides("the feed-forward width of an expert", width, "etp",
                  check.plan.etp);
}

void checkExpertRanks(RuleCheck &check) {
  const Plan &plan = check.plan;
  const int64_t dense = checkedMul(checkedMul(plan.dp, plan.cp), plan.tp);
  const int64_t experts = checkedMul(plan.ep, plan.etp);
  if (dense % experts == 0)
    return;
  std::vector<int64_t> legal;
  if (dense % plan.etp == 0)
    legal = divisors(dense / plan.etp);
  check.failNear("expected dp * cp * tp (" + std::to_string(dense) +
                     ") to be a multiple of ep * etp, but got ep = " +
                     std::to_string(plan.ep) +
                     ", etp = " + std::to_string(plan.etp),
                 "ep", plan.ep, legal);
}

void checkNesting(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (!degreesNest(plan))
    check.fail("expected the boundaries of (dp, cp, tp) = (" +
               std::to_string(plan.dp) + ", " + std::to_string(plan.cp) + ", " +
               std::to_string(plan.tp) +
               ") and of (ep, etp) to divide one another from the innermost "
               "rank on, but got ep = " +
               std::to_string(plan.ep) +
               ", etp = " + std::to_string(plan.etp));
}

void checkExpertsNeedSp(RuleCheck &check) {
  if (check.program.experts > 0 && check.plan.tp > 1 && !check.plan.sp)
    check.fail("expected sequence parallelism with experts and tp = " +
                   std::to_string(check.plan.tp) + ", but got sp = false",
               {"sp = true", "tp = 1"});
}

} // namespace shardwright::cost
