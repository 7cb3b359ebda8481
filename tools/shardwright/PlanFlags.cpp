#include "tools/shardwright/PlanFlags.h"

#include "compiler/Import/HfConfig.h"
#include "cost_model/base/Format.h"
#include "cost_model/base/Sha256.h"
#include "cost_model/plan/PlanJson.h"
#include "cost_model/rules/Framework.h"
#include "cost_model/rules/Rules.h"
#include "cost_model/search/Candidate.h"
#include "tools/shardwright/Constraints.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

void PlanFlags::add(CLI::App &command) {
  auto degree = [&](const char *flag, int64_t &value, const char *help) {
    command.add_option(flag, value, help)
        ->check(CLI::Range(int64_t(1), int64_t(1) << 40))
        ->group("Plan");
  };
  degree("--tp", tp, "Tensor-parallel ranks (default 1)");
  degree("--pp", pp, "Pipeline stages (default 1)");
  degree("--dp", dp, "Data-parallel ranks (default gpus / (tp * pp * cp))");
  degree("--cp", cp, "Context-parallel ranks, parts of a sequence (default 1)");
  command
      .add_option("--cp-kind", cpKind,
                  "How parts meet: p2p (ring, default), all_gather or a2a "
                  "(Ulysses)")
      ->group("Plan");
  degree("--ep", ep, "Expert-parallel ranks, among dp * cp * tp (default 1)");
  degree("--etp", etp,
         "Ranks that split one expert (default 1; tp where the framework of "
         "--runs-on has it so)");
  degree("--micro-batch", microBatch,
         "Sequences per rank and microbatch (default 1)");
  command
      .add_option("--zero", zero,
                  "ZeRO stage: 1 shards optimizer state over dp (default 0)")
      ->check(CLI::Range(int64_t(0), int64_t(3)))
      ->group("Plan");
  degree("--zero-ranks", zeroRanks,
         "Data ranks over which ZeRO shards, and over cp inside of them; others "
         "hold copies (default all)");
  command
      .add_flag("--offload-optimizer", offload,
                "Optimizer state in the host's memory, updated there")
      ->group("Plan");
  command
      .add_flag("--offload-activations", activations,
                "What layers save waits in the host's memory for their backward "
                "pass")
      ->group("Plan");
  command
      .add_flag("--sp", sp,
                "Sequence parallelism over the tp ranks (always on where tp > 1 "
                "needs it: with experts, in torchtitan)")
      ->group("Plan");
  command
      .add_option("--recompute", recompute,
                  "none, selective, full, full:N (N layers of each stage) or "
                  "full:N,N,... (of one after the other; 1x3: 1 of each of 3)")
      ->group("Plan");
  command
      .add_option("--schedule", schedule,
                  namesOf(scheduleKinds) + " (default 1f1b)")
      ->group("Plan");
  degree("--chunks", chunks,
         "Chunks of layers on a pipeline rank (default 2 where the schedule "
         "has them)");
  degree("--microbatch-group", group,
         "Microbatches that an interleaved chunk runs in a row (default pp; no other "
         "schedule has groups)");
  command
      .add_option("--layers", layers,
                  "Layers of each stage, such as 8,8,8,6 or 8x3,6 (default even)")
      ->group("Plan");
}

bool PlanFlags::any() const {
  return tp || pp || dp || cp || ep || etp || microBatch || zero >= 0 || sp ||
         zeroRanks || offload || activations || !cpKind.empty() ||
         !recompute.empty() || !schedule.empty() || chunks || group ||
         !layers.empty();
}

int64_t defaultGlobalBatch(int64_t gpus, int64_t sequence) {
  return checkedMul(gpus, std::max<int64_t>(1, 16384 / sequence));
}

bool planFromFlags(const PlanFlags &flags, const Program &program,
                   const Plan &base, int64_t gpus, int64_t clusterRanks,
                   int64_t globalBatch, Plan &plan, Failure &failure,
                   std::optional<Framework> framework) {
  const size_t before = failure.messages.size();
  const FrameworkFacts &facts = factsOf(framework.value_or(Framework::Native));
  auto complain = [&](const std::string &message, Diag id = Diag::flag_value) {
    refuse(failure, id, message);
  };
  Candidate candidate;
  candidate.tp = std::max<int64_t>(flags.tp, 1);
  candidate.pp = std::max<int64_t>(flags.pp, 1);
  candidate.ep = std::max<int64_t>(flags.ep, 1);
  candidate.etp = flags.etp > 0 || program.experts == 0 ||
                          splitsExperts(facts.expertTensor, candidate.tp,
                                        candidate.ep, 1)
                      ? std::max<int64_t>(flags.etp, 1)
                      : candidate.tp;
  candidate.microBatch = std::max<int64_t>(flags.microBatch, 1);
  // With one tensor rank it is a no-op; some never have several without.
  candidate.sp = candidate.tp > 1 &&
                 (flags.sp || program.experts > 0 ||
                  facts.tensorNeedsSequence);
  candidate.zero = static_cast<int>(std::max<int64_t>(flags.zero, 0));
  candidate.cp = std::max<int64_t>(flags.cp, 1);
  candidate.offload = flags.offload;
  if (!flags.cpKind.empty() && !parseCpKind(flags.cpKind, candidate.cpKind))
    complain("--cp-kind " + flags.cpKind +
             ": expected p2p, all_gather or a2a");

  const std::string product =
      std::to_string(candidate.tp) + " TP x " + std::to_string(candidate.pp) +
      " PP" +
      (candidate.cp > 1 ? " x " + std::to_string(candidate.cp) + " CP" : "");
  int64_t model = 0; // ranks of one model replica
  if (__builtin_mul_overflow(candidate.tp, candidate.pp, &model) ||
      __builtin_mul_overflow(model, candidate.cp, &model) ||
      model > int64_t(1) << 31) {
    complain(product + ": too many ranks", Diag::degrees_fill_devices);
    return false;
  }
  if (gpus == 0 && flags.dp == 0)
    gpus = clusterRanks;
  if (gpus == 0)
    gpus = checkedMul(model, std::min(flags.dp, int64_t(1) << 31));
  candidate.dp = flags.dp;
  const bool filled = flags.dp == 0 ? gpus % model == 0
                                    : flags.dp <= gpus / model &&
                                          flags.dp * model == gpus;
  if (flags.dp == 0 && !filled)
    complain((candidate.cp > 1 ? "expected tp * pp * cp to divide the "
                               : "expected tp * pp to divide the ") +
                 std::to_string(gpus) + plural(gpus, " GPU") + ", but got " +
                 product + " = " + std::to_string(model),
             Diag::degrees_fill_devices);
  if (flags.dp == 0)
    candidate.dp = std::max<int64_t>(gpus / model, 1);
  else if (!filled)
    complain((candidate.cp > 1 ? "expected tp * pp * cp * dp to equal the "
                               : "expected tp * pp * dp to equal the ") +
                 std::to_string(gpus) + plural(gpus, " GPU") + ", but got " +
                 product + " x " + std::to_string(flags.dp) + " DP",
             Diag::degrees_fill_devices);
  if (flags.zeroRanks != candidate.dp) // all of them is no group
    candidate.zeroRanks = flags.zeroRanks;
  if (!flags.schedule.empty() &&
      !parseSchedule(flags.schedule, candidate.schedule))
    complain("--schedule " + flags.schedule + ": expected one of " +
             namesOf(scheduleKinds));
  const int64_t chunks =
      flags.chunks ? flags.chunks : chunksOf(candidate.schedule).least;
  const int64_t stages =
      chunks > program.layers + 2 || candidate.pp > program.layers
          ? candidate.pp // refused below
          : stageCount(candidate.schedule, candidate.pp, chunks);
  if (!flags.recompute.empty() &&
      !parseRecompute(flags.recompute, candidate.recompute,
                      candidate.full))
    complain("--recompute " + flags.recompute +
             ": expected none, selective, full, full:N or full:N,N,...");
  else if (candidate.full.size() == 1)
    candidate.full.resize(static_cast<size_t>(stages), candidate.full.front());
  else if (!candidate.full.empty() &&
           candidate.full.size() != static_cast<size_t>(stages))
    complain("--recompute " + flags.recompute + ": expected one number for "
             "each of the " + std::to_string(stages) +
             plural(stages, " stage") + ", but got " +
             std::to_string(candidate.full.size()));
  std::vector<int64_t> layers;
  if (!flags.layers.empty()) {
    if (!parseStages(flags.layers, layers))
      complain("--layers " + flags.layers +
               ": expected numbers joined by commas, such as 8,8,8,6 or 8x3,6");
    else if (static_cast<int64_t>(layers.size()) != stages)
      complain("--layers " + flags.layers + ": expected one number for each of "
               "the " + std::to_string(stages) + plural(stages, " stage") +
               ", but got " +
               std::to_string(layers.size()));
    else if (const int64_t most = *std::max_element(layers.begin(), layers.end());
             most > program.layers) // sums of larger ones overflow
      complain("--layers " + flags.layers + ": expected the sum to be the " +
               std::to_string(program.layers) +
               plural(program.layers, " layer") + " of the model, but got " +
               std::to_string(most) + " on one stage");
    else if (int64_t sum = std::accumulate(layers.begin(), layers.end(),
                                           int64_t(0));
             sum != program.layers)
      complain("--layers " + flags.layers + ": expected the sum to be the " +
               std::to_string(program.layers) +
               plural(program.layers, " layer") + " of the model, but got " +
               std::to_string(sum));
  }
  if (chunks > program.layers + 2)
    complain("--chunks " + std::to_string(chunks) + ": expected at most one "
             "chunk a layer (" + std::to_string(program.layers) + ")");
  Plan from = base;
  from.globalBatch = globalBatch ? globalBatch
                                 : defaultGlobalBatch(gpus, base.sequence);
  if (failure.messages.size() != before) {
    // Rules that are broken whatever dp would fill the devices.
    if (!filled && failure.messages.size() == before + 1 &&
        candidate.pp <= program.layers) {
      Candidate one = candidate, two = candidate;
      one.zeroRanks = 0;
      one.chunks = chunks;
      one.group = groupField(one.schedule, one.pp, flags.group);
      two = one;
      one.dp = 1;
      two.dp = 2;
      for (const Violation &violation : violationsOfAll(
               program,
               {planAt(program, from, one), planAt(program, from, two)}))
        failure.messages.emplace_back(violation.id, violation.message);
    }
    return false;
  }

  if (candidate.pp > program.layers && layers.empty()) {
    complain("--pp " + std::to_string(candidate.pp) + ": expected at most one "
             "stage a layer (" + std::to_string(program.layers) + ")",
             Diag::pp_at_most_layers);
    failure.kind = FailureKind::Usage;
    return false;
  }
  candidate.chunks = chunks;
  plan = planAt(program, from, candidate);
  plan.offloadActivations = flags.activations;
  plan.group = groupField(plan.schedule, plan.pp, flags.group);
  if (!layers.empty())
    plan.stages =
        stagesWith(program, layers, candidate.recompute, candidate.full);
  return true;
}

bool loadPlan(const std::string &path, const std::string &model, Plan &plan,
              Failure &failure) {
  std::string text;
  ModelSpec spec;
  std::vector<Plan> readings;
  if (!readText(path, text, failure))
    return false;
  if (!readPlan(text, path, plan, failure, &readings)) {
    Model known;
    Failure ignored;
    if (!readings.empty() &&
        loadModel(model, sequenceOfAll(readings), known, ignored))
      for (const Violation &violation :
           violationsOfAll(known.program, readings))
        failure.messages.emplace_back(violation.id,
                                      path + ": " + violation.message);
    return false;
  }
  if (!readHfConfig(model, spec, failure))
    return false;
  if (plan.modelName.empty() || plan.modelName == spec.name)
    return true;
  // Another name may be another folder. Asked here, as another model may not
  // even take the sequence of the plan.
  Model renamed;
  Failure ignored;
  if (loadModel(model, plan.sequence, renamed, ignored) &&
      renamed.sha256 == plan.modelSha256)
    return true;
  return refuse(failure, Diag::model_matches,
                path + "#/model/name: expected a plan of '" + spec.name +
                    "', but got one of '" + plan.modelName + "'");
}

void warnOfCluster(const std::string &path, const Plan &plan,
                   const Cluster &cluster, std::ostream &err) {
  if (!plan.clusterSha256.empty() && plan.clusterSha256 != cluster.sha256)
    warn(path + "#/cluster: the plan was made for '" + plan.clusterName +
             "', not for this '" + cluster.hardware.name + "'",
         err);
}

bool requireLegal(const std::string &what, const Program &program,
                  const Plan &plan, FailureKind kind, Failure &failure,
                  std::optional<Framework> framework) {
  std::vector<Violation> violations =
      checkPlan(program, plan, ModelCheck::NameAndSha256, framework);
  if (violations.empty())
    return true;
  failure.kind = worstKind(violations) == FailureKind::Unsupported
                     ? FailureKind::Unsupported
                     : kind;
  for (const Violation &violation : violations)
    failure.messages.emplace_back(
        violation.id, (what.empty() ? "" : what + ": ") + violation.message);
  return false;
}

} // namespace shardwright::tools
