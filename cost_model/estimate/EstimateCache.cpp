#include "cost_model/estimate/StageWork.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

namespace shardwright::cost {

namespace {

/// Everything that a fact of a layer may depend on.
using Key = std::array<int64_t, 13>;
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
  return key;
}

Key localKey(const Plan &plan, int64_t kind, Recompute policy,
             int64_t microBatch) {
  return {kind,    static_cast<int64_t>(policy),
          plan.tp, plan.cp,
          plan.sp, microBatch,
          plan.ep, plan.etp,
          localDp(plan), dtypesKey(plan.dtypes),
          plan.sequenceParts, plan.zeroRanks,
          0};
}

Key blockKey(const Plan &plan, int64_t kind) {
  Key key = localKey(plan, kind, Recompute::None, 0);
  key[8] = plan.dp;
  key[11] = 1 + plan.zero + 4 * plan.zeroRanks;
  key[12] = stageOwners(plan.schedule) > 1 ? plan.pp : 0;
  return key;
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

  /// Planned once for all sizes of microbatch.
  struct Planned {
    PlannedVariant variant;
    int64_t microBatch;
  };
  const PlannedVariant &planned(const Plan &local, const Kind &kind, int index,
                                Recompute policy) {
    const KindVariant &variant = kind.variant(policy);
    auto [entry, inserted] =
        variants.try_emplace(localKey(local, index, variant.policy, 0));
    Planned &planned = entry->second;
    if (inserted) {
      std::string why;
      if (!planVariant(local, kind, variant, planned.variant, why)) {
        std::fprintf(stderr, "shardwright: internal error: illegal plan: %s\n",
                     why.c_str());
        std::abort();
      }
    } else if (planned.microBatch != local.microBatch) {
      resizeVariant(local, variant, planned.variant);
    }
    planned.microBatch = local.microBatch;
    return planned.variant;
  }

  Map<LayerProfile> layers;
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
    entry->second = profileLayer(
        local, type, type.variant(policy),
        state->planned(local, type, kind, policy),
        state->planned(local, type, kind, Recompute::None), hardware, profile);
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
    entry->second = layerMemory(local, type, type.variant(policy),
                                state->planned(local, type, kind, policy));
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
        state->planned(local, type, kind, Recompute::None));
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
