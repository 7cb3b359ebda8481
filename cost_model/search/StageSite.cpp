//===- StageSite.cpp - What bounds are made of ----------------------------===//
//
// In the order of how many candidates share it: the prices of layers (Row), a
// Batch candidate (Ground), who has parameters and state (Ownership), and the
// sums of a State or Policy candidate (Site).
//
//===----------------------------------------------------------------------===//
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <utility>

namespace shardwright::cost {

StageBounds::Cost StageBounds::Price::cost(bool beside) const {
  Cost cost{forward, backward, forwardCompute + backwardCompute, 0};
  if (beside) {
    cost.forward -= forwardExchange;
    cost.backward -= backwardExchange;
  }
  return cost;
}

void StageBounds::setBatch(Plan &plan, const Candidate &c) const {
  plan.dtypes = base.dtypes;
  Candidate batch = c;
  batch.zero = 0;
  batch.zeroRanks = 0;
  setFields(program, plan, batch);
}

StageBounds::Row StageBounds::priced(const Plan &plan, bool routed,
                                     EstimateCache::Extent extent) {
  static const std::vector<Recompute> none = {Recompute::None};
  // Of the least nobody asks but for a total, and recomputation adds to that:
  // what a forward pass then need not write is computed again.
  const std::vector<Recompute> &asked =
      extent == EstimateCache::Extent::Least ? none : policies;
  Row row;
  for (const Run &run : program.stack) {
    const auto kind = static_cast<size_t>(run.kind);
    const auto [isRouted, place] = places[kind];
    if (isRouted != routed)
      continue;
    const bool repeated = isLayer(program.kinds[kind]);
    if (place == row.prices.size()) { // the kind's first run
      const std::array<LayerProfile, 3> layers =
          cache.priced(program, hardware, profile, plan, run.kind,
                       repeated ? asked : none, extent);
      std::array<Price, 3> &prices = row.prices.emplace_back();
      for (Recompute policy : repeated ? asked : none) {
        const LayerProfile &layer = layers[static_cast<size_t>(policy)];
        prices[static_cast<size_t>(policy)] = {
            layer.forwardAll().count(),
            (layer.dataGradAll() + layer.weightGrad).count(),
            layer.forward.count(),
            (layer.dataGrad + layer.weightGrad).count(),
            layer.forwardExchange.count(),
            layer.backwardExchange.count()};
      }
    }
    const std::array<Price, 3> &prices = row.prices[place];
    for (bool beside : {false, true}) {
      Cost least = prices.front().cost(beside);
      if (repeated)
        for (Recompute policy : asked)
          least = Cost::least(
              least, prices[static_cast<size_t>(policy)].cost(beside));
      row.total[beside].add(least, static_cast<double>(run.count));
    }
  }
  return row;
}

namespace {

/// What `ask` gives of a plan's layers that do not ask where experts live: so of
/// few plans. Their mesh has no axes of experts, either.
template <typename Ask> const auto &withoutExperts(Plan &plan, const Ask &ask) {
  const int64_t ep = std::exchange(plan.ep, 1), etp = std::exchange(plan.etp, 1);
  const auto &value = ask();
  plan.ep = ep;
  plan.etp = etp;
  return value;
}

/// Data ranks of which more would only repeat what layers do.
int64_t repeatedDp(const Plan &plan) {
  return 2 * std::max<int64_t>(1, plan.ep * plan.etp / (plan.tp * plan.cp));
}

/// What `known` has, or `make` gives, of times of a plan's layers: they are the
/// same however many data ranks repeat them, and if no expert's collective
/// reaches over data ranks also wherever these lie.
template <typename Map, typename Make>
const auto &withoutPlace(Map &known, Plan &plan, const Make &make) {
  const int64_t dp = std::exchange(plan.dp, repeatedDp(plan)), pp = plan.pp;
  const MeshOrder order = plan.order;
  if (plan.ep * plan.etp <= plan.tp * plan.cp) {
    plan.pp = 1;
    plan.order = MeshOrder::PpDp;
  }
  const auto &value = known.of(EstimateCache::layersKey(plan), make);
  plan.dp = dp;
  plan.pp = pp;
  plan.order = order;
  return value;
}

} // namespace

const StageBounds::Row &StageBounds::routedRow(Plan &plan) {
  return withoutPlace(tables->routed, plan, [&] {
    return priced(plan, true, EstimateCache::Extent::All);
  });
}
const StageBounds::Row &StageBounds::othersRow(Plan &plan) {
  return withoutExperts(plan, [&]() -> const Row & {
    return withoutPlace(tables->others, plan, [&] {
      return priced(plan, false, EstimateCache::Extent::All);
    });
  });
}

const StageBounds::Price &StageBounds::priceOf(const Rows &rows, int kind,
                                               Recompute policy) const {
  const auto [routed, place] = places[static_cast<size_t>(kind)];
  return (routed ? rows.routed : rows.others)
      ->prices[place][static_cast<size_t>(policy)];
}

/// What a framework keeps at least of what the arena saves: what runs again it
/// does not keep, and inputs of narrow products it may keep narrow.
double StageBounds::leastSaved(const Plan &plan, const LayerMemory &memory,
                               Recompute policy) const {
  double bytes = static_cast<double>(memory.saved.count());
  if (policy == Recompute::Full)
    return bytes;
  for (const SavedPart &part : memory.parts)
    if (profile.redoes(part.label))
      bytes -= static_cast<double>(part.bytes.count());
    else if (plan.dtypes.products != Narrow::None)
      bytes += std::min(0.0, static_cast<double>(part.narrow.count()));
  return std::max(0.0, bytes);
}

StageBounds::Holds StageBounds::held(const Plan &plan, bool routed) {
  Holds holds;
  for (size_t kind = 0; kind < places.size(); ++kind) {
    if (places[kind].first != routed || !isLayer(program.kinds[kind]))
      continue;
    holds.resize(std::max(holds.size(), places[kind].second + 1));
    for (Recompute policy : policies) {
      const LayerMemory &memory =
          cache.memory(program, plan, static_cast<int>(kind), policy);
      holds[places[kind].second][static_cast<size_t>(policy)] = {
          leastSaved(plan, memory, policy),
          static_cast<double>(memory.workspace.count())};
    }
  }
  return holds;
}

void StageBounds::findHolds(Ground &ground) {
  if (ground.routedHold)
    return;
  ground.routedHold =
      &tables->routedHold.of(EstimateCache::memoryKey(ground.plan),
                             [&] { return held(ground.plan, true); });
  ground.othersHold =
      &withoutExperts(ground.plan, [&]() -> const Holds & {
        return tables->othersHold.of(
            EstimateCache::memoryKey(ground.plan),
            [&] { return held(ground.plan, false); });
      });
}

void StageBounds::setRanks(int64_t count) {
  if (ranks == count)
    return;
  ranks = count;
  Plan plan;
  plan.dp = count;
  synchronization = synchronizationTime(hardware, plan).count();
  excess = slowestExcess(hardware.device, count);
}

namespace {

/// A plan whose layers compute what those of `plan` do: how many data ranks
/// repeat them, and where these are, only collectives ask.
void forgetPlace(Plan &plan) {
  plan.pp = 1;
  plan.order = MeshOrder::PpDp;
  plan.dp = repeatedDp(plan);
}

} // namespace

/// Of all ranks some has at least the mean, of time as of compute.
double StageBounds::roughTime(const Candidate &c, Rough rough) {
  Candidate key = c;
  key.gradients = leastGradient;
  if (rough == Rough::Experts)
    key.ep = key.etp = 1;
  setBatch(scratch, key);
  setRanks(scratch.ranks());
  const double share = static_cast<double>(scratch.microbatches()) /
                       static_cast<double>(c.pp);
  Cost total;
  if (routes || rough == Rough::Layers) {
    const std::array<Cost, 2> &routed =
        rough == Rough::Layers
            ? routedRow(scratch).total
            : withoutPlace(tables->leastRouted, scratch, [&] {
                return priced(scratch, true, EstimateCache::Extent::Least).total;
              });
    total = routed[besides && c.pp > 1];
    total.add(othersRow(scratch).total[besides && c.pp > 1], 1);
  } else {
    forgetPlace(scratch);
    total = tables->ops.of(EstimateCache::layersKey(scratch), [&] {
      return priced(scratch, false, EstimateCache::Extent::Ops).total[0];
    });
  }
  return share * (total.all() + excess * total.compute) + synchronization;
}

/// Some rank runs the embedding, and some the head: beside its workspace, for
/// one microbatch, two streams lie there.
bool StageBounds::endsFit(const Candidate &c, double limit) {
  Candidate key = c;
  key.gradients = leastGradient;
  key.ep = key.etp = 1;
  key.cpKind = CpKind::P2P;
  setBatch(scratch, key);
  forgetPlace(scratch);
  const double bytes =
      tables->ends.of(EstimateCache::memoryKey(scratch), [&] {
        Plan whole = scratch;
        setMesh(whole);
        Bytes most(0);
        for (const Run &run : program.stack)
          if (!isLayer(program.kinds[static_cast<size_t>(run.kind)]))
            most = std::max(
                most, cache.memory(program, whole, run.kind, Recompute::None)
                          .workspace);
        return static_cast<double>(
            (most + 2 * streamBytes(program, whole)).count());
      });
  return static_cast<double>(profile.frameworkBytes.count()) +
             (1 + profile.allocatorSlack) * bytes <
         limit;
}

StageBounds::Ground &StageBounds::groundOf(const Candidate &c) {
  Candidate key = c;
  key.zero = 0;
  key.zeroRanks = 0;
  key.schedule = ScheduleKind::OneFOneB;
  key.chunks = 1;
  key.offload = false;
  key.recompute = Recompute::None;
  uint64_t hash = 0;
  for (int64_t field :
       {key.dp, key.tp, key.pp, key.cp, key.ep, key.etp, key.microBatch,
        static_cast<int64_t>(key.sp), static_cast<int64_t>(key.cpKind),
        static_cast<int64_t>(key.order),
        static_cast<int64_t>(key.products.value_or(Narrow::None)),
        static_cast<int64_t>(key.gradients.value_or(DType::F32))})
    hash = (hash ^ static_cast<uint64_t>(field)) * 1099511628211u;
  Ground &ground = grounds[(hash >> 32) % grounds.size()];
  if (ground.known && ground.key == key)
    return ground;
  ground = Ground();
  ground.key = key;
  ground.known = true;
  ground.plan = base;
  setBatch(ground.plan, key);
  setMesh(ground.plan);
  setRanks(ground.plan.ranks());
  ground.rows = {&routedRow(ground.plan), &othersRow(ground.plan)};
  ground.border = borderTime(program, hardware, profile, ground.plan).count();
  ground.microbatches = static_cast<double>(ground.plan.microbatches());
  return ground;
}

const StageBounds::Ownership &
StageBounds::ownershipOf(Ground &ground, const Candidate &key) {
  const bool twice = stageOwners(key.schedule) > 1;
  for (const Ownership &own : ground.ownerships)
    if (own.zero == key.zero && own.zeroRanks == key.zeroRanks &&
        own.offload == key.offload && own.twice == twice)
      return own;
  Ownership own{key.zero, key.zeroRanks, key.offload, twice, {}, {}, {}, 0};
  Plan plan = ground.plan;
  setDegrees(program, plan, key);
  const size_t kinds = program.kinds.size();
  own.times.resize(kinds);
  own.blocks.resize(kinds);
  own.bytes.resize(kinds);
  StageWork mean; // elements of all stages, then of the mean one
  double gather = 0;
  for (const Run &run : program.stack) {
    const size_t kind = static_cast<size_t>(run.kind);
    if (!own.blocks[kind]) {
      const ParameterBlock &block = cache.block(program, plan, run.kind);
      own.blocks[kind] = &block;
      own.times[kind] =
          &cache.times(program, hardware, profile, plan, run.kind);
      own.bytes[kind] = heldState(plan.dtypes, plan.offloadOptimizer, plan.zero,
                                  static_cast<double>(block.elements),
                                  static_cast<double>(block.stateElements));
    }
    mean.elements += run.count * own.blocks[kind]->elements;
    mean.stateElements += run.count * own.blocks[kind]->stateElements;
    gather += static_cast<double>(run.count) * own.times[kind]->gather.count();
  }
  mean.elements /= plan.pp;
  mean.stateElements /= plan.pp;
  own.once = StageClock(hardware, profile, plan).optimizerTime(mean).count();
  if (!profile.overlapParameterGather && plan.zero < 2)
    own.once += gather / static_cast<double>(plan.pp);
  ground.ownerships.push_back(std::move(own));
  return ground.ownerships.back();
}

StageBounds::Cost StageBounds::costOf(const Price &price, const Price &longer,
                                      const Ground &ground,
                                      const Ownership &own,
                                      const StageClock &clock, bool beside,
                                      int kind) const {
  const size_t index = static_cast<size_t>(kind);
  Cost cost = price.cost(beside);
  cost.reduce = own.times[index]->reduce.count();
  if (ground.plan.zero < 2)
    return cost;
  // What shows of transfers does not grow slower than layers of one kind do.
  // Kinds side by side, and the ends beside layers, may hide one another's.
  const bool alone = uniform() && isLayer(program.kinds[index]);
  StageWork work;
  LayerProfile layer;
  layer.forward =
      Seconds(std::max(price.forwardCompute, longer.forwardCompute));
  layer.dataGrad =
      Seconds(std::max(price.backwardCompute, longer.backwardCompute));
  addLayers(work, work.layers, layer, *own.blocks[index], *own.times[index], 1);
  if (alone || !profile.overlapParameterGather)
    cost.forward += clock.shardedForward(work).count();
  if (alone || !profile.overlapGradientReduce)
    cost.backward += clock.shardedBackward(work).count();
  return cost;
}

const StageBounds::Site &StageBounds::site(const Candidate &c, Depth depth,
                                           const FullRule &rule) {
  site(c, depth);
  setRule(current, c, rule);
  return current;
}

const StageBounds::Site &StageBounds::site(const Candidate &c, Depth depth) {
  Candidate key = c;
  key.full.clear();
  key.firstLayers = key.lastLayers = 0;
  depth = std::min(depth, Depth::Policy);
  if (depth < Depth::Policy)
    key.recompute = Recompute::None;
  if (depth < Depth::State) {
    key.zero = 0;
    key.zeroRanks = 0;
    key.offload = false;
    key.gradients = leastGradient;
    key.schedule = besides && c.pp > 1 ? ScheduleKind::DualPipeV
                                       : ScheduleKind::OneFOneB;
    key.chunks = 1;
  } else if (key.schedule == ScheduleKind::GPipe) {
    key.schedule = ScheduleKind::OneFOneB; // the same layers and transfers
  }
  if (current.depth == depth && current.key == key)
    return current;
  std::vector<Layer> layers = std::move(current.layers); // to use its memory
  layers.clear();
  current = Site();
  Site &site = current;
  site.layers = std::move(layers);
  site.key = key;
  site.depth = depth;

  Ground &ground = groundOf(key);
  const Ownership *own =
      depth >= Depth::State ? &ownershipOf(ground, key) : nullptr;
  const bool beside = runsBeside(key.schedule);
  ground.plan.zero = key.zero;
  ground.plan.chunks = key.chunks;
  ground.plan.schedule = key.schedule;
  ground.plan.offloadOptimizer = key.offload;
  const StageClock clock(hardware, profile, ground.plan);
  // Of a layer under `policy` on a stage that also has some under `company`.
  const auto costBeside = [&](int kind, Recompute policy, Recompute company) {
    const Price &price = priceOf(ground.rows, kind, policy);
    return own ? costOf(price, priceOf(ground.rows, kind, company), ground,
                        *own, clock, beside, kind)
               : price.cost(beside); // what else depends on ZeRO
  };
  const auto cost = [&](int kind, Recompute policy) {
    return costBeside(kind, policy, policy);
  };

  for (size_t k = 0; k < layerKinds.size(); ++k) {
    const int kind = layerKinds[k];
    Layer layer;
    layer.count = static_cast<double>(before[k].back());
    layer.plain = costBeside(kind, Recompute::None, key.recompute);
    layer.policy = layer.plain;
    if (depth == Depth::Policy) { // before, nothing asks what layers hold
      findHolds(ground);
      const auto [routed, place] = places[static_cast<size_t>(kind)];
      const std::array<Held, 3> &held =
          (*(routed ? ground.routedHold : ground.othersHold))[place];
      const Held &plain = held.front(),
                 &policy = held[static_cast<size_t>(key.recompute)];
      layer.policy = cost(kind, key.recompute);
      layer.savedPlain = plain.saved;
      layer.savedPolicy = policy.saved;
      layer.workspace = std::min(plain.workspace, policy.workspace);
      layer.stateBytes = own->bytes[static_cast<size_t>(kind)];
    } else {
      for (Recompute policy : policies)
        layer.plain = Cost::least(layer.plain, cost(kind, policy));
      layer.policy = layer.plain;
    }
    site.plainTotal +=
        layer.count * std::min(layer.plain.all(), layer.policy.all());
    site.policyTotal += layer.count * layer.policy.all();
    site.leastReduce = site.layers.empty()
                           ? layer.plain.reduce
                           : std::min(site.leastReduce, layer.plain.reduce);
    site.layers.push_back(layer);
  }
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
    if (isLayer(kind))
      continue;
    const bool exits = takesStream(kind);
    const double count = static_cast<double>(run.count);
    (exits ? site.exit : site.entrance)
        .add(cost(run.kind, Recompute::None), count);
    if (own)
      (exits ? site.exitState : site.entranceState) +=
          count * own->bytes[static_cast<size_t>(run.kind)];
  }
  site.plainTotal += site.entrance.all() + site.exit.all();
  site.policyTotal += site.entrance.all() + site.exit.all();
  site.border = ground.border;
  site.once = synchronization + (own ? own->once : 0);
  if (key.zero >= 2) // every microbatch may show as much
    site.leastReduce = 0;
  site.excess = excess;
  site.microbatches = ground.microbatches;
  if (key.chunks > 1)
    setSums(site, key);
  if (key.chunks > 1 && depth == Depth::Policy)
    site.slots = &slotsOfRanks(key);
  return site;
}

} // namespace shardwright::cost
