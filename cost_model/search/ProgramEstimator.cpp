#include "cost_model/search/ProgramEstimator.h"

#include "cost_model/partition/LayerTable.h"
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <array>
#include <functional>
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
                      return !isLayer(kind) || hasVariant(kind, policy);
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
                               isLayer);
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
    /// Of ranks that run several: by rank and, of each, what it holds.
    std::map<std::vector<int64_t>, Bytes> ranks;
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
    key.full.clear();
    key.firstLayers = key.lastLayers = 0;
    if (!current || current->key != key) {
      Plan plan = base;
      setDegrees(program, plan, c);
      plan.stages = stagesWith(program, std::vector<int64_t>(c.pp, 0),
                               Recompute::None);
      LayerTable table = tableOf(plan);
      current = std::make_unique<Site>(
          Site{key, plan, std::move(table), &scheduleOf(plan), {}, {}});
    }
    return *current;
  }

  /// Memory of a rank of `stage` that holds `count` layers from layer `before`
  /// on, which matters only if there are several kinds of layers; under Full the
  /// first `full` of them recompute.
  Bytes stageBytes(Site &site, Recompute policy, int64_t stage, int64_t before,
                   int64_t count, int64_t full) {
    if (layerKinds == 1)
      before = 0;
    if (policy != Recompute::Full)
      full = 0;
    else if (full == 0)
      policy = Recompute::None;
    // Layers, stages and policies are far fewer than 2^20, 2^20 and 2^2.
    uint64_t key = static_cast<uint64_t>(policy) << 60 |
                   static_cast<uint64_t>(full) << 40 |
                   static_cast<uint64_t>(stage) << 20 |
                   static_cast<uint64_t>(count);
    auto [entry, inserted] = site.stages.try_emplace(std::make_pair(key, before));
    if (inserted) {
      std::vector<int64_t> counts(site.plan.stages.size(), 0);
      if (stage > 0)
        counts[stage - 1] = before;
      counts[stage] = count;
      std::vector<Stage> stages =
          stagesWith(program, counts, policy,
                     std::vector<int64_t>(counts.size(), full));
      std::swap(site.plan.stages, stages);
      entry->second = estimateStageMemory(program, hardware, profile,
                                          site.plan, site.table, stage, site.facts)
                          .total();
      std::swap(site.plan.stages, stages);
    }
    return entry->second;
  }

  /// Memory of `rank` of the pipeline.
  Bytes rankBytes(Site &site, const Candidate &c,
                  const std::vector<int64_t> &counts,
                  const std::vector<int64_t> &full, int64_t rank) {
    if (c.chunks == 1)
      return stageBytes(
          site, c.recompute, rank,
          std::accumulate(counts.begin(), counts.begin() + rank, int64_t(0)),
          counts[rank], full.empty() ? counts[rank] : full[rank]);
    std::vector<int64_t> key{static_cast<int64_t>(c.recompute), rank};
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
      const int64_t stage = stageAt(c.schedule, c.pp, {rank, chunk});
      key.push_back(counts[stage]);
      key.push_back(full.empty() ? counts[stage] : full[stage]);
      if (layerKinds > 1) // it matters which layers
        key.push_back(std::accumulate(counts.begin(), counts.begin() + stage,
                                      int64_t(0)));
    }
    const auto [entry, inserted] = site.ranks.try_emplace(std::move(key));
    if (inserted) {
      std::vector<Stage> stages =
          stagesWith(program, counts, c.recompute, full);
      std::swap(site.plan.stages, stages);
      entry->second = estimateStageMemory(program, hardware, profile, site.plan,
                                          site.table, rank, site.facts)
                          .total();
      std::swap(site.plan.stages, stages);
    }
    return entry->second;
  }

  const ScheduleFacts &scheduleOf(const Plan &plan) {
    return cache.schedules.facts(plan.schedule, plan.pp, plan.chunks,
                                 plan.microbatches(), plan.group);
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

namespace {

/// Ranks of a pipeline that hold the same stages: all that decides how many of
/// their layers recompute.
struct Holders {
  std::vector<int64_t> ranks, stages;
};

std::vector<Holders> holdersOf(const Candidate &c, bool alike) {
  std::vector<Holders> groups;
  for (int64_t rank = 0; rank < c.pp; ++rank) {
    std::vector<int64_t> stages;
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk)
      stages.push_back(stageAt(c.schedule, c.pp, {rank, chunk}));
    const auto same = std::find_if(
        groups.begin(), groups.end(), [&](const Holders &other) {
          return alike || std::is_permutation(stages.begin(), stages.end(),
                                              other.stages.begin(),
                                              other.stages.end());
        });
    if (same == groups.end()) {
      groups.push_back({{rank}, stages});
      continue;
    }
    same->ranks.push_back(rank);
    if (alike)
      same->stages.insert(same->stages.end(), stages.begin(), stages.end());
  }
  return groups;
}

/// Lets the stages of `group` recompute `layers` in all, one each in turn.
void recompute(const Holders &group, const std::vector<int64_t> &counts,
               int64_t layers, std::vector<int64_t> &full) {
  for (int64_t stage : group.stages)
    full[stage] = 0;
  for (int64_t turn = 0; layers > 0; ++turn)
    for (int64_t stage : group.stages)
      if (turn < counts[stage] && layers > 0) {
        ++full[stage];
        --layers;
      }
}

/// The least of 0 .. `most` that is allowed and fits; -1 if none is. `steadily`:
/// from 1 on what fits does with more, too.
int64_t leastThatFits(int64_t most, bool steadily,
                      const std::function<bool(int64_t)> &isAllowed,
                      const std::function<bool(int64_t)> &fits) {
  if (isAllowed(0) && fits(0))
    return 0;
  if (steadily && !fits(most))
    return -1;
  int64_t least = 1;
  for (int64_t end = steadily ? most + 1 : least; least < end;) {
    const int64_t middle = least + (end - least) / 2;
    if (fits(middle))
      end = middle;
    else
      least = middle + 1;
  }
  while (least <= most && !(isAllowed(least) && fits(least)))
    ++least;
  return least <= most ? least : -1;
}

} // namespace

std::optional<Candidate>
ProgramEstimator::settle(const Candidate &candidate,
                         const FullRule &rule) const {
  Candidate point = candidate;
  point.full.clear();
  const std::vector<int64_t> counts =
      layersPerStage(point, state->program.layers);
  State::Site &site = state->site(point);
  const auto fits = [&](int64_t rank) {
    return staysBelow(state->rankBytes(site, point, counts, point.full, rank),
                      rule.limit);
  };
  if (point.recompute != Recompute::Full) {
    for (int64_t rank = 0; rank < point.pp; ++rank)
      if (!fits(rank))
        return std::nullopt;
    return point;
  }
  point.full.assign(counts.size(), 0);
  for (const Holders &group : holdersOf(point, rule.alike)) {
    const auto set = [&](int64_t n) {
      if (!rule.alike)
        return recompute(group, counts, n, point.full);
      for (size_t stage = 0; stage < counts.size(); ++stage)
        point.full[stage] = std::min(n, counts[stage]);
    };
    const auto isAllowed = [&](int64_t n) {
      set(n);
      return std::all_of(group.stages.begin(), group.stages.end(),
                         [&](int64_t stage) {
                           return rule.allows(point.full[stage], counts[stage]);
                         });
    };
    int64_t most = 0;
    for (int64_t stage : group.stages)
      most = rule.alike ? std::max(most, counts[stage]) : most + counts[stage];
    // The first layer of another kind to recompute needs its own workspace.
    const bool steadily = state->layerKinds == 1;
    const int64_t n =
        leastThatFits(most, steadily, isAllowed, [&](int64_t layers) {
          set(layers);
          return std::all_of(group.ranks.begin(), group.ranks.end(), fits);
        });
    if (n < 0)
      return std::nullopt;
    set(n);
  }
  return point;
}

Bytes ProgramEstimator::memory(const Candidate &candidate) const {
  const std::vector<int64_t> counts =
      layersPerStage(candidate, state->program.layers);
  State::Site &site = state->site(candidate);
  Bytes most(0);
  for (int64_t rank = 0; rank < candidate.pp; ++rank)
    most = std::max(most, state->rankBytes(site, candidate, counts,
                                           candidate.full, rank));
  return most;
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

Seconds ProgramEstimator::lowerBound(const Candidate &candidate, Depth depth,
                                     const FullRule &rule,
                                     Seconds enough) const {
  return Seconds(state->bounds.time(candidate, depth, rule, enough.count()));
}

Seconds ProgramEstimator::roughBound(const Candidate &candidate,
                                     Rough rough) const {
  return Seconds(state->bounds.roughTime(candidate, rough));
}

/// Most splits are outside of what the time lets stages hold.
std::vector<BoundedSplit>
ProgramEstimator::within(const Candidate &policy,
                         const std::vector<Split> &splits, const FullRule &rule,
                         Seconds atMost) const {
  return Estimator::within(
      policy, state->bounds.within(policy, splits, atMost.count(), rule), rule,
      atMost);
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
