#include "cost_model/estimate/LayerTimes.h"
#include "cost_model/estimate/StageWork.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <unordered_map>

namespace shardwright::cost {

namespace {

/// Everything that a fact of a layer may depend on.
using Key = std::array<int64_t, 14>;
struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t hash = 1469598103934665603u; // FNV-1a by words
    for (int64_t word : key)
      hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
    return hash ^ hash >> 29;
  }
};
template <typename Value>
using Map = std::unordered_map<Key, Value, KeyHash>;

/// Data ranks of the smallest plan whose layers do the same as those of
/// `plan`: what a layer does between its stream in and its stream out depends
/// on which mesh axes there are and on where experts live, but not on how many
/// data ranks repeat it.
int64_t localDp(const Plan &plan) {
  if (plan.zeroRanks > 0) // cuts dp, and so numbers the axes otherwise
    return plan.dp;
  const int64_t experts = plan.ep * plan.etp, inner = plan.tp * plan.cp;
  const int64_t needed = experts > inner ? experts / inner : 1;
  return plan.dp > needed ? 2 * needed : plan.dp;
}

int64_t dtypesKey(const DTypes &dtypes) {
  int64_t key = 0;
  for (DType type : {dtypes.param, dtypes.compute, dtypes.reduce, dtypes.grad,
                     dtypes.master})
    key = key * 8 + static_cast<int64_t>(type);
  return key * 4 + static_cast<int64_t>(dtypes.products);
}

Key localKey(const Plan &plan, int64_t kind, Recompute policy,
             int64_t microBatch) {
  return {kind,    static_cast<int64_t>(policy),
          plan.tp, plan.cp,
          plan.sp, microBatch,
          plan.ep, plan.etp,
          localDp(plan), dtypesKey(plan.dtypes),
          plan.cp > 1 ? 1 + static_cast<int64_t>(plan.cpKind) : 0,
          plan.zeroRanks,
          0,
          // Only where groups reach over what stands outside of the pipeline.
          plan.order == MeshOrder::DpPp && plan.ep * plan.etp > plan.cp * plan.tp
              ? plan.pp
              : 0};
}

/// What encodings depend on: which axes there are, of what they are part, and how
/// a sequence is split; not how large they are.
Key structureKey(const Plan &plan, int64_t kind, Recompute policy) {
  int64_t axes = 1;
  for (size_t i = 0; i < plan.mesh.size(); ++i) {
    int64_t degrees = 0;
    for (Degree degree : {Degree::Dp, Degree::Cp, Degree::Tp, Degree::Edp,
                          Degree::Ep, Degree::Etp})
      for (Axis axis : axesOfDegree(plan, degree))
        if (axis == i)
          degrees |= int64_t(1) << static_cast<int>(degree);
    axes = axes << 7 | degrees; // nothing: of size 1
  }
  return {kind, static_cast<int64_t>(policy), axes, plan.sp,
          plan.cp > 1 ? 1 + static_cast<int64_t>(plan.cpKind) : 0,
          static_cast<int64_t>(kvReplicaAxes(plan).size())};
}

/// What LayerPart::Rest depends on. Groups of experts lie `etp` ranks apart,
/// whatever the ranks between them are.
Key restKey(const Plan &plan, int64_t kind, Recompute policy, int64_t steps) {
  const int64_t common = std::gcd(plan.microBatch, plan.cp);
  Key key = localKey(plan, kind, policy, plan.microBatch / common);
  key[3] = plan.cp / common;
  key[8] = 0; // data ranks
  key[11] = steps;
  key[10] = plan.etp > plan.tp ? plan.cp : 1; // not the kind
  return key;
}

Key blockKey(const Plan &plan, int64_t kind) {
  Key key = localKey(plan, kind, Recompute::None, 0);
  key[8] = plan.dp;
  key[11] = 1 + plan.zero + 4 * plan.zeroRanks;
  key[12] = stageOwners(plan.schedule) > 1 ? plan.pp : 0;
  key[13] = plan.order == MeshOrder::DpPp ? plan.pp : 0;
  return key;
}

/// What LayerPart::Rest of a planned variant has of collectives.
struct RestSteps {
  /// One of them reaches over data ranks or parts of a sequence and is not of
  /// experts' rows: times depend on how many of them there are.
  bool reachesTokens = false;
  int64_t digest = 0; ///< of all: kinds of cp that leave the same share times
};

void addSteps(const Plan &plan, const Function &function,
              const PlannedFunction &planned, RestSteps &steps) {
  const std::vector<Axis> tokens = tokenAxes(plan),
                          parts = axesOfDegree(plan, Degree::Cp),
                          tensor = axesOfDegree(plan, Degree::Tp);
  const auto mix = [&](int64_t value) {
    steps.digest = static_cast<int64_t>(
        (static_cast<uint64_t>(steps.digest) ^ static_cast<uint64_t>(value)) *
        1099511628211u);
  };
  for (size_t value = 0; value < planned.values.size(); ++value)
    for (const ReshardStep &step : planned.values[value].reshards.steps) {
      const bool ofRows =
          step.dim >= 0 &&
          function.values[value].dims[static_cast<size_t>(step.dim)].role ==
              Role::Rows;
      const auto holds = [&](const std::vector<Axis> &axes) {
        return std::find_first_of(step.axes.begin(), step.axes.end(),
                                  axes.begin(), axes.end()) != step.axes.end();
      };
      if (step.collective == Collective::Slice ||
          (step.dim >= 0 && !ofRows && holds(parts)))
        continue; // of attention's core
      steps.reachesTokens =
          steps.reachesTokens || (!ofRows && holds(tokens));
      mix(static_cast<int64_t>(value) * 64 +
          static_cast<int64_t>(step.collective) * 8 + ofRows * 4 +
          holds(tensor) * 2);
    }
}

} // namespace

class EstimateCache::State {
public:
  /// `plan` on as few data ranks as do the same.
  const Plan &local(const Plan &plan) {
    const Key key = localKey(plan, 0, Recompute::None, plan.microBatch);
    if (key == localKeyOf)
      return localPlan;
    localKeyOf = key;
    localPlan = plan;
    localPlan.stages.clear();
    localPlan.zero = 0;
    localPlan.dp = localDp(plan);
    setMesh(localPlan);
    return localPlan;
  }

  /// Planned once for all sizes of degrees and microbatch.
  struct Planned {
    PlannedVariant variant;
    Key sizes; ///< for which it has local sizes
    RestSteps steps;
  };
  const Planned &planned(const Plan &local, const Kind &kind, int index,
                                Recompute policy) {
    const KindVariant &variant = kind.variant(policy);
    auto [entry, inserted] =
        variants.try_emplace(structureKey(local, index, variant.policy));
    Planned &planned = entry->second;
    const Key sizes = localKey(local, index, variant.policy, local.microBatch);
    if (inserted) {
      std::string why;
      if (!planVariant(local, kind, variant, planned.variant, why)) {
        std::fprintf(stderr, "shardwright: internal error: illegal plan: %s\n",
                     why.c_str());
        std::abort();
      }
      addSteps(local, variant.forward, planned.variant.forward, planned.steps);
      addSteps(local, variant.dataGrad, planned.variant.dataGrad,
               planned.steps);
      addSteps(local, variant.weightGrad, planned.variant.weightGrad,
               planned.steps);
    } else if (planned.sizes != sizes) {
      resizeVariant(local, variant, planned.variant);
    }
    planned.sizes = sizes;
    return planned;
  }

  /// Both parts of a variant.
  VariantTime times(const Plan &local, const Kind &kind, int index,
                    Recompute policy, const Hardware &hardware,
                    const Profile &profile) {
    const KindVariant &variant = kind.variant(policy);
    const Planned &own = planned(local, kind, index, policy);
    auto [entry, inserted] = rests.try_emplace(
        own.steps.reachesTokens
            ? localKey(local, index, variant.policy, -local.microBatch)
            : restKey(local, index, variant.policy, own.steps.digest));
    if (inserted)
      entry->second = timesOf(local, variant, own.variant, hardware, profile,
                              LayerPart::Rest);
    VariantTime time = entry->second;
    time.add(timesOf(local, variant, own.variant, hardware, profile,
                     LayerPart::Core));
    return time;
  }

  Map<LayerProfile> layers;
  Map<VariantTime> rests;
  Map<LayerMemory> memories;
  Map<std::vector<std::vector<Axis>>> axes;
  Map<ParameterBlock> blocks, sharedBlocks;
  Map<BlockTimes> transfers;

private:
  Key localKeyOf = {-1};
  Plan localPlan;
  Map<Planned> variants;
};

EstimateCache::EstimateCache() : state(std::make_unique<State>()) {}
EstimateCache::~EstimateCache() = default;

const LayerProfile &EstimateCache::layer(const Program &program,
                                         const Hardware &hardware,
                                         const Profile &profile,
                                         const Plan &plan, int kind,
                                         Recompute policy) {
  auto [entry, inserted] = state->layers.try_emplace(
      localKey(plan, kind, policy, plan.microBatch));
  if (inserted) {
    const Kind &type = program.kinds[static_cast<size_t>(kind)];
    const Plan &local = state->local(plan);
    const VariantTime without = state->times(local, type, kind, Recompute::None,
                                             hardware, profile);
    entry->second = profileLayer(
        local, type, type.variant(policy).policy,
        policy == Recompute::None
            ? without
            : state->times(local, type, kind, policy, hardware, profile),
        without, hardware, profile);
  }
  return entry->second;
}

const LayerMemory &EstimateCache::memory(const Program &program,
                                         const Plan &plan, int kind,
                                         Recompute policy) {
  auto [entry, inserted] = state->memories.try_emplace(
      localKey(plan, kind, policy, plan.microBatch));
  if (inserted) {
    const Kind &type = program.kinds[static_cast<size_t>(kind)];
    const Plan &local = state->local(plan);
    entry->second =
        layerMemory(local, type, type.variant(policy),
                    state->planned(local, type, kind, policy).variant);
  }
  return entry->second;
}

const std::vector<std::vector<Axis>> &
EstimateCache::reduceAxes(const Program &program, const Plan &plan, int kind) {
  auto [entry, inserted] =
      state->axes.try_emplace(localKey(plan, kind, Recompute::None, 0));
  if (inserted) {
    const Kind &type = program.kinds[static_cast<size_t>(kind)];
    const Plan &local = state->local(plan);
    entry->second = extraReduceAxesOf(
        local, type, type.variants.front(),
        state->planned(local, type, kind, Recompute::None).variant);
  }
  return entry->second;
}

const ParameterBlock &EstimateCache::block(const Program &program,
                                           const Plan &plan, int kind) {
  auto [entry, inserted] = state->blocks.try_emplace(blockKey(plan, kind));
  if (inserted)
    entry->second = blockOf(plan, program.kinds[static_cast<size_t>(kind)],
                            reduceAxes(program, plan, kind));
  return entry->second;
}

const BlockTimes &EstimateCache::times(const Program &program,
                                       const Hardware &hardware,
                                       const Profile &profile,
                                       const Plan &plan, int kind) {
  auto [entry, inserted] = state->transfers.try_emplace(blockKey(plan, kind));
  if (inserted)
    entry->second = blockTimes(plan, hardware, profile,
                               block(program, plan, kind));
  return entry->second;
}

const ParameterBlock &EstimateCache::shared(const Program &program,
                                            const Plan &plan, int64_t stage) {
  // The block depends on which kinds the stage runs, not on how many layers.
  int64_t kinds = 0;
  forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
    kinds |= int64_t(1) << kindIndex(program, run.kind);
  });
  auto [entry, inserted] =
      state->sharedBlocks.try_emplace(blockKey(plan, kinds));
  if (inserted)
    entry->second = sharedBlock(plan, program, stage);
  return entry->second;
}

} // namespace shardwright::cost
