#include "cost_model/base/SharedMap.h"
#include "cost_model/estimate/LayerTimes.h"
#include "cost_model/estimate/StageWork.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace shardwright::cost {

namespace {

/// Everything that a fact of a layer may depend on.
using Key = LayersKey;
template <typename Value> using Map = SharedMap<std::tuple_size_v<Key>, Value>;

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

int64_t cpKindKey(const Plan &plan) {
  return plan.cp > 1 ? 1 + static_cast<int64_t>(plan.cpKind) : 0;
}

Key localKey(const Plan &plan, int64_t kind, Recompute policy,
             int64_t microBatch) {
  return {kind,    static_cast<int64_t>(policy),
          plan.tp, plan.cp,
          plan.sp, microBatch,
          plan.ep, plan.etp,
          localDp(plan), dtypesKey(plan.dtypes),
          cpKindKey(plan),
          plan.zeroRanks,
          0,
          plan.order == MeshOrder::DpPp ? plan.pp : 0};
}

/// What a layer holds does not ask where ranks lie, nor how many repeat it.
Key memoryKeyOf(const Plan &plan, int64_t kind, Recompute policy) {
  Key key = localKey(plan, kind, policy, plan.microBatch);
  key[8] = key[11] = key[13] = 0; // data ranks, copies, order of the mesh
  return key;
}

/// Those over which a layer is split.
constexpr Degree layerDegrees[] = {Degree::Dp,  Degree::Cp, Degree::Tp,
                                   Degree::Edp, Degree::Ep, Degree::Etp};

/// What encodings depend on: which axes there are, of what they are part, and how
/// a sequence is split; not how large they are.
struct Structure {
  int64_t axes = 0, replicas = 0;
};
Structure structureOf(const Plan &plan) {
  Structure structure{1, static_cast<int64_t>(kvReplicaAxes(plan).size())};
  std::array<int64_t, 16> degrees{};
  for (Degree degree : layerDegrees)
    for (Axis axis : axesOfDegree(plan, degree))
      degrees[axis] |= int64_t(1) << static_cast<int>(degree);
  for (size_t i = 0; i < plan.mesh.size(); ++i)
    structure.axes = structure.axes << 7 | degrees[i]; // nothing: of size 1
  return structure;
}
Key structureKey(const Plan &plan, const Structure &structure, int64_t kind,
                 Recompute policy) {
  return {kind,    static_cast<int64_t>(policy), structure.axes,
          plan.sp, cpKindKey(plan),              structure.replicas};
}

Key blockKey(const Plan &plan, int64_t kind) {
  Key key = localKey(plan, kind, Recompute::None, 0);
  key[8] = plan.dp;
  key[11] = 1 + plan.zero + 4 * plan.zeroRanks;
  key[12] = stageOwners(plan.schedule) > 1 ? plan.pp : 0;
  key[13] = plan.order == MeshOrder::DpPp ? plan.pp : 0;
  return key;
}

/// What the parts of a planned variant depend on.
struct Traits {
  /// A collective of LayerPart::Moves reaches over data ranks or parts of a
  /// sequence and is not of experts' rows: how many there are matters.
  bool reachesTokens = false;
  /// One reaches over data ranks, of experts or others: their place matters.
  bool reachesData = false;
  /// So does how many data ranks repeat the layer: something is split over a part
  /// of these, or a collective reaches over them.
  bool asksRepeats = false;
  bool experts = false;   ///< some op is theirs, or routes to them
  bool core = false;      ///< LayerPart::Core is not empty
  /// Of the collectives of Moves: kinds of cp that leave the same share times;
  /// `moved` also of what they move, and between whom.
  int64_t digest = 0, moved = 0;
  /// How the operands and results of Ops are split: an op between experts and
  /// others follows both.
  int64_t splits = 0;
};

/// Of sets of axes, which degrees they hold as a whole and which in part.
class DegreeMasks {
public:
  explicit DegreeMasks(const Plan &plan) {
    for (Degree degree : layerDegrees)
      degrees.push_back(axesOfDegree(plan, degree));
  }
  int64_t of(const Axes &axes) const {
    int64_t mask = 1;
    for (const Axes &degree : degrees) {
      size_t held = 0;
      for (Axis axis : degree)
        held += std::find(axes.begin(), axes.end(), axis) != axes.end();
      mask = mask << 2 | (held > 0) << 1 | (held == degree.size());
    }
    return mask;
  }

private:
  std::vector<Axes> degrees;
};

void addSteps(const Plan &plan, const Function &function,
              const FunctionFacts &facts, const PlannedFunction &planned,
              Traits &steps) {
  for (const Op &op : function.ops) {
    steps.experts = steps.experts || op.segment == Segment::Experts ||
                    op.segment == Segment::Router;
  }
  for (LayerPart part : facts.parts)
    steps.core = steps.core || part == LayerPart::Core;
  const Axes tokens = tokenAxes(plan),
                          data = axesOfDegree(plan, Degree::Dp),
                          parts = axesOfDegree(plan, Degree::Cp),
                          tensor = axesOfDegree(plan, Degree::Tp);
  const auto mixInto = [](int64_t &digest, int64_t value) {
    digest = static_cast<int64_t>(
        (static_cast<uint64_t>(digest) ^ static_cast<uint64_t>(value)) *
        1099511628211u);
  };
  const DegreeMasks masks(plan);
  const auto common = [](const Axes &some,
                         const Axes &others) {
    return std::find_first_of(some.begin(), some.end(), others.begin(),
                              others.end()) != some.end();
  };
  const auto mixSplit = [&](const Encoding &encoding) {
    for (const Axes &axes : encoding.dims)
      mixInto(steps.splits, common(axes, data) + 2 * common(axes, parts) +
                                4 * common(axes, tensor) + 8);
  };
  for (size_t i = 0; i < function.ops.size(); ++i) {
    if (facts.parts[i] != LayerPart::Ops)
      continue;
    for (const Encoding &encoding : planned.ops[i].operands)
      mixSplit(encoding);
    for (size_t k = 0; k < planned.ops[i].results.size(); ++k) {
      mixSplit(planned.ops[i].results[k]);
      const auto value = static_cast<size_t>(function.ops[i].results[k]);
      mixInto(steps.splits, planned.values[value].reshards.steps.empty());
    }
  }
  Axes repeats; // data axes over which layers only repeat
  for (Axis axis : axesOfDegree(plan, Degree::Edp))
    if (std::find(data.begin(), data.end(), axis) != data.end())
      repeats.push_back(axis);
  const auto mixMoved = [&](const Value &value, const Encoding &encoding) {
    for (size_t i = 0; i < value.dims.size(); ++i) {
      const Axes &axes = encoding.dims[i];
      mixInto(steps.moved, masks.of(axes));
      const Role role = value.dims[i].role;
      const bool ofTokens = role == Role::Batch || role == Role::Rows;
      for (Axis axis : repeats)
        if (ofTokens !=
            (std::find(axes.begin(), axes.end(), axis) != axes.end()))
          steps.asksRepeats = true;
    }
  };
  for (size_t value = 0; value < planned.values.size(); ++value)
    for (const ReshardStep &step : planned.values[value].reshards.steps) {
      const Value &type = function.values[value];
      const bool ofRows =
          step.dim >= 0 &&
          type.dims[static_cast<size_t>(step.dim)].role == Role::Rows;
      const auto holds = [&](const Axes &axes) {
        return common(step.axes, axes);
      };
      if (step.collective == Collective::Slice ||
          (step.dim >= 0 && !ofRows && holds(parts)))
        continue; // of attention's core
      steps.reachesTokens =
          steps.reachesTokens || (!ofRows && holds(tokens));
      steps.reachesData = steps.reachesData || holds(data);
      steps.asksRepeats = steps.asksRepeats || holds(repeats);
      const int64_t word = static_cast<int64_t>(value) * 64 +
                           static_cast<int64_t>(step.collective) * 8 +
                           ofRows * 4 + holds(tensor) * 2;
      mixInto(steps.digest, word);
      mixInto(steps.moved, word);
      mixInto(steps.moved, masks.of(step.axes));
      mixMoved(type, step.source == 0
                         ? planned.encodings[value]
                         : planned.values[value]
                               .reshards.steps[step.source - 1]
                               .result);
    }
}

/// What LayerPart::Core depends on.
Key coreKey(const Plan &plan, int64_t kind, Recompute policy) {
  Key key = localKey(plan, kind, policy, plan.microBatch);
  key[6] = key[7] = 1;                    // experts
  key[8] = key[11] = key[13] = 0;         // data ranks, copies, pipeline
  return key;
}

/// What LayerPart::Experts depends on: how many tokens a rank has, not which.
Key expertsKey(const Plan &plan, int64_t kind, Recompute policy,
           const Traits &traits) {
  Key key = localKey(plan, kind, policy, plan.microBatch);
  if (!traits.experts)
    key[6] = key[7] = 1;
  const int64_t common = std::gcd(plan.microBatch, plan.cp);
  key[3] = plan.cp / common;
  key[5] = plan.microBatch / common;
  key[8] = 0; // data ranks
  key[10] = traits.experts && plan.etp > plan.tp ? plan.cp : 1; // not the kind
  key[11] = traits.digest;
  key[13] = 0; // the order of the mesh
  return key;
}

/// What LayerPart::Ops depends on.
Key opsKey(const Plan &plan, int64_t kind, Recompute policy,
           const Traits &traits) {
  Key key = expertsKey(plan, kind, policy, traits);
  key[6] = key[7] = key[10] = 1;
  key[8] = traits.splits;
  return key;
}

/// What LayerPart::Moves depends on. Groups of experts lie `etp` ranks apart,
/// whatever the ranks between them are.
Key movesKey(const Plan &plan, int64_t kind, Recompute policy,
             const Traits &traits) {
  Key key = expertsKey(plan, kind, policy, traits);
  if (traits.reachesTokens) {
    key[3] = plan.cp;
    key[5] = plan.microBatch;
    key[10] = 0; // the kind of cp
    key[11] = traits.moved;
    key[12] = 1;
  }
  if (traits.asksRepeats)
    key[8] = localDp(plan);
  if (traits.reachesData && plan.order == MeshOrder::DpPp)
    key[13] = plan.pp;
  return key;
}

} // namespace

/// What threads share.
class EstimateCache::Shared {
public:
  Map<LayerProfile> layers;
  Map<VariantTime> ops, experts, leastExperts, moves, cores;
  Map<LayerMemory> memories;
  Map<std::vector<Axes>> axes;
  Map<ParameterBlock> blocks, sharedBlocks;
  Map<BlockTimes> transfers;
};

/// What a thread works with.
class EstimateCache::State {
public:
  explicit State(std::shared_ptr<Shared> shared) : shared(std::move(shared)) {}
  const std::shared_ptr<Shared> shared;

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
    structure = structureOf(localPlan);
    return localPlan;
  }

  /// Planned once for all sizes of degrees and microbatch.
  struct Planned {
    PlannedVariant variant;
    VariantFacts facts;
    Key sizes; ///< for which it has local sizes
    Traits traits;
    std::optional<Temporaries> temporaries; ///< of a plan that had memory()
  };
  /// A variant planned for the structure of `local`, the plan that local() gave
  /// last; its local sizes may be those of another plan.
  Planned &ofAnySize(const Plan &local, const Kind &kind, int index,
                     Recompute policy) {
    const KindVariant &variant = kind.variant(policy);
    auto [entry, inserted] = variants.try_emplace(
        structureKey(local, structure, index, variant.policy));
    Planned &planned = entry->second;
    if (inserted) {
      planned.variant = plannedVariant(local, kind, variant);
      planned.facts = factsOf(variant);
      addSteps(local, variant.forward, planned.facts.forward,
               planned.variant.forward, planned.traits);
      addSteps(local, variant.dataGrad, planned.facts.dataGrad,
               planned.variant.dataGrad, planned.traits);
      addSteps(local, variant.weightGrad, planned.facts.weightGrad,
               planned.variant.weightGrad, planned.traits);
      planned.sizes = localKey(local, index, variant.policy, local.microBatch);
    }
    return planned;
  }
  LayerMemory memory(const Plan &local, const Kind &kind, int index,
                     Recompute policy) {
    const KindVariant &variant = kind.variant(policy);
    Planned &planned = ofAnySize(local, kind, index, policy);
    if (planned.temporaries)
      resize(*planned.temporaries, local, variant, planned.variant);
    else
      planned.temporaries = temporariesOf(local, variant, planned.variant);
    return layerMemory(local, kind, variant, planned.variant,
                       *planned.temporaries);
  }
  Planned &planned(const Plan &local, const Kind &kind, int index,
                   Recompute policy) {
    const KindVariant &variant = kind.variant(policy);
    Planned &planned = ofAnySize(local, kind, index, policy);
    const Key sizes = localKey(local, index, variant.policy, local.microBatch);
    if (planned.sizes != sizes)
      resizeVariant(local, variant, planned.variant);
    planned.sizes = sizes;
    return planned;
  }

  /// All parts of a variant.
  VariantTime times(const Plan &local, const Kind &kind, int index,
                    Recompute policy, const Hardware &hardware,
                    const Profile &profile, Extent extent) {
    const KindVariant &variant = kind.variant(policy);
    Planned &known = ofAnySize(local, kind, index, policy);
    const Traits traits = known.traits;
    const auto timed = [&](Planned &planned) {
      return TimedVariant{local, variant, planned.facts, planned.variant};
    };
    const auto part = [&](Map<VariantTime> &times, const Key &key,
                          LayerPart which) -> const VariantTime & {
      return times.of(key, [&] {
        // Collectives ask for encodings alone, not for local sizes.
        return timesOf(timed(which == LayerPart::Moves
                                 ? known
                                 : planned(local, kind, index, policy)),
                       hardware, profile, which);
      });
    };
    VariantTime time;
    for (LayerPart which : layerParts)
      switch (which) {
      case LayerPart::Ops:
        time.add(
            part(shared->ops, opsKey(local, index, variant.policy, traits), which));
        break;
      case LayerPart::Experts:
        if (traits.experts && extent == Extent::Least)
          time.add(shared->leastExperts.of(
              opsKey(local, index, variant.policy, traits), [&] {
                return leastExpertTimes(
                    timed(planned(local, kind, index, policy)), hardware,
                    profile);
              }));
        else if (traits.experts)
          time.add(part(shared->experts,
                        expertsKey(local, index, variant.policy, traits),
                        which));
        break;
      case LayerPart::Moves:
        if (extent != Extent::Ops)
          time.add(
            part(shared->moves, movesKey(local, index, variant.policy, traits), which));
        break;
      case LayerPart::Core:
        if (traits.core)
          time.add(
              part(shared->cores, coreKey(local, index, variant.policy), which));
        break;
      }
    return time;
  }

private:
  Key localKeyOf = {-1};
  Plan localPlan;
  Structure structure; ///< of localPlan
  std::unordered_map<Key, Planned, WordsHash<std::tuple_size_v<Key>>> variants;
};

EstimateCache::EstimateCache()
    : state(std::make_unique<State>(std::make_shared<Shared>())) {}
EstimateCache::EstimateCache(const EstimateCache *other)
    : state(std::make_unique<State>(other->state->shared)) {}
EstimateCache::~EstimateCache() = default;

LayersKey EstimateCache::layersKey(const Plan &plan) {
  return localKey(plan, 0, Recompute::None, plan.microBatch);
}

LayersKey EstimateCache::memoryKey(const Plan &plan) {
  return memoryKeyOf(plan, 0, Recompute::None);
}

std::array<LayerProfile, 3>
EstimateCache::priced(const Program &program, const Hardware &hardware,
                      const Profile &profile, const Plan &plan, int kind,
                      const std::vector<Recompute> &policies, Extent extent) {
  const Kind &type = program.kinds[static_cast<size_t>(kind)];
  const Plan &local = state->local(plan);
  const auto times = [&](Recompute which) {
    return state->times(local, type, kind, which, hardware, profile, extent);
  };
  const VariantTime without = times(Recompute::None);
  std::array<LayerProfile, 3> layers;
  for (Recompute policy : policies)
    layers[static_cast<size_t>(policy)] = profileLayer(
        local, type, type.variant(policy).policy,
        policy == Recompute::None || redoesAll(profile, policy) ? without
                                                                : times(policy),
        without, hardware, profile);
  return layers;
}

const LayerProfile &EstimateCache::layer(const Program &program,
                                         const Hardware &hardware,
                                         const Profile &profile,
                                         const Plan &plan, int kind,
                                         Recompute policy) {
  return state->shared->layers.of(
      localKey(plan, kind, policy, plan.microBatch), [&] {
        return priced(program, hardware, profile, plan, kind,
                      {policy})[static_cast<size_t>(policy)];
      });
}

const LayerMemory &EstimateCache::memory(const Program &program,
                                         const Plan &plan, int kind,
                                         Recompute policy) {
  return state->shared->memories.of(
      memoryKeyOf(plan, kind, policy), [&] {
        const Plan &local = state->local(plan);
        return state->memory(local,
                             program.kinds[static_cast<size_t>(kind)], kind,
                             policy);
      });
}

const std::vector<Axes> &
EstimateCache::reduceAxes(const Program &program, const Plan &plan, int kind) {
  return state->shared->axes.of(
      localKey(plan, kind, Recompute::None, 0), [&] {
        const Kind &type = program.kinds[static_cast<size_t>(kind)];
        const Plan &local = state->local(plan);
        return extraReduceAxesOf(
            local, type, type.variants.front(),
            state->planned(local, type, kind, Recompute::None).variant);
      });
}

const ParameterBlock &EstimateCache::block(const Program &program,
                                           const Plan &plan, int kind) {
  return state->shared->blocks.of(blockKey(plan, kind), [&] {
    return blockOf(plan, program.kinds[static_cast<size_t>(kind)],
                   reduceAxes(program, plan, kind));
  });
}

const BlockTimes &EstimateCache::times(const Program &program,
                                       const Hardware &hardware,
                                       const Profile &profile,
                                       const Plan &plan, int kind) {
  return state->shared->transfers.of(blockKey(plan, kind), [&] {
    return blockTimes(plan, hardware, profile, block(program, plan, kind));
  });
}

const ParameterBlock &EstimateCache::shared(const Program &program,
                                            const Plan &plan, int64_t stage) {
  // The block depends on which kinds the stage runs, not on how many layers.
  int64_t kinds = 0;
  forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
    kinds |= int64_t(1) << kindIndex(program, run.kind);
  });
  return state->shared->sharedBlocks.of(blockKey(plan, kinds), [&] {
    return sharedBlock(plan, program, stage);
  });
}

} // namespace shardwright::cost
