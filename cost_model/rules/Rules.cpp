#include "cost_model/rules/Rules.h"
#include "cost_model/base/Format.h"
#include "cost_model/program/ModelDigest.h"
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace shardwright::cost {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> small, large;
  for (int64_t d = 1; n > 0 && d <= n / d; ++d)
    if (n % d == 0) {
      small.push_back(d);
      if (d != n / d)
        large.push_back(n / d);
    }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<int64_t> nearby(const std::vector<int64_t> &numbers,
                            int64_t given) {
  const auto below = std::lower_bound(numbers.begin(), numbers.end(), given);
  const auto above = std::upper_bound(below, numbers.end(), given);
  std::vector<int64_t> result(
      below - std::min<std::ptrdiff_t>(2, below - numbers.begin()), below);
  result.insert(result.end(), above,
                above + std::min<std::ptrdiff_t>(2, numbers.end() - above));
  return result;
}

namespace {

using Check = RuleCheck;

//===----------------------------------------------------------------------===//
// The checks. Each is total: it may not assume that any other rule holds.
//===----------------------------------------------------------------------===//

void checkModelMatches(Check &check, ModelCheck how) {
  const Plan &plan = check.plan;
  if (how == ModelCheck::NameOnly || plan.modelSha256.empty()) {
    if (!plan.modelName.empty() && plan.modelName != check.program.name)
      check.fail("expected the model of the plan to be '" +
                     check.program.name + "', but got '" + plan.modelName + "'",
                 {check.program.name});
    return;
  }
  // The digest decides: a folder may be renamed.
  std::string digest = modelDigest(check.program);
  if (plan.modelSha256 != digest)
    check.fail("expected the model's sha256 in the plan to be " + digest +
                   ", but got '" + plan.modelSha256 +
                   "': the plan was made for another model ('" +
                   plan.modelName + "') than '" + check.program.name +
                   "', or for another batch.sequence than " +
                   std::to_string(plan.sequence),
               {digest});
}

void checkSequence(Check &check) {
  if (check.plan.sequence != check.program.sequence)
    check.fail("expected the sequence of the plan to equal that of the model"
               " (" +
                   std::to_string(check.program.sequence) + "), but got " +
                   std::to_string(check.plan.sequence),
               {std::to_string(check.program.sequence)});
}

void checkDegrees(Check &check) {
  const Plan &plan = check.plan;
  const auto range = [&](const char *name, int64_t value, int64_t most) {
    if (value < 1)
      check.fail("expected " + std::string(name) + " >= 1, but got " +
                 std::to_string(value));
    else if (value > most)
      check.fail("expected " + std::string(name) + " <= " +
                 std::to_string(most) + ", but got " + std::to_string(value));
  };
  range("dp", plan.dp, maxDataRanks);
  range("tp", plan.tp, maxDegree);
  range("pp", plan.pp, maxDegree);
  range("cp", plan.cp, maxDegree);
  range("ep", plan.ep, maxDegree);
  range("etp", plan.etp, maxDegree);
  range("kv_replicas", plan.kvReplicas, maxDegree);
  range("chunks", plan.chunks, maxDegree);
  range("global batch", plan.globalBatch, std::numeric_limits<int64_t>::max());
  range("micro batch", plan.microBatch, maxMicroBatch);
}

void checkMesh(Check &check) {
  const Plan &plan = check.plan;
  std::vector<MeshAxis> wanted;
  if (const int64_t replicas = kvReplicasOf(check.program, plan.tp);
      replicas == plan.kvReplicas) {
    wanted = meshOf(plan);
  } else { // rule kv_replicas_match speaks of that
    Plan own = plan;
    own.kvReplicas = replicas;
    wanted = meshOf(own);
  }
  if (plan.mesh == wanted)
    return;
  auto show = [](const std::vector<MeshAxis> &mesh) {
    std::string text = "[";
    for (const MeshAxis &axis : mesh)
      text += (text.size() > 1 ? ", " : "") + axis.name + "=" +
              std::to_string(axis.size);
    return text + "]";
  };
  check.fail("expected the mesh to be " + show(wanted) +
                 " like the degrees, but got " + show(plan.mesh),
             {show(wanted)});
}

void checkHeads(Check &check) {
  check.divides("the number of attention heads", check.program.heads, "tp",
                check.plan.tp);
}
void checkKvHeads(Check &check) {
  const int64_t kvHeads = check.program.kvHeads, tp = check.plan.tp;
  const auto fits = [&](int64_t degree) {
    return kvHeads % degree == 0 || kvReplicasOf(check.program, degree) > 1;
  };
  if (fits(tp))
    return;
  std::vector<int64_t> legal = divisors(check.program.heads);
  std::erase_if(legal, [&](int64_t degree) { return !fits(degree); });
  check.failNear("expected tp to divide the number of key/value heads (" +
                     std::to_string(kvHeads) +
                     ") or to be a multiple of it, but got tp = " +
                     std::to_string(tp),
                 "tp", tp, legal);
}
void checkKvReplicas(Check &check) {
  const Plan &plan = check.plan;
  const int64_t wanted = kvReplicasOf(check.program, plan.tp);
  if (plan.kvReplicas != wanted)
    check.fail("expected parallel.kv_replicas = " + std::to_string(wanted) +
                   " with tp = " + std::to_string(plan.tp) + " and " +
                   std::to_string(check.program.kvHeads) +
                   " key/value heads, but got " +
                   std::to_string(plan.kvReplicas),
               {std::to_string(wanted)});
}
void checkSpNeedsTp(Check &check) {
  if (check.plan.sp && check.plan.tp == 1)
    check.fail("expected tp > 1 with sequence parallelism, but got tp = 1",
               {"sp = false"});
}
void checkSequenceDivides(Check &check) {
  if (check.plan.sp)
    check.divides("the sequence length", check.program.sequence, "tp",
                  check.plan.tp);
}

void checkBatch(Check &check) {
  const Plan &plan = check.plan;
  int64_t group = 0;
  if (__builtin_mul_overflow(plan.dp, plan.microBatch, &group))
    group = 0;
  else if (plan.globalBatch >= group && plan.globalBatch % group == 0)
    return;
  const std::string message =
      "expected the global batch (" + std::to_string(plan.globalBatch) +
      ") to be a multiple of dp * micro, but got dp = " +
      std::to_string(plan.dp) + ", micro = " + std::to_string(plan.microBatch);
  // Either the batch gives way, or how it is divided.
  std::vector<std::string> legal;
  const bool even = plan.globalBatch % plan.dp == 0;
  const int64_t given = even ? plan.microBatch : plan.dp;
  for (int64_t value : nearby(
           divisors(even ? plan.globalBatch / plan.dp : plan.globalBatch),
           given))
    legal.push_back((even ? "micro = " : "dp = ") + std::to_string(value));
  for (int64_t count : {plan.globalBatch / std::max<int64_t>(group, 1),
                        plan.globalBatch / std::max<int64_t>(group, 1) + 1}) {
    int64_t batch = 0;
    if (group > 0 && count > 0 && !__builtin_mul_overflow(group, count, &batch))
      legal.push_back("global = " + std::to_string(batch));
  }
  check.fail(message, std::move(legal), "nearest legal");
}

void checkStageCount(Check &check) {
  const Plan &plan = check.plan;
  const auto found = static_cast<int64_t>(plan.stages.size());
  int64_t product = 0; // stageCount of what rule schedule_fits may refuse
  const bool tooMany =
      __builtin_mul_overflow(plan.pp, plan.chunks, &product);
  if (!tooMany && found == stageCount(plan))
    return;
  if (tooMany || plan.chunks != 1)
    check.fail("expected one stage for each chunk of a pipeline rank (pp = " +
                   std::to_string(plan.pp) + ", chunks = " +
                   std::to_string(plan.chunks) + "), but got " +
                   std::to_string(found) + plural(found, " stage"),
               tooMany ? std::vector<std::string>{}
                       : std::vector<std::string>{
                             std::to_string(stageCount(plan))});
  else
    check.fail("expected one stage per pipeline rank (pp = " +
                   std::to_string(plan.pp) + "), but got " +
                   std::to_string(found) + plural(found, " stage"),
               {std::to_string(plan.pp)});
}

void checkPpLayers(Check &check) {
  if (check.plan.pp > check.program.layers)
    check.fail("expected pp to be at most the number of layers (" +
                   std::to_string(check.program.layers) + "), but got pp = " +
                   std::to_string(check.plan.pp),
               {"1.." + std::to_string(check.program.layers)});
}

/// Whether every run names a kind of the program and has a count >= 1.
bool runsAreKnown(const Program &program, const Plan &plan) {
  for (const Stage &stage : plan.stages)
    for (const StageRun &run : stage.runs)
      if (run.count < 1 || kindIndex(program, run.kind) < 0)
        return false;
  return true;
}

void checkStageKinds(Check &check) {
  for (size_t i = 0; i < check.plan.stages.size(); ++i)
    for (const StageRun &run : check.plan.stages[i].runs) {
      const bool known = kindIndex(check.program, run.kind) >= 0;
      if (known && run.count >= 1)
        continue;
      const std::string where = " on stage " + std::to_string(i);
      if (known) {
        check.fail("expected at least one layer of '" + run.kind + "'" +
                   where + ", but got " + std::to_string(run.count));
        continue;
      }
      std::vector<std::string> kinds;
      for (const Kind &kind : check.program.kinds)
        kinds.push_back(kind.name);
      check.fail("expected a kind of the model" + where + ", but got '" +
                     run.kind + "'",
                 std::move(kinds));
    }
}

void checkRecompute(Check &check) {
  for (size_t i = 0; i < check.plan.stages.size(); ++i)
    for (const StageRun &run : check.plan.stages[i].runs) {
      int index = kindIndex(check.program, run.kind);
      if (index < 0)
        continue;
      const std::vector<KindVariant> &variants =
          check.program.kinds[index].variants;
      if (std::any_of(variants.begin(), variants.end(),
                      [&](const KindVariant &variant) {
                        return variant.policy == run.recompute;
                      }))
        continue;
      std::vector<std::string> policies;
      for (const KindVariant &variant : variants)
        policies.emplace_back(name(variant.policy));
      check.fail("expected a recompute policy that '" + run.kind +
                     "' has on stage " + std::to_string(i) + ", but got '" +
                     std::string(name(run.recompute)) + "'",
                 std::move(policies));
    }
}

/// A run-length list of (kind, count); the kinds' names live elsewhere.
using LayersInOrder = std::vector<std::pair<std::string_view, int64_t>>;

/// Joins neighbours of one kind.
LayersInOrder layersInOrder(const Plan &plan) {
  LayersInOrder order;
  for (const Stage &stage : plan.stages)
    for (const StageRun &run : stage.runs) {
      if (order.empty() || order.back().first != run.kind)
        order.emplace_back(run.kind, 0);
      order.back().second = checkedAdd(order.back().second, run.count);
    }
  return order;
}

std::string showLayers(const LayersInOrder &order) {
  std::string text = "[";
  for (const auto &[kind, count] : order)
    text += (text.size() > 1 ? ", " : "") + std::to_string(count) + " " +
            std::string(kind);
  return text + "]";
}

/// "7+8+8+7": layers of each stage that take and give the stream.
std::string showSplit(const Program &program,
                      const std::vector<Stage> &stages) {
  std::string text;
  for (const Stage &stage : stages) {
    int64_t layers = 0;
    for (const StageRun &run : stage.runs) {
      const Kind &kind = program.kinds[kindIndex(program, run.kind)];
      if (isLayer(kind))
        layers += run.count;
    }
    text += (text.empty() ? "" : "+") + std::to_string(layers);
  }
  return text;
}

void checkStagesCover(Check &check) {
  if (!runsAreKnown(check.program, check.plan))
    return; // rule stage_kinds_known speaks of it
  LayersInOrder wanted;
  for (const Run &run : check.program.stack) {
    const std::string &kind = check.program.kinds[run.kind].name;
    if (wanted.empty() || wanted.back().first != kind)
      wanted.emplace_back(kind, 0);
    wanted.back().second += run.count;
  }
  if (layersInOrder(check.plan) == wanted)
    return;
  std::vector<std::string> legal;
  if (check.plan.pp >= 1 && check.plan.pp <= check.program.layers)
    legal.push_back(
        showSplit(check.program,
                  evenStages(check.program, check.plan.pp, Recompute::None)));
  check.fail("expected the stages to hold, in order, " + showLayers(wanted) +
                 ", but got " + showLayers(layersInOrder(check.plan)) +
                 " split " + showSplit(check.program, check.plan.stages),
             std::move(legal));
}

/// `kind` on a stage of its own right, and nowhere else.
void checkOnStage(Check &check, bool first) {
  if (!runsAreKnown(check.program, check.plan))
    return;
  for (size_t i = 0; i < check.plan.stages.size(); ++i)
    for (const StageRun &run : check.plan.stages[i].runs) {
      const Kind &kind =
          check.program.kinds[kindIndex(check.program, run.kind)];
      const bool belongs = first ? !takesStream(kind) : !givesStream(kind);
      const size_t wanted = first ? 0 : check.plan.stages.size() - 1;
      if (belongs && i != wanted)
        check.fail("expected '" + run.kind + "' on the " +
                       (first ? "first" : "last") +
                       " stage, but got it on stage " + std::to_string(i),
                   {std::to_string(wanted)});
    }
}
void checkEmbedding(Check &check) { checkOnStage(check, true); }
void checkHead(Check &check) { checkOnStage(check, false); }

void checkStageNotEmpty(Check &check) {
  const Plan &plan = check.plan;
  std::vector<std::string> empty;
  for (size_t i = 0; i < plan.stages.size(); ++i)
    if (plan.stages[i].runs.empty())
      empty.push_back(std::to_string(i));
  if (empty.empty())
    return;
  constexpr size_t shown = 6;
  std::string list;
  for (size_t i = 0; i < std::min(shown, empty.size()); ++i)
    list += (i ? ", " : "") + empty[i];
  if (empty.size() > shown)
    list += " and " + std::to_string(empty.size() - shown) + " more";
  std::vector<std::string> legal;
  const auto stages = static_cast<int64_t>(plan.stages.size());
  const int64_t ranks = std::max<int64_t>(stages / plan.chunks, 1);
  const int64_t least = chunksOf(plan.schedule).least,
                most = check.program.layers / ranks;
  if (plan.chunks > 1 && least <= most && most < plan.chunks)
    legal.push_back("chunks = " + std::to_string(least) +
                    (most > least ? ".." + std::to_string(most) : ""));
  check.fail("expected every stage to hold a layer (" +
                 std::to_string(check.program.layers) +
                 plural(check.program.layers, " layer") + ", " +
                 std::to_string(stages) + plural(stages, " stage") +
                 "), but got none on stage" +
                 (empty.size() > 1 ? "s " : " ") + list,
             std::move(legal));
}

void checkZero(Check &check) {
  const Plan &plan = check.plan;
  if (plan.zero < 0 || plan.zero > 3)
    check.fail("expected zero stage 0, 1, 2 or 3, but got " +
                   std::to_string(plan.zero),
               {"0", "1", "2", "3"});
}
void checkZeroRanks(Check &check) {
  const Plan &plan = check.plan;
  if (plan.zeroRanks == 0)
    return;
  if (plan.zeroRanks < 0 || plan.zero == 0 || plan.dp % plan.zeroRanks != 0 ||
      plan.zeroRanks == plan.dp || (plan.zeroRanks == 1 && plan.cp == 1))
    check.fail("expected the ranks of a ZeRO group to divide dp (" +
                   std::to_string(plan.dp) + ") and be fewer, with zero >= 1, "
                   "but got " + std::to_string(plan.zeroRanks) +
                   " with zero = " + std::to_string(plan.zero),
               {});
  else if (plan.ep * plan.etp > 1)
    check.fail("expected ZeRO over all data ranks for a plan with experts "
               "apart, but got groups of " + std::to_string(plan.zeroRanks),
               {"all"});
}
void checkSchedule(Check &check) {
  const Plan &plan = check.plan;
  int64_t group = 0;
  if (plan.chunks < 1 ||
      __builtin_mul_overflow(plan.dp, plan.microBatch, &group) ||
      plan.globalBatch < group)
    return; // rules degrees_positive and batch_divisible speak of it
  const int64_t microbatches = plan.microbatches();
  const auto problem = [&](int64_t chunks, int64_t count) {
    return scheduleProblem(plan.schedule, plan.pp, chunks, count, plan.group);
  };
  const std::string found = problem(plan.chunks, microbatches);
  if (found.empty())
    return;
  // Near by: the fewest chunks, and the next groups and microbatches down and
  // up.
  std::vector<std::string> legal;
  const int64_t chunks = chunksOf(plan.schedule).least;
  if (chunks != plan.chunks && problem(chunks, microbatches).empty())
    legal.push_back("chunks = " + std::to_string(chunks));
  const auto takes = [&](int64_t size) {
    return scheduleProblem(plan.schedule, plan.pp, plan.chunks, microbatches,
                           size)
        .empty();
  };
  if (const int64_t size = groupOf(plan); size > 0) {
    for (int64_t other : groupsNear(plan.pp, microbatches, size))
      if (takes(other))
        legal.push_back("microbatch_group = " + std::to_string(other));
  } else if (plan.group != 0 && takes(0)) {
    legal.push_back("no microbatch_group");
  }
  for (int64_t step : {-1, 1})
    for (int64_t count = microbatches + step;
         count >= 1 && count <= microbatches + 2 * plan.pp; count += step) {
      int64_t batch = 0;
      if (!problem(plan.chunks, count).empty() ||
          __builtin_mul_overflow(group, count, &batch))
        continue;
      legal.push_back("global = " + std::to_string(batch));
      break;
    }
  check.fail(found, std::move(legal));
}

void checkReduceType(Check &check) {
  const DTypes &dtypes = check.plan.dtypes;
  if (dtypes.reduce != dtypes.grad)
    check.fail("expected gradients to be reduced in the type that they are "
               "accumulated in (" +
                   std::string(name(dtypes.grad)) + "), but got " +
                   std::string(name(dtypes.reduce)),
               {std::string(name(dtypes.grad))});
}

void checkCounts(Check &check) {
  if (check.plan.dp < 1 || check.plan.tp < 1)
    return;
  // Flops of the whole model bound those of any stage. Backward is at most
  // twice forward, half of attention more, and forward again by recomputation.
  const double tokens = static_cast<double>(check.program.sequence) *
                        static_cast<double>(check.plan.globalBatch);
  const double step =
      1.5 * modelFlopsPerToken(check.program, FlopsConvention::CausalHalved) *
      tokens /
      (static_cast<double>(check.plan.dp) * static_cast<double>(check.plan.tp) *
       static_cast<double>(check.plan.cp));
  if (step >= 9e18)
    check.fail("expected a rank's flops of one step to be below 9e18, which "
               "exact counts hold, but got about " +
               std::to_string(static_cast<int64_t>(step / 1e18)) +
               "e18; a smaller global batch or more ranks help");
}

struct Entry {
  Diag rule; ///< of Diagnostics.def
  void (*check)(Check &);
};

constexpr Entry table[] = {
    {Diag::degrees_positive, checkDegrees},
    {Diag::model_matches, nullptr}, // takes ModelCheck
    {Diag::sequence_matches, checkSequence},
    {Diag::mesh_equals_degrees, checkMesh},
    {Diag::heads_divisible_by_tp, checkHeads},
    {Diag::kv_heads_divisible_by_tp, checkKvHeads},
    {Diag::kv_heads_of_framework, checkFrameworkKvHeads},
    {Diag::kv_replicas_match, checkKvReplicas},
    {Diag::ffn_divisible_by_tp, checkFfn},
    {Diag::experts_divisible_by_ep, checkExperts},
    {Diag::expert_ffn_divisible_by_etp, checkExpertFfn},
    {Diag::expert_ranks, checkExpertRanks},
    {Diag::non_nested_axes, checkNesting},
    {Diag::experts_tp_needs_sp, checkExpertsNeedSp},
    {Diag::sp_needs_tp, checkSpNeedsTp},
    {Diag::sequence_divisible_by_tp, checkSequenceDivides},
    {Diag::batch_divisible, checkBatch},
    {Diag::schedule_fits, checkSchedule},
    {Diag::pp_at_most_layers, checkPpLayers},
    {Diag::stages_equal_pp, checkStageCount},
    {Diag::stages_not_empty, checkStageNotEmpty},
    {Diag::stage_kinds_known, checkStageKinds},
    {Diag::recompute_known, checkRecompute},
    {Diag::stages_cover_stack, checkStagesCover},
    {Diag::embedding_on_first_stage, checkEmbedding},
    {Diag::head_on_last_stage, checkHead},
    {Diag::zero_known, checkZero},
    {Diag::zero_group, checkZeroRanks},
    {Diag::zero_of_framework, checkFrameworkZero},
    {Diag::schedule_of_framework, checkFrameworkSchedule},
    {Diag::groups_of_framework, checkFrameworkGroups},
    {Diag::tp_needs_sp, checkTensorNeedsSequence},
    {Diag::sequence_divisible_by_cp, checkContextSequence},
    {Diag::heads_divisible_by_cp, checkContextHeads},
    {Diag::heads_repeated_for_cp, checkContextRepeats},
    {Diag::whole_sequences, checkWholeSequences},
    {Diag::ring_sees_all, checkContextWindow},
    {Diag::cp_of_framework, checkFrameworkContext},
    {Diag::copies_of_framework, checkFrameworkCopies},
    {Diag::offload_of_framework, checkFrameworkOffload},
    {Diag::activations_of_framework, checkFrameworkActivations},
    {Diag::order_of_framework, checkFrameworkOrder},
    {Diag::recompute_of_framework, checkFrameworkRecompute},
    {Diag::gradients_of_framework, checkFrameworkGradients},
    {Diag::products_of_framework, checkFrameworkProducts},
    {Diag::etp_of_framework, checkFrameworkExperts},
    {Diag::compiled_by_native, checkCompiled},
    {Diag::narrow_extents, checkNarrowExtents},
    {Diag::reduce_equals_grad, checkReduceType},
    {Diag::counts_fit, checkCounts},
};

} // namespace

const std::vector<Rule> &rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list;
    for (const Entry &entry : table)
      list.push_back(describe(entry.rule));
    return list;
  }();
  return all;
}

std::vector<Violation> checkPlan(const Program &program, const Plan &plan,
                                 ModelCheck model,
                                 std::optional<Framework> framework) {
  std::vector<Violation> violations;
  for (const Entry &entry : table) {
    Check check(program, plan, entry.rule, violations, framework);
    if (entry.check)
      entry.check(check);
    else
      checkModelMatches(check, model);
    if (entry.check == checkDegrees && !violations.empty())
      return violations; // the others divide by them
  }
  return violations;
}

std::vector<Violation> violationsOfAll(const Program &program,
                                       const std::vector<Plan> &readings) {
  std::vector<Violation> all;
  for (size_t i = 0; i < readings.size(); ++i) {
    const std::vector<Violation> found = checkPlan(program, readings[i]);
    const auto isFound = [&](const Violation &violation) {
      return std::any_of(found.begin(), found.end(),
                         [&](const Violation &other) {
                           return other.message == violation.message;
                         });
    };
    if (i == 0)
      all = found;
    else
      std::erase_if(all, std::not_fn(isFound));
  }
  return all;
}

int64_t sequenceOfAll(const std::vector<Plan> &readings) {
  for (const Plan &plan : readings)
    if (plan.sequence != readings.front().sequence)
      return 0;
  return readings.empty() ? 0 : readings.front().sequence;
}

FailureKind worstKind(const std::vector<Violation> &violations) {
  for (const Violation &violation : violations)
    if (violation.kind != FailureKind::Unsupported)
      return violation.kind;
  return violations.empty() ? FailureKind::Input : FailureKind::Unsupported;
}

} // namespace shardwright::cost
