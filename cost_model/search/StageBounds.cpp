#include "cost_model/search/StageBounds.h"

#include "cost_model/hardware/Kernel.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {

namespace {

bool isLayer(const Kind &kind) { return takesStream(kind) && givesStream(kind); }

/// GPipe and 1F1B: bound 3 of SEARCH.md.
bool isPlain(const Candidate &c) {
  return c.schedule == ScheduleKind::OneFOneB ||
         c.schedule == ScheduleKind::GPipe;
}

} // namespace

void StageBounds::Cost::add(const Cost &other, double times) {
  forward += times * other.forward;
  backward += times * other.backward;
  compute += times * other.compute;
  reduce += times * other.reduce;
}

StageBounds::Cost StageBounds::Cost::least(const Cost &a, const Cost &b) {
  return {std::min(a.forward, b.forward), std::min(a.backward, b.backward),
          std::min(a.compute, b.compute), std::min(a.reduce, b.reduce)};
}

StageBounds::StageBounds(const Program &program, const Hardware &hardware,
                         const Profile &profile, const Plan &base,
                         const std::vector<Recompute> &policies,
                         const std::vector<ScheduleKind> &schedules,
                         const std::vector<DType> &gradients, bool offloads,
                         EstimateCache &cache)
    : program(program), hardware(hardware), profile(profile), base(base),
      policies(policies), cache(cache), offloads(offloads) {
  for (DType type : gradients)
    if (!leastGradient || byteWidth(type) < byteWidth(*leastGradient))
      leastGradient = type;
  for (ScheduleKind kind : schedules) {
    chunked = chunked || chunksOf(kind).most > 1;
    besides = besides || runsBeside(kind);
    joined = joined && !splitsBackward(kind);
  }
  for (size_t i = 0; i < program.kinds.size(); ++i)
    if (isLayer(program.kinds[i]))
      layerKinds.push_back(static_cast<int>(i));
  before.assign(layerKinds.size(), {0});
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
    for (const Parameter &parameter : kind.parameters)
      if (parameter.shared.empty())
        (parameter.segment == Segment::Experts ? expertElements : elements) +=
            static_cast<double>(run.count) *
            static_cast<double>(elementCount(parameter));
    if (!isLayer(kind))
      continue;
    for (int64_t i = 0; i < run.count; ++i)
      for (size_t k = 0; k < layerKinds.size(); ++k)
        before[k].push_back(before[k].back() + (layerKinds[k] == run.kind));
  }
  flops = modelFlopsPerToken(program, FlopsConvention::CausalHalved) *
          static_cast<double>(program.sequence);
}

double StageBounds::meshTime(const Candidate &c) const {
  const NarrowRate narrow =
      narrowRate(hardware.device, c.products.value_or(base.dtypes.products));
  const double rate = arithmeticRate(hardware.device, base.dtypes.compute) *
                      std::max({1.0, narrow.speedup, narrow.perEnergy});
  return flops * static_cast<double>(base.globalBatch) /
         (rate * static_cast<double>(c.dp * c.tp * c.pp * c.cp));
}

StageBounds::Cost StageBounds::costOf(const Plan &plan, int kind,
                                      Recompute policy) {
  const LayerProfile &layer =
      cache.layer(program, hardware, profile, plan, kind, policy);
  Cost cost;
  cost.forward = layer.forwardAll().count();
  cost.backward = (layer.dataGradAll() + layer.weightGrad).count();
  cost.compute =
      (layer.forward + layer.dataGrad + layer.weightGrad).count();
  if (runsBeside(plan.schedule)) {
    // A forward beside a backward hides the exchanges of both.
    cost.forward -= layer.forwardExchange.count();
    cost.backward -= layer.backwardExchange.count();
  }
  cost.reduce = cache.times(program, hardware, profile, plan, kind).reduce.count();
  if (plan.zero < 2)
    return cost;
  // What shows of transfers does not grow slower than layers of one kind do.
  // Kinds side by side, and the ends beside layers, may hide one another's.
  const bool alone =
      uniform() && isLayer(program.kinds[static_cast<size_t>(kind)]);
  StageWork work;
  addLayers(work, work.layers, layer, cache.block(program, plan, kind),
            cache.times(program, hardware, profile, plan, kind), 1);
  const StageClock clock(hardware, profile, plan);
  if (alone || !profile.overlapParameterGather)
    cost.forward += clock.shardedForward(work).count();
  if (alone || !profile.overlapGradientReduce)
    cost.backward += clock.shardedBackward(work).count();
  return cost;
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

const StageBounds::Site &StageBounds::site(const Candidate &c, Depth depth) {
  Candidate key = c;
  key.fullLayers = -1;
  key.firstLayers = key.lastLayers = 0;
  depth = std::min(depth, Depth::Policy);
  if (depth < Depth::Policy)
    key.recompute = Recompute::None;
  if (depth < Depth::State) {
    key.zero = c.dp * c.cp > 1 ? 1 : 0;
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
  current = Site();
  Site &site = current;
  site.key = key;
  site.depth = depth;

  Plan plan = base;
  setDegrees(program, plan, key);
  const StageClock clock(hardware, profile, plan);
  const auto stateOf = [&](int kind) {
    const ParameterBlock &block = cache.block(program, plan, kind);
    return heldState(plan.dtypes, plan.offloadOptimizer, plan.zero,
                     static_cast<double>(block.elements),
                     static_cast<double>(block.stateElements));
  };
  StageWork mean; // elements of all stages, then of the mean one
  double gather = 0;
  const auto addState = [&](int kind, int64_t count) {
    const ParameterBlock &block = cache.block(program, plan, kind);
    mean.elements += count * block.elements;
    mean.stateElements += count * block.stateElements;
    gather += static_cast<double>(count) *
              cache.times(program, hardware, profile, plan, kind).gather.count();
  };

  for (size_t k = 0; k < layerKinds.size(); ++k) {
    const int kind = layerKinds[k];
    Layer layer;
    layer.count = static_cast<double>(before[k].back());
    layer.plain = costOf(plan, kind, Recompute::None);
    layer.policy = layer.plain;
    if (depth == Depth::Policy) { // before, nothing asks what layers hold
      const LayerMemory &plain =
          cache.memory(program, plan, kind, Recompute::None);
      const LayerMemory &memory =
          cache.memory(program, plan, kind, key.recompute);
      layer.policy = costOf(plan, kind, key.recompute);
      layer.savedPlain = leastSaved(plan, plain, Recompute::None);
      layer.savedPolicy = leastSaved(plan, memory, key.recompute);
      layer.workspace = static_cast<double>(
          std::min(plain.workspace, memory.workspace).count());
    } else {
      for (Recompute policy : policies)
        layer.plain = Cost::least(layer.plain, costOf(plan, kind, policy));
      layer.policy = layer.plain;
    }
    layer.stateBytes = stateOf(kind);
    addState(kind, before[k].back());
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
        .add(costOf(plan, run.kind, Recompute::None), count);
    (exits ? site.exitState : site.entranceState) += count * stateOf(run.kind);
    addState(run.kind, run.count);
  }
  site.plainTotal += site.entrance.all() + site.exit.all();
  site.policyTotal += site.entrance.all() + site.exit.all();
  site.border = borderTime(program, hardware, profile, plan).count();
  site.once = synchronizationTime(hardware, plan).count();
  if (depth >= Depth::State) {
    mean.elements /= plan.pp;
    mean.stateElements /= plan.pp;
    site.once += clock.optimizerTime(mean).count();
    if (!profile.overlapParameterGather && plan.zero < 2)
      site.once += gather / static_cast<double>(plan.pp);
  } else {
    site.leastReduce = 0; // depends on ZeRO
    for (Layer &layer : site.layers)
      layer.plain.reduce = layer.policy.reduce = 0;
  }
  if (plan.zero >= 2) // every microbatch may show as much
    site.leastReduce = 0;
  site.excess = slowestExcess(hardware.device, plan.ranks());
  site.microbatches = static_cast<double>(plan.microbatches());
  return site;
}

double StageBounds::policyLayers(const Candidate &c, double count) {
  return c.recompute == Recompute::Full && c.fullLayers >= 0
             ? std::min(count, static_cast<double>(c.fullLayers))
             : count;
}

StageBounds::Cost StageBounds::stageCost(const Site &site, const Candidate &c,
                                         int64_t stage, int64_t from,
                                         int64_t count) const {
  Cost cost;
  const int64_t split =
      from + static_cast<int64_t>(policyLayers(c, static_cast<double>(count)));
  for (size_t k = 0; k < site.layers.size(); ++k) {
    const std::vector<int64_t> &layers = before[k];
    cost.add(site.layers[k].policy,
             static_cast<double>(layers[split] - layers[from]));
    cost.add(site.layers[k].plain,
             static_cast<double>(layers[from + count] - layers[split]));
  }
  if (stage == 0)
    cost.add(site.entrance, 1);
  if (stage + 1 == c.pp)
    cost.add(site.exit, 1);
  return cost;
}

/// Stage i gets its first microbatch after the stages before it, and their
/// backwards follow its last. Under GPipe and 1F1B a gradient leaves a stage
/// when both gradients are made, and before its own first backward the stages
/// behind have passed a microbatch there and back, while stage i runs only the
/// forwards that the schedule lets it run ahead, min(M, pp - i) (under GPipe
/// all, the last of which starts the way back). So
///   T >= path - (f_i + b_i) + M (f_i + b_i) - (ahead - 1) f_i.
/// Transfers: every border is crossed there and back; where they hold a stage
/// they are part of its M.
double StageBounds::stageTime(const Site &site, const Candidate &c,
                              const Cost &own, int64_t stage,
                              double path) const {
  const double m = site.microbatches;
  if (c.pp == 1 || !isPlain(c))
    return m * own.all();
  const double borders = 2 * static_cast<double>(c.pp - 1);
  double held = 0;
  if (!profile.overlapTransfers)
    held = 2.0 * ((stage > 0) + (stage + 1 < c.pp)) * site.border;
  double hidden = 0;
  if (c.schedule == ScheduleKind::OneFOneB)
    hidden = (std::min(m, static_cast<double>(c.pp - stage)) - 1) *
             (own.forward + held / 2);
  return path - own.all() + borders * site.border - held +
         m * (own.all() + held) - hidden;
}

/// One microbatch through all stages, however the layers are split.
double StageBounds::path(const Site &site, const Candidate &c) const {
  return c.recompute == Recompute::Full && c.fullLayers >= 0
             ? site.plainTotal
             : site.policyTotal;
}

double StageBounds::stepTime(const Site &site, double pipeline, double reduce,
                             double compute) const {
  return pipeline + reduce + site.once +
         site.excess * site.microbatches * compute;
}

/// A rank runs its chunks for every microbatch that passes them. The first
/// microbatch arrives behind the stages before its first chunk, and where a
/// rank's first chunk is the first stages in order, the gradients of those
/// stages still follow its last. Weight gradients that run apart may come later.
double StageBounds::chunkedTime(const Site &site, const Candidate &c) const {
  const bool hides = profile.overlapGradientReduce || c.zero >= 2;
  const std::vector<int64_t> counts = layersPerStage(c, program.layers);
  const int64_t stages = static_cast<int64_t>(counts.size());
  std::vector<Cost> costs;
  for (int64_t stage = 0, from = 0; stage < stages; ++stage) {
    // The ends are those of all stages, not of the ranks.
    Candidate line = c;
    line.pp = stages;
    costs.push_back(stageCost(site, line, stage, from,
                              counts[static_cast<size_t>(stage)]));
    from += counts[static_cast<size_t>(stage)];
  }
  const double passes = static_cast<double>(chunkMicrobatches(
      c.schedule, static_cast<int64_t>(site.microbatches)));
  double pipeline = 0, compute = -1, reduce = -1, before = 0;
  for (int64_t rank = 0; rank < c.pp; ++rank) {
    Cost own;
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk)
      own.add(costs[static_cast<size_t>(
                  stageAt(c.schedule, c.pp, {rank, chunk}))],
              1);
    const bool oneWay = stageOwners(c.schedule) == 1;
    pipeline = std::max(pipeline, passes * own.all() + (oneWay ? before : 0));
    if (oneWay) // forwards; backwards too where both gradients come first
      before += splitsBackward(c.schedule)
                    ? costs[static_cast<size_t>(rank)].forward
                    : costs[static_cast<size_t>(rank)].all();
    const double half = passes / site.microbatches;
    compute = compute < 0 ? half * own.compute
                          : std::min(compute, half * own.compute);
    reduce = reduce < 0 ? own.reduce : std::min(reduce, own.reduce);
  }
  return stepTime(site, pipeline, hides ? site.leastReduce : reduce, compute);
}

double StageBounds::completeTime(const Site &site, const Candidate &c) const {
  if (!isPlain(c) && c.chunks > 1)
    return chunkedTime(site, c);
  const bool hides = profile.overlapGradientReduce || c.zero >= 2;
  double path = 0, compute = -1, reduce = -1, pipeline = 0;
  struct Own {
    int64_t stage;
    Cost cost;
  };
  std::vector<Own> stages;
  const auto add = [&](int64_t stage, int64_t from, int64_t count,
                       double times) {
    const Cost cost = stageCost(site, c, stage, from, count);
    path += times * cost.all();
    compute = compute < 0 ? cost.compute : std::min(compute, cost.compute);
    reduce = reduce < 0 ? cost.reduce : std::min(reduce, cost.reduce);
    stages.push_back({stage, cost});
  };
  const int64_t interior = c.pp - 2;
  const int64_t left = program.layers - c.firstLayers - c.lastLayers;
  add(0, 0, c.firstLayers, 1);
  if (c.pp > 1) {
    if (interior > 0 && uniform()) {
      // Of equal stages the last has the least hidden.
      const int64_t larges = left % interior, small = left / interior;
      if (larges > 0)
        add(larges, c.firstLayers, small + 1, static_cast<double>(larges));
      add(interior, c.firstLayers, small,
          static_cast<double>(interior - larges));
    } else {
      int64_t from = c.firstLayers;
      for (int64_t i = 0; i < interior; ++i) {
        const int64_t count = left / interior + (i < left % interior ? 1 : 0);
        add(i + 1, from, count, 1);
        from += count;
      }
    }
    add(c.pp - 1, program.layers - c.lastLayers, c.lastLayers, 1);
  }
  for (const Own &own : stages)
    pipeline =
        std::max(pipeline, stageTime(site, c, own.cost, own.stage, path));
  return stepTime(site, pipeline, hides ? site.leastReduce : reduce, compute);
}

double StageBounds::time(const Candidate &c, Depth depth) {
  if (depth == Depth::Mesh)
    return meshTime(c);
  const Site &site = this->site(c, depth);
  if (depth == Depth::Complete)
    return completeTime(site, c);
  Candidate weakest = c; // of what is free
  if (depth < Depth::State) { // of any schedule
    weakest.schedule =
        joined ? ScheduleKind::OneFOneB : ScheduleKind::ZbH1;
    weakest.chunks = chunked && c.pp > 1 ? 2 : 1;
  }
  if (depth < Depth::Policy) {
    weakest.recompute = Recompute::None;
    weakest.fullLayers = -1;
  }
  return splitTime(site, weakest);
}

double StageBounds::heldState(const DTypes &dtypes, bool host, int zero,
                              double elements, double stateElements) const {
  const StateBytes<double> state =
      stateBytes(dtypes, zero, elements, stateElements);
  return state.gradients + (host ? 0 : state.optimizer) +
         (zero >= 3 && profile.masterIsParameter ? 0 : state.parameters);
}

double StageBounds::meshBytes(const Candidate &c, Depth depth) const {
  const double dp = static_cast<double>(c.dp), pp = static_cast<double>(c.pp);
  const double tp = static_cast<double>(c.tp * c.cp);
  const bool free = depth < Depth::State;
  const int zero = free ? 3 : c.zero;
  DTypes dtypes = base.dtypes;
  dtypes.grad = (free ? leastGradient : c.gradients).value_or(dtypes.grad);
  const bool host = free ? offloads : c.offload;
  const auto bytesOf = [&](double parameters, double split) {
    double shards = zero >= 1 ? std::max(1.0, dp * tp / split) : 1.0;
    if (!free && c.zeroRanks > 0)
      shards = std::min(shards, static_cast<double>(c.zeroRanks * c.cp));
    const double elements = parameters / split / pp;
    return heldState(dtypes, host, zero, elements, elements / shards);
  };
  double bytes =
      bytesOf(elements, static_cast<double>(c.tp)) +
      bytesOf(expertElements, static_cast<double>(c.ep * c.etp));
  // The stream that enters each layer of the mean stage once.
  bytes += static_cast<double>(program.layers) / pp *
           static_cast<double>(program.sequence) *
           static_cast<double>(program.hidden) *
           static_cast<double>(c.microBatch) *
           static_cast<double>(byteWidth(base.dtypes.compute)) /
           static_cast<double>(c.cp * (c.sp ? c.tp : 1));
  return bytes + static_cast<double>(profile.frameworkBytes.count());
}

double StageBounds::slots(const Candidate &c, int64_t stage) const {
  // Of the other schedules: a microbatch that is saved at the end of forward.
  if (!isPlain(c))
    return 1.0 / static_cast<double>(c.chunks);
  return static_cast<double>(
      slotCount(c.schedule, c.pp,
                base.globalBatch / (c.dp * c.microBatch), stage));
}

bool StageBounds::splitsFit(const Candidate &c, double limit) {
  const Site &site = this->site(c, Depth::Policy);
  const double slack = 1 + profile.allocatorSlack;
  const bool some = c.recompute == Recompute::Full && c.fullLayers >= 0;
  // Every kind of layers apart, as if the others needed nothing.
  for (const Layer &layer : site.layers) {
    double placed = 0;
    for (int64_t stage = 0; stage < c.pp && placed < layer.count; ++stage) {
      const double slots = this->slots(c, stage);
      double room = limit - static_cast<double>(profile.frameworkBytes.count());
      if (stage == 0 && c.chunks == 1)
        room -= site.entranceState;
      if (stage + 1 == c.pp && c.chunks == 1)
        room -= site.exitState;
      if (room <= 0)
        return false;
      room -= slack * layer.workspace;
      const double plain = layer.stateBytes + slack * slots * layer.savedPlain;
      double policy = layer.stateBytes + slack * slots * layer.savedPolicy;
      if (some && !uniform()) // other kinds may be the ones that save
        policy = std::min(policy, plain);
      double count = room / policy;
      if (some && count > static_cast<double>(c.fullLayers) && uniform())
        count = static_cast<double>(c.fullLayers) +
                (room - static_cast<double>(c.fullLayers) * policy) / plain;
      count = std::floor(count * (1 + 1e-9) + 1e-9);
      if (count < 1 && uniform() && c.chunks == 1)
        return false; // every stage holds a layer
      placed += std::max(0.0, count);
    }
    if (placed < layer.count)
      return false;
  }
  return true;
}

} // namespace shardwright::cost
