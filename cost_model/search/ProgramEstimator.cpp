#include "cost_model/search/ProgramEstimator.h"

#include "cost_model/partition/LayerTable.h"
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

namespace shardwright::cost {

namespace {

bool hasVariant(const Kind &kind, Recompute policy) {
  return std::any_of(
      kind.variants.begin(), kind.variants.end(),
      [&](const KindVariant &variant) { return variant.policy == policy; });
}

} // namespace

std::vector<Recompute> searchedPolicies(const Program &program) {
  std::vector<Recompute> policies;
  for (Recompute policy :
       {Recompute::None, Recompute::Selective, Recompute::Full})
    if (std::all_of(program.kinds.begin(), program.kinds.end(),
                    [&](const Kind &kind) {
                      return !isRepeated(kind) || hasVariant(kind, policy);
                    }))
      policies.push_back(policy);
  return policies;
}

void setModel(SearchOptions &options, const Program &program) {
  options.layers = program.layers;
  options.experts = program.experts;
  options.policies = searchedPolicies(program);
  if (program.experts == 0)
    return;
  options.expertFfn = 0;
  for (int64_t width : ffnWidths(program, /*experts=*/true))
    options.expertFfn = std::gcd(options.expertFfn, width);
}

class ProgramEstimator::State {
public:
  State(const Program &program, const Hardware &hardware,
        const Profile &profile, const Plan &base, Framework framework,
        const std::vector<ScheduleKind> &schedules,
        const std::vector<DType> &gradients, bool offloads)
      : framework(framework), schedules(schedules), gradients(gradients),
        offloads(offloads), program(program), hardware(hardware),
        profile(profile), base(base), policies(searchedPolicies(program)),
        bounds(program, hardware, profile, base, policies, schedules,
               gradients, offloads, cache) {
    layerKinds = std::count_if(program.kinds.begin(), program.kinds.end(),
                               isRepeated);
  }
  /// For another thread.
  explicit State(const State &other)
      : framework(other.framework), schedules(other.schedules),
        gradients(other.gradients), offloads(other.offloads),
        program(other.program), hardware(other.hardware),
        profile(other.profile), base(other.base), policies(other.policies),
        layerKinds(other.layerKinds), cache(&other.cache),
        bounds(program, hardware, profile, base, policies, schedules, gradients,
               offloads, cache, &other.bounds) {}

  /// What all splits and policies under one Depth::State candidate share.
  struct Site {
    Candidate key;
    Plan plan; ///< stages without layers: embedding first, head last
    LayerTable table;
    const ScheduleFacts *facts;
    std::map<std::pair<uint64_t, int64_t>, Bytes> stages; ///< see stageBytes
  };
  /// Facts for memory only: collectives and flops are left out.
  LayerTable tableOf(const Plan &plan) {
    return LayerTable(program, policies, [&](int kind, Recompute policy) {
      LayerFacts facts;
      facts.extraReduceAxes = cache.reduceAxes(program, plan, kind);
      facts.block = cache.block(program, plan, kind);
      facts.memory = cache.memory(program, plan, kind, policy);
      return facts;
    });
  }
  Site &site(const Candidate &c) {
    Candidate key = c;
    key.recompute = Recompute::None;
    key.fullLayers = -1;
    key.firstLayers = key.lastLayers = 0;
    if (!current || current->key != key) {
      Plan plan = base;
      setDegrees(program, plan, c);
      plan.stages = stagesWith(program, std::vector<int64_t>(c.pp, 0),
                               Recompute::None, -1);
      LayerTable table = tableOf(plan);
      current = std::make_unique<Site>(
          Site{key, plan, std::move(table), &scheduleOf(plan), {}});
    }
    return *current;
  }

  /// Memory of a rank of `stage` that holds `count` layers from layer `before`
  /// on, which matters only if there are several kinds of layers.
  Bytes stageBytes(Site &site, const Candidate &c, int64_t stage,
                   int64_t before, int64_t count) {
    if (layerKinds == 1)
      before = 0;
    int64_t full = c.recompute == Recompute::Full && c.fullLayers >= 0 &&
                           c.fullLayers < count
                       ? c.fullLayers
                       : -1;
    // Layers, stages and policies are far fewer than 2^20, 2^20 and 2^2.
    uint64_t key = static_cast<uint64_t>(c.recompute) << 60 |
                   static_cast<uint64_t>(full + 1) << 40 |
                   static_cast<uint64_t>(stage) << 20 |
                   static_cast<uint64_t>(count);
    auto [entry, inserted] = site.stages.try_emplace(std::make_pair(key, before));
    if (inserted) {
      std::vector<int64_t> counts(c.pp, 0);
      if (stage > 0)
        counts[stage - 1] = before;
      counts[stage] = count;
      std::vector<Stage> stages =
          stagesWith(program, counts, c.recompute, full);
      std::swap(site.plan.stages, stages);
      entry->second = estimateStageMemory(program, hardware, profile,
                                          site.plan, site.table, stage, site.facts)
                          .total();
      std::swap(site.plan.stages, stages);
    }
    return entry->second;
  }

  const ScheduleFacts &scheduleOf(const Plan &plan) {
    auto [entry, inserted] = facts.try_emplace(
        {static_cast<int64_t>(plan.schedule), plan.pp, plan.microbatches(),
         plan.chunks, plan.group});
    if (inserted)
      entry->second = scheduleFacts(plan);
    return entry->second;
  }

  const Framework framework;
  const std::vector<ScheduleKind> schedules;
  const std::vector<DType> gradients;
  const bool offloads;
  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan base;
  const std::vector<Recompute> policies;
  int64_t layerKinds = 1;
  EstimateCache cache;
  StageBounds bounds;
  std::unique_ptr<Site> current;
  std::map<std::array<int64_t, 5>, ScheduleFacts> facts;
};

ProgramEstimator::ProgramEstimator(const Program &program,
                                   const Hardware &hardware,
                                   const Profile &profile, const Plan &base,
                                   Framework framework,
                                   const std::vector<ScheduleKind> &schedules,
                                   const std::vector<DType> &gradients,
                                   bool offloads)
    : state(std::make_unique<State>(program, hardware, profile, base, framework,
                                    schedules, gradients, offloads)) {}

ProgramEstimator::ProgramEstimator(std::unique_ptr<State> state)
    : state(std::move(state)) {}

ProgramEstimator::~ProgramEstimator() = default;

Plan ProgramEstimator::plan(const Candidate &candidate) const {
  return planAt(state->program, state->base, candidate);
}

std::vector<Violation>
ProgramEstimator::check(const Candidate &candidate, Depth depth) const {
  Plan lawful = plan(candidate);
  if (depth == Depth::Mesh) // sp is not chosen yet
    lawful.sp = lawful.sp || (candidate.tp > 1 &&
                              factsOf(state->framework).tensorNeedsSequence);
  lawful.zero = factsOf(state->framework).zeroUnderPipeline.front();
  std::vector<Violation> violations =
      checkPlan(state->program, lawful, ModelCheck::NameOnly,
                state->framework == Framework::Native
                    ? std::nullopt // prices more than it compiles
                    : std::optional(state->framework));
  if (depth == Depth::Mesh) // cpKind is not chosen yet
    std::erase_if(violations, [](const Violation &violation) {
      return violation.id == Diag::heads_divisible_by_cp ||
             violation.id == Diag::ring_sees_all ||
             violation.id == Diag::cp_of_framework;
    });
  // Once each: a rule of stages would be told of every stage.
  std::vector<Violation> once;
  for (Violation &violation : violations)
    if (once.empty() || once.back().rule != violation.rule)
      once.push_back(std::move(violation));
  return once;
}

Bytes ProgramEstimator::memory(const Candidate &candidate) const {
  if (candidate.chunks > 1) { // one split: nothing to share with others
    Bytes most(0);
    for (const StageEstimate &stage : estimateOfStages(candidate))
      most = std::max(most, stage.total());
    return most;
  }
  const std::vector<int64_t> counts =
      layersPerStage(candidate, state->program.layers);
  State::Site &site = state->site(candidate);
  Bytes most(0);
  int64_t before = 0;
  for (int64_t stage = 0; stage < candidate.pp; ++stage) {
    most = std::max(most, state->stageBytes(site, candidate, stage, before,
                                            counts[stage]));
    before += counts[stage];
  }
  return most;
}

bool ProgramEstimator::fits(const Candidate &candidate, Bytes limit) const {
  if (candidate.chunks > 1)
    return memory(candidate) < limit;
  const std::vector<int64_t> counts =
      layersPerStage(candidate, state->program.layers);
  State::Site &site = state->site(candidate);
  int64_t before = 0;
  for (int64_t stage = 0; stage < candidate.pp; ++stage) {
    if (state->stageBytes(site, candidate, stage, before, counts[stage]) >=
        limit)
      return false;
    before += counts[stage];
  }
  return true;
}

Seconds ProgramEstimator::time(const Candidate &candidate) const {
  return estimateTime(state->program, state->hardware, state->profile,
                      plan(candidate), &state->cache)
      .stepTime;
}

std::vector<StageEstimate>
ProgramEstimator::estimateOfStages(const Candidate &candidate) const {
  const Plan plan = this->plan(candidate);
  const LayerTable table = state->tableOf(plan);
  std::vector<StageEstimate> stages;
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    stages.push_back(estimateStageMemory(state->program, state->hardware,
                                         state->profile, plan, table, stage,
                                         &state->scheduleOf(plan)));
  return stages;
}

Estimate ProgramEstimator::estimate(const Candidate &candidate) const {
  Estimate estimate =
      estimateTime(state->program, state->hardware, state->profile,
                   plan(candidate), &state->cache);
  estimate.stages = estimateOfStages(candidate);
  return estimate;
}

Seconds ProgramEstimator::lowerBound(const Candidate &candidate,
                                     Depth depth) const {
  return Seconds(state->bounds.time(candidate, depth));
}

Seconds ProgramEstimator::roughBound(const Candidate &candidate,
                                     Rough rough) const {
  return Seconds(state->bounds.roughTime(candidate, rough));
}

SplitBox ProgramEstimator::box(const Candidate &candidate,
                               Seconds atMost) const {
  return state->bounds.box(candidate, atMost.count());
}

bool ProgramEstimator::mayFit(const Candidate &candidate, Depth depth,
                              Bytes limit) const {
  // Sums of doubles: a byte in a million is for rounding.
  const double most = static_cast<double>(limit.count()) * (1 + 1e-6);
  return state->bounds.meshBytes(candidate, depth) < most &&
         (depth != Depth::Batch || state->bounds.endsFit(candidate, most)) &&
         (depth < Depth::Policy ||
          (depth == Depth::Policy ? state->bounds.splitsFit(candidate, most)
                                  : state->bounds.layersFit(candidate, most)));
}

std::unique_ptr<Estimator> ProgramEstimator::another() const {
  return std::unique_ptr<Estimator>(
      new ProgramEstimator(std::make_unique<State>(*state)));
}

} // namespace shardwright::cost
