#include "cost_model/ProgramEstimator.h"

#include "cost_model/LayerTable.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardwright::cost {

namespace {

bool isLayer(const Kind &kind) {
  return takesStream(kind) && givesStream(kind);
}

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

class ProgramEstimator::State {
public:
  State(const Program &program, const Hardware &hardware,
        const Profile &profile, const Plan &base)
      : program(program), hardware(hardware), profile(profile), base(base),
        policies(searchedPolicies(program)) {
    layerKinds = std::count_if(program.kinds.begin(), program.kinds.end(),
                               isLayer);
    int64_t layerRuns = 0;
    for (const Run &run : program.stack) {
      layerRuns += isLayer(program.kinds[run.kind]);
      for (const Parameter &parameter : program.kinds[run.kind].parameters)
        if (parameter.shared.empty())
          (parameter.segment == Segment::Experts ? expertElements : elements) +=
              static_cast<double>(run.count) *
              static_cast<double>(elementCount(parameter));
    }
    mixed = layerRuns > 1;
  }

  /// What all splits and policies under one Depth::State candidate share.
  struct Site {
    Plan plan; ///< stages without layers: embedding first, head last
    const LayerTable *table;
    std::map<std::pair<uint64_t, int64_t>, Bytes> stages; ///< see stageBytes
  };
  Site &site(const Candidate &c) {
    auto key = std::make_tuple(c.dp, c.tp, c.pp, c.ep, c.etp, c.sp,
                               c.microBatch, c.zero,
                               static_cast<int>(c.schedule));
    auto found = sites.find(key);
    if (found == sites.end()) {
      Site site;
      site.plan = planAt(program, base, c);
      site.plan.stages = stagesWith(program, std::vector<int64_t>(c.pp, 0),
                                    Recompute::None, -1);
      site.table = &table(site.plan);
      found = sites.emplace(key, std::move(site)).first;
    }
    return found->second;
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
                                          site.plan, *site.table, stage)
                          .total();
      std::swap(site.plan.stages, stages);
    }
    return entry->second;
  }

  /// Whether every stage can hold layers enough for all to find a place. With
  /// several kinds of layers that depends on where a stage begins, and each
  /// split is asked for itself.
  bool splitsFit(const Candidate &c, Bytes limit) {
    if (layerKinds > 1)
      return true;
    Site &site = this->site(c);
    const int64_t most = program.layers - c.pp + 1;
    int64_t placed = 0, count = 1;
    for (int64_t stage = 0; stage < c.pp; ++stage) {
      // More layers need more memory; neighbours hold nearly the same.
      while (count > 1 && stageBytes(site, c, stage, 0, count) >= limit)
        --count;
      if (count == 1 && stageBytes(site, c, stage, 0, 1) >= limit)
        return false;
      while (count < most && stageBytes(site, c, stage, 0, count + 1) < limit)
        ++count;
      placed += count;
    }
    return placed >= program.layers;
  }

  /// Parameters, gradients and optimizer state of the mean stage, and the
  /// stream that enters each of its layers once: some stage has as much.
  double leastBytes(const Candidate &c, Depth depth) const {
    const double dp = static_cast<double>(c.dp);
    const double pp = static_cast<double>(c.pp);
    const bool sharded = depth < Depth::State ? c.dp > 1 : c.zero >= 1;
    const double tp = static_cast<double>(c.tp);
    const auto bytesOf = [&](double parameters, double split) {
      const double perElement =
          static_cast<double>(byteWidth(base.dtypes.param)) +
          static_cast<double>(byteWidth(base.dtypes.grad)) +
          3.0 * static_cast<double>(byteWidth(base.dtypes.master)) /
              (sharded ? std::max(1.0, dp * tp / split) : 1.0);
      return parameters / split * perElement / pp;
    };
    double bytes = bytesOf(elements, tp) +
                   bytesOf(expertElements, static_cast<double>(c.ep * c.etp));
    if (depth >= Depth::Batch)
      bytes += static_cast<double>(program.layers) / pp *
               static_cast<double>(program.sequence) *
               static_cast<double>(program.hidden) *
               static_cast<double>(c.microBatch) *
               static_cast<double>(byteWidth(base.dtypes.compute)) /
               (c.sp ? static_cast<double>(c.tp) : 1.0);
    return bytes + static_cast<double>(profile.frameworkBytes.count());
  }

  /// Times of one layer, one microbatch, communication included.
  struct LayerTimes {
    double forward = 0, dataGrad = 0, weightGrad = 0;
    void add(const LayerTimes &other, double times) {
      forward += times * other.forward;
      dataGrad += times * other.dataGrad;
      weightGrad += times * other.weightGrad;
    }
    double all() const { return forward + dataGrad + weightGrad; }
  };
  LayerTimes timesOf(const Plan &plan, int kind, Recompute policy) {
    const LayerProfile &layer =
        cache.layer(program, hardware, profile, plan, kind, policy);
    return {layer.forwardAll().count(), layer.dataGradAll().count(),
            layer.weightGrad.count()};
  }

  /// Times of what the first and the last stage add, and of a layer that takes
  /// the policy or does without. Several kinds of layers: the cheapest.
  struct Work {
    LayerTimes entrance, exit, layer, plain;
  };
  const Work &work(const Candidate &c) {
    // Where experts live depends on the data ranks, too.
    auto key = std::make_tuple(c.tp, c.sp, c.microBatch,
                               static_cast<int>(c.recompute), c.ep, c.etp,
                               c.ep * c.etp > 1 ? c.dp : 0);
    if (lastWork && lastKey == key) // thousands of splits in a row ask
      return *lastWork;
    lastKey = key;
    auto found = works.find(key);
    if (found != works.end())
      return *(lastWork = &found->second);
    Work work;
    Plan plan = site(c).plan;
    bool any = false;
    for (size_t i = 0; i < program.stack.size(); ++i) {
      const Run &run = program.stack[i];
      const Kind &kind = program.kinds[run.kind];
      const double count = static_cast<double>(run.count);
      if (!isLayer(kind)) {
        (takesStream(kind) ? work.exit : work.entrance)
            .add(timesOf(plan, run.kind, Recompute::None), count);
        continue;
      }
      LayerTimes layer = timesOf(plan, run.kind, c.recompute);
      LayerTimes plain = timesOf(plan, run.kind, Recompute::None);
      auto least = [&](LayerTimes &so_far, const LayerTimes &next) {
        so_far = any ? LayerTimes{std::min(so_far.forward, next.forward),
                                  std::min(so_far.dataGrad, next.dataGrad),
                                  std::min(so_far.weightGrad, next.weightGrad)}
                     : next;
      };
      least(work.layer, layer);
      least(work.plain, plain);
      any = true;
    }
    return *(lastWork = &works.emplace(key, work).first->second);
  }

  static LayerTimes layersTime(const Work &work, const Candidate &c,
                               int64_t count) {
    int64_t policy = c.recompute == Recompute::Full && c.fullLayers >= 0
                         ? std::min(count, c.fullLayers)
                         : count;
    LayerTimes times;
    times.add(work.layer, static_cast<double>(policy));
    times.add(work.plain, static_cast<double>(count - policy));
    return times;
  }

  double microbatches(const Candidate &c) const {
    return static_cast<double>(base.globalBatch / (c.dp * c.microBatch));
  }

  /// Some stage has the mean of the layers at least, and runs every
  /// microbatch.
  double policyBound(const Candidate &c) {
    LayerTimes times =
        layersTime(work(c), c, ceilDiv(program.layers, c.pp));
    return microbatches(c) * times.all();
  }

  /// Stage i gets its first microbatch after the stages before it, and their
  /// backwards follow its last; before its own first backward the stages behind
  /// it have passed a microbatch there and back, and meanwhile it runs only the
  /// forwards that the schedule lets it run ahead (`ahead`, all of them under
  /// GPipe, where the last of them starts the way back). So for every i
  ///   T >= sum_{j != i} (f_j + d_j) + M (f_i + d_i + w_i) - w_i
  ///        - (ahead - 1) f_i   under 1F1B;
  /// transfers, reductions and the update only add. Of interior stages with
  /// equal layers the last has the least hidden, so four stages decide.
  double splitBound(const Candidate &c) {
    const Work &work = this->work(c);
    const double m = microbatches(c);
    const int64_t interior = c.pp - 2;
    const int64_t left = program.layers - c.firstLayers - c.lastLayers;
    LayerTimes first = layersTime(work, c, c.firstLayers);
    first.add(work.entrance, 1);
    if (c.pp == 1) {
      first.add(work.exit, 1);
      return m * first.all();
    }
    LayerTimes last = layersTime(work, c, c.lastLayers);
    last.add(work.exit, 1);
    LayerTimes small, large; // interior stages: the large ones come first
    int64_t larges = 0;
    if (interior > 0) {
      larges = left % interior;
      small = layersTime(work, c, left / interior);
      large = layersTime(work, c, left / interior + 1);
    }
    auto there = [](const LayerTimes &t) { return t.forward + t.dataGrad; };
    const double path = there(first) + there(last) +
                        static_cast<double>(larges) * there(large) +
                        static_cast<double>(interior - larges) * there(small);
    auto bound = [&](const LayerTimes &t, int64_t stage) {
      double ahead = std::min(m, static_cast<double>(c.pp - stage));
      double hidden = c.schedule == ScheduleKind::GPipe
                          ? 0
                          : (ahead - 1) * t.forward;
      return path - there(t) + m * t.all() - t.weightGrad - hidden;
    };
    double most = std::max(
        {m * first.all(), bound(first, 0), bound(last, c.pp - 1)});
    if (larges > 0)
      most = std::max(most, bound(large, larges));
    if (interior > larges)
      most = std::max(most, bound(small, interior));
    return most;
  }

  Seconds familyBound(const Candidate &c, Depth depth) {
    FixedFields fixed;
    fixed.dp = fixed.tp = fixed.pp = true;
    fixed.sp = fixed.microBatch = depth >= Depth::Batch;
    fixed.zero = depth >= Depth::State;
    fixed.recompute = depth >= Depth::Policy;
    Plan plan = planAt(program, base, c);
    return cost::lowerBound(program, hardware, profile, plan, fixed, &cache);
  }

  const LayerTable &table(const Plan &plan) {
    auto key = std::make_tuple(plan.dp, plan.tp, plan.ep, plan.etp, plan.sp,
                               plan.microBatch, plan.zero);
    auto found = tables.find(key);
    if (found == tables.end()) {
      Plan all = plan;
      Stage stage;
      for (const Kind &kind : program.kinds)
        for (Recompute policy : policies)
          if (policy == Recompute::None || isLayer(kind))
            stage.runs.push_back({kind.name, 1, policy});
      all.stages = {stage};
      found = tables.emplace(key, LayerTable(program, all)).first;
    }
    return found->second;
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan base;
  const std::vector<Recompute> policies;
  double elements = 0; ///< parameters that no stages share, without experts
  double expertElements = 0;
  bool mixed = false; ///< several kinds of layers: a stage is more than a count
  int64_t layerKinds = 1;
  EstimateCache cache;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, bool, int64_t, int>,
           LayerTable>
      tables;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool,
                      int64_t, int, int>,
           Site>
      sites;
  using WorkKey =
      std::tuple<int64_t, bool, int64_t, int, int64_t, int64_t, int64_t>;
  std::map<WorkKey, Work> works;
  WorkKey lastKey;
  const Work *lastWork = nullptr;
};

ProgramEstimator::ProgramEstimator(const Program &program,
                                   const Hardware &hardware,
                                   const Profile &profile, const Plan &base)
    : state(std::make_unique<State>(program, hardware, profile, base)) {}

ProgramEstimator::~ProgramEstimator() = default;

Plan ProgramEstimator::plan(const Candidate &candidate) const {
  return planAt(state->program, state->base, candidate);
}

std::vector<Violation>
ProgramEstimator::check(const Candidate &candidate) const {
  std::vector<Violation> violations =
      checkPlan(state->program, plan(candidate), ModelCheck::NameOnly);
  // Once each: a rule of stages would be told of every stage.
  std::vector<Violation> once;
  for (Violation &violation : violations)
    if (once.empty() || once.back().rule != violation.rule)
      once.push_back(std::move(violation));
  return once;
}

Bytes ProgramEstimator::memory(const Candidate &candidate) const {
  if (state->mixed) {
    const Plan plan = this->plan(candidate);
    const LayerTable &table = state->table(plan);
    Bytes most(0);
    for (int64_t stage = 0; stage < plan.pp; ++stage)
      most = std::max(most, estimateStageMemory(state->program, state->hardware,
                                                state->profile, plan, table,
                                                stage)
                                .total());
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

Estimate ProgramEstimator::estimate(const Candidate &candidate) const {
  const Plan plan = this->plan(candidate);
  Estimate estimate = estimateTime(state->program, state->hardware,
                                   state->profile, plan, &state->cache);
  const LayerTable &table = state->table(plan);
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    estimate.stages.push_back(
        estimateStageMemory(state->program, state->hardware, state->profile,
                            plan, table, stage));
  return estimate;
}

Seconds ProgramEstimator::lowerBound(const Candidate &candidate,
                                     Depth depth) const {
  switch (depth) {
  case Depth::Mesh:
  case Depth::Batch:
  case Depth::State:
    return state->familyBound(candidate, depth);
  case Depth::Policy:
    return Seconds(std::max(state->familyBound(candidate, depth).count(),
                            state->policyBound(candidate)));
  case Depth::Complete:
    return Seconds(state->splitBound(candidate));
  }
  return Seconds(0);
}

bool ProgramEstimator::mayFit(const Candidate &candidate, Depth depth,
                              Bytes limit) const {
  // The mean is a sum of doubles: a byte in a million is for rounding.
  if (state->leastBytes(candidate, depth) * (1 - 1e-6) >=
      static_cast<double>(limit.count()))
    return false;
  return depth < Depth::Policy || state->mixed ||
         state->splitsFit(candidate, limit);
}

} // namespace shardwright::cost
