//===- FrameworkRules.cpp - What not every framework runs -----------------===//
#include "cost_model/base/Format.h"
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>

namespace shardwright::cost {

namespace {

/// "expected WHAT of FRAMEWORK, but got FOUND" unless `known` has `value`.
template <typename Value, typename Text>
void among(RuleCheck &check, const std::vector<Value> &known, Value value,
           std::string_view what, Text text, std::string_view suffix = "") {
  if (std::find(known.begin(), known.end(), value) != known.end())
    return;
  std::vector<std::string> legal;
  for (Value one : known)
    legal.emplace_back(text(one));
  if (legal.empty())
    legal.emplace_back("none");
  check.fail("expected " + std::string(what) + " of " +
                 std::string(name(check.framework)) + std::string(suffix) +
                 ", but got " + std::string(text(value)),
             std::move(legal));
}

std::string numberText(int value) { return std::to_string(value); }
template <typename Named> std::string_view nameText(Named value) {
  return name(value);
}

/// What `native` cannot compile the cost model can price: see Compile.cpp.
bool pricesAll(const RuleCheck &check) {
  return check.framework == Framework::Native;
}

/// Whether `run` is of layers that repeat; kinds that are not known are none.
bool isOfLayers(const RuleCheck &check, const StageRun &run) {
  const int kind = kindIndex(check.program, run.kind);
  return kind >= 0 && isLayer(check.program.kinds[static_cast<size_t>(kind)]);
}

} // namespace

void checkFrameworkZero(RuleCheck &check) {
  if (pricesAll(check))
    return;
  const FrameworkFacts &facts = factsOf(check.framework);
  const Plan &plan = check.plan;
  among(check, plan.pp > 1 ? facts.zeroUnderPipeline : facts.zero, plan.zero,
        "a zero stage", numberText, plan.pp > 1 ? " with pp > 1" : "");
}

void checkFrameworkSchedule(RuleCheck &check) {
  if (!pricesAll(check) && check.plan.pp > 1)
    among(check, factsOf(check.framework).schedules, check.plan.schedule,
          "a schedule", nameText<ScheduleKind>);
}

void checkFrameworkGroups(RuleCheck &check) {
  const Plan &plan = check.plan;
  const int64_t group = groupOf(plan);
  if (group == 0 || !factsOf(check.framework).evenGroups ||
      plan.microbatches() < plan.pp)
    return; // rule schedule_fits speaks of too few
  const int64_t even = evenGroup(plan.pp, plan.microbatches());
  if (group == even)
    return;
  const int64_t rounds = plan.microbatches() / plan.pp;
  const std::string under = " under " + std::string(name(check.framework));
  if (even > 0)
    check.fail("expected the " + std::to_string(plan.microbatches()) +
                   " microbatches in " + std::to_string(rounds) +
                   plural(rounds, " equal group") + under +
                   ", but got microbatch_group = " + std::to_string(group),
               {"microbatch_group = " + std::to_string(even)});
  else
    check.fail("expected the number of microbatches to be a multiple of " +
                   std::to_string(rounds) + ", its groups of pp or more," +
                   under + ", but got " + std::to_string(plan.microbatches()));
}

void checkFrameworkContext(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (pricesAll(check) || plan.cp == 1)
    return;
  const FrameworkFacts &facts = factsOf(check.framework);
  among(check, facts.cpKinds, plan.cpKind, "a cp_kind", nameText<CpKind>);
  if (!facts.contextUnderPipeline && plan.pp > 1)
    check.fail("expected pp = 1 with cp = " + std::to_string(plan.cp) +
                   " under " + std::string(name(check.framework)) +
                   ", but got pp = " + std::to_string(plan.pp),
               {"pp = 1", "cp = 1"});
}

void checkFrameworkCopies(RuleCheck &check) {
  if (!pricesAll(check) && check.plan.zeroRanks > 0)
    among(check, factsOf(check.framework).copies, check.plan.zero,
          "copies of shards under a zero stage", numberText);
}

void checkFrameworkOffload(RuleCheck &check) {
  if (!pricesAll(check) && check.plan.offloadOptimizer)
    among(check, factsOf(check.framework).offload, check.plan.zero,
          "an optimizer on the host under a zero stage", numberText);
}

void checkFrameworkActivations(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (pricesAll(check) || !plan.offloadActivations)
    return;
  bool any = false, all = true; // layers that run again
  for (const Stage &stage : plan.stages)
    for (const StageRun &run : stage.runs) {
      if (!isOfLayers(check, run))
        continue;
      any = any || run.recompute != Recompute::None;
      all = all && run.recompute == Recompute::Full;
    }
  const std::string under = " with activations on the host under " +
                            std::string(name(check.framework));
  switch (factsOf(check.framework).activations) {
  case HostActivations::Never:
    check.fail("expected activations on the device under " +
                   std::string(name(check.framework)) +
                   ", which cannot keep them on the host",
               {"activations on the device"});
    return;
  case HostActivations::WithoutPipeline:
    if (plan.pp > 1 || any)
      check.fail("expected pp = 1 and no recomputation" + under +
                     ", but got pp = " + std::to_string(plan.pp) +
                     (any ? " and layers that run again" : ""),
                 {"pp = 1, recompute none", "activations on the device"});
    return;
  case HostActivations::Checkpoints:
    if (!all)
      check.fail("expected recompute full" + under +
                     ", which moves the inputs of layers that run again, but "
                     "got layers that do not",
                 {"recompute full", "activations on the device"});
    return;
  }
}

void checkFrameworkOrder(RuleCheck &check) {
  if (!pricesAll(check) && check.plan.order != MeshOrder::PpDp)
    among(check, factsOf(check.framework).orders, check.plan.order,
          "a mesh order", [](MeshOrder order) {
            return order == MeshOrder::PpDp ? "pp, dp, cp, tp"
                                            : "dp, pp, cp, tp";
          });
}

void checkFrameworkRecompute(RuleCheck &check) {
  if (factsOf(check.framework).recomputesByStage)
    return;
  std::vector<int64_t> full, layers; // of each stage
  bool selects = false; // some layer recomputes a part of itself
  for (const Stage &stage : check.plan.stages) {
    full.push_back(0);
    layers.push_back(0);
    for (const StageRun &run : stage.runs) {
      if (!isOfLayers(check, run))
        continue;
      layers.back() += run.count;
      if (run.recompute == Recompute::Full)
        full.back() += run.count;
      selects = selects || run.recompute == Recompute::Selective;
    }
  }
  if (full.empty())
    return;
  const int64_t most = *std::max_element(full.begin(), full.end());
  if (selects && most > 0) {
    check.fail("expected all layers that recompute to do so in full, or all "
               "selectively, under " + std::string(name(check.framework)) +
                   ", but got both",
               {"full", "selective"});
    return; // their numbers say nothing then
  }
  std::string found;
  bool differ = false;
  for (size_t i = 0; i < full.size(); ++i) {
    differ = differ || full[i] != std::min(most, layers[i]);
    found += (i > 0 ? ", " : "") + std::to_string(full[i]);
  }
  if (differ)
    check.fail("expected as many layers recomputed in full on every stage "
               "under " + std::string(name(check.framework)) +
                   ", but got " + found,
               {std::to_string(most) + " of every stage", "0 of every stage"});
}

void checkFrameworkGradients(RuleCheck &check) {
  if (!pricesAll(check) && check.plan.dtypes.compute == DType::BF16)
    among(check, factsOf(check.framework).gradients, check.plan.dtypes.grad,
          "a type of gradients", nameText<DType>);
}

void checkFrameworkProducts(RuleCheck &check) {
  if (!pricesAll(check))
    among(check, factsOf(check.framework).products,
          check.plan.dtypes.products, "a type of products", nameText<Narrow>);
}

void checkFrameworkExperts(RuleCheck &check) {
  const Plan &plan = check.plan;
  const FrameworkFacts &facts = factsOf(check.framework);
  if (check.program.experts == 0 ||
      splitsExperts(facts.expertTensor, plan.tp, plan.ep, plan.etp))
    return;
  std::vector<std::string> legal;
  for (int64_t etp : {int64_t(1), plan.tp})
    if (splitsExperts(facts.expertTensor, plan.tp, plan.ep, etp))
      legal.push_back("etp = " + std::to_string(etp));
  check.fail("expected an expert in " +
                 std::string(legal.size() > 1 ? "one part or " : "") +
                 "as many parts as tp under " +
                 std::string(name(check.framework)) +
                 ", but got etp = " + std::to_string(plan.etp) +
                 " with tp = " + std::to_string(plan.tp) +
                 ", ep = " + std::to_string(plan.ep),
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
  check.failNear("expected the number of key/value heads (" +
                     std::to_string(kvHeads) +
                     ") to be a multiple of tp under " +
                     std::string(name(check.framework)) +
                     ", which does not replicate heads, but got tp = " +
                     std::to_string(tp),
                 "tp", tp, divisors(kvHeads));
}

} // namespace shardwright::cost
