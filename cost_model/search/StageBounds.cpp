#include "cost_model/search/StageBounds.h"

#include "cost_model/hardware/Kernel.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {

namespace {

/// GPipe and 1F1B: bound 3 of SEARCH.md.
bool isPlain(const Candidate &c) {
  return c.schedule == ScheduleKind::OneFOneB ||
         c.schedule == ScheduleKind::GPipe;
}

} // namespace

StageBounds::StageBounds(const Program &program, const Hardware &hardware,
                         const Profile &profile, const Plan &base,
                         const std::vector<Recompute> &policies,
                         const std::vector<ScheduleKind> &schedules,
                         const std::vector<DType> &gradients, bool offloads,
                         EstimateCache &cache, const StageBounds *share)
    : program(program), hardware(hardware), profile(profile), base(base),
      policies(policies), cache(cache), offloads(offloads),
      tables(share ? share->tables : std::make_shared<Tables>()),
      scratch(base), grounds(64) {
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
  std::array<size_t, 2> counts{}; // of other kinds, and of those with experts
  places.assign(program.kinds.size(), {false, 0});
  std::vector<bool> known(program.kinds.size(), false);
  for (const Run &run : program.stack) {
    const auto kind = static_cast<size_t>(run.kind);
    const std::vector<Parameter> &parameters = program.kinds[kind].parameters;
    if (known[kind])
      continue;
    known[kind] = true;
    const bool routed = std::any_of(
        parameters.begin(), parameters.end(), [](const Parameter &parameter) {
          return parameter.segment == Segment::Experts;
        });
    places[kind] = {routed, counts[routed]++};
    routes = routes || routed;
  }
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

double StageBounds::room(const Site &site, const Candidate &c,
                         int64_t stage) const {
  double room = site.limit - static_cast<double>(profile.frameworkBytes.count());
  if (stage == 0)
    room -= site.entranceState;
  if (stage + 1 == c.pp)
    room -= site.exitState;
  return room;
}

StageBounds::Need StageBounds::need(const Site &site, const Candidate &c,
                                    const Layer &layer, int64_t stage) const {
  const double slack = 1 + profile.allocatorSlack;
  const double slots = slack * this->slots(c, stage);
  Need need;
  need.plain = layer.stateBytes + slots * layer.savedPlain;
  need.policy = layer.stateBytes + slots * layer.savedPolicy;
  need.room = room(site, c, stage) - slack * layer.workspace;
  if (const double saves = need.plain - need.policy; saves > 0) {
    need.perLayer = need.plain / saves;
    need.spared = need.room / saves;
  }
  return need;
}

/// Where ranks run several chunks no stage by itself has to: leastRecomputed.
int64_t StageBounds::leastFull(const Site &site, const Candidate &c,
                               int64_t stage, int64_t from,
                               int64_t count) const {
  if (!isMixed(c))
    return count;
  if (!c.full.empty())
    return c.full[static_cast<size_t>(stage)];
  int64_t full = std::min(count, site.floor);
  if (c.chunks > 1 || count == 0)
    return full;
  if (uniform()) {
    const Need need = this->need(site, c, site.layers.front(), stage);
    const double least =
        need.perLayer * static_cast<double>(count) - need.spared;
    // A layer in a million is for rounding.
    return std::max(full, static_cast<int64_t>(std::clamp(
                              std::ceil(least - 1e-6), 0.0,
                              static_cast<double>(count))));
  }
  const double slack = 1 + profile.allocatorSlack;
  const double slots = slack * this->slots(c, stage);
  double bytes = 0, workspace = 0;
  const auto kindOf = [&](int64_t at) {
    size_t k = 0;
    while (before[k][at + 1] == before[k][at])
      ++k;
    return k;
  };
  for (size_t k = 0; k < site.layers.size(); ++k) {
    const Layer &layer = site.layers[k];
    const auto own = static_cast<double>(before[k][from + count] -
                                         before[k][from]);
    bytes += own * (layer.stateBytes + slots * layer.savedPlain);
    if (own > 0)
      workspace = std::max(workspace, layer.workspace);
  }
  const double room = this->room(site, c, stage) - slack * workspace;
  for (int64_t n = 0; n < count; ++n) {
    if (n >= full && bytes < room)
      return n;
    const Layer &layer = site.layers[kindOf(from + n)];
    bytes -= slots * (layer.savedPlain - layer.savedPolicy);
  }
  return count;
}

/// What the layers of each kind recompute at least, by themselves: they lie first
/// where they fit as they are, then where one more makes fewest recompute.
void StageBounds::setRule(Site &site, const Candidate &c,
                          const FullRule &rule) const {
  // Sums of doubles: a byte in a million is for rounding.
  const double limit = static_cast<double>(rule.limit.count()) * (1 + 1e-6);
  const int64_t floor = rule.floor();
  site.alike = rule.alike;
  if (site.limit == limit && site.floor == floor && site.schedule == c.schedule)
    return;
  site.schedule = c.schedule;
  site.limit = limit;
  site.floor = floor;
  site.recomputed = 0;
  if (!isMixed(c) || site.depth < Depth::Policy)
    return;
  for (const Layer &layer : site.layers) {
    const double more = layer.policy.all() - layer.plain.all();
    double least = floor >= program.layers ? layer.count : 0;
    if (c.chunks == 1 && least == 0) {
      double left = layer.count;
      std::vector<Need> needs;
      for (int64_t stage = 0; stage < c.pp; ++stage) {
        needs.push_back(need(site, c, layer, stage));
        left -= std::max(0.0, needs.back().room / needs.back().plain);
      }
      // Earlier stages hold as many microbatches or more: fewer recompute.
      for (const Need &need : needs) {
        if (left <= 0 || need.perLayer <= 0)
          break;
        const double room = std::max(0.0, need.room);
        const double here =
            std::min(left, room / need.policy - room / need.plain);
        least += here * need.perLayer;
        left -= here;
      }
    }
    site.recomputed += std::min(least, layer.count) * std::max(0.0, more);
  }
}

StageBounds::Cost StageBounds::stageCost(const Site &site, const Candidate &c,
                                         int64_t stage, int64_t from,
                                         int64_t count, int64_t full) const {
  Cost cost;
  const int64_t split = from + full;
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
  return isMixed(c) ? site.plainTotal + site.recomputed : site.policyTotal;
}

double StageBounds::stepTime(const Site &site, double pipeline, double reduce,
                             double compute) const {
  return pipeline + reduce + site.once +
         site.excess * site.microbatches * compute;
}

double StageBounds::completeTime(const Site &site, const Candidate &c,
                                 double enough) const {
  if (!isPlain(c) && c.chunks > 1)
    return chunkedTime(site, c, enough);
  const bool hides = hidesReduce(c);
  double path = 0, compute = -1, reduce = -1, pipeline = 0;
  struct Own {
    int64_t stage;
    Cost cost;
  };
  std::vector<Own> stages;
  stages.reserve(uniform() ? 4 : static_cast<size_t>(c.pp));
  int64_t alike = 0; // layers of a stage that recompute at the least
  const auto add = [&](int64_t stage, int64_t from, int64_t count,
                       double times) {
    const Cost cost = stageCost(
        site, c, stage, from, count,
        std::max(std::min(alike, count),
                 leastFull(site, c, stage, from, count)));
    path += times * cost.all();
    compute = compute < 0 ? cost.compute : std::min(compute, cost.compute);
    reduce = reduce < 0 ? cost.reduce : std::min(reduce, cost.reduce);
    stages.push_back({stage, cost});
  };
  const int64_t interior = c.pp - 2;
  const int64_t left = program.layers - c.firstLayers - c.lastLayers;
  if (isMixed(c) && site.alike) {
    const std::vector<int64_t> counts = layersPerStage(c, program.layers);
    for (int64_t stage = 0, from = 0; stage < c.pp; ++stage) {
      const int64_t count = counts[static_cast<size_t>(stage)];
      alike = std::max(alike, leastFull(site, c, stage, from, count));
      from += count;
    }
  }
  add(0, 0, c.firstLayers, 1);
  if (c.pp > 1) {
    if (interior > 0 && uniform() && !isMixed(c)) {
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

double StageBounds::time(const Candidate &c, Depth depth,
                         const FullRule &rule, double enough) {
  if (depth == Depth::Mesh)
    return meshTime(c);
  const Site &site = this->site(c, depth, rule);
  if (depth == Depth::Complete)
    return completeTime(site, c, enough);
  Candidate weakest = c; // of what is free
  if (depth < Depth::State) { // of any schedule
    weakest.schedule =
        joined ? ScheduleKind::OneFOneB : ScheduleKind::ZbH1;
    weakest.chunks = chunked && c.pp > 1 ? 2 : 1;
  }
  if (depth < Depth::Policy)
    weakest.recompute = Recompute::None;
  if (c.pp == 1) { // one split
    weakest.firstLayers = weakest.lastLayers = program.layers;
    return completeTime(site, weakest, enough);
  }
  if (weakest.chunks == 1)
    return splitTime(site, weakest);
  return depth == Depth::Policy ? chunkedSplitTime(site, weakest, enough)
                                : meanTime(site, weakest);
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
    return 1;
  return static_cast<double>(
      slotCount(c.schedule, c.pp,
                base.globalBatch / (c.dp * c.microBatch), stage));
}

bool StageBounds::layersFit(const Candidate &c, double limit) {
  const Site &site = this->site(c, Depth::Complete);
  if (c.chunks > 1)
    return chunksFit(site, c, limit);
  const double slack = 1 + profile.allocatorSlack;
  const std::vector<int64_t> counts = layersPerStage(c, program.layers);
  int64_t from = 0;
  for (int64_t stage = 0; stage < c.pp; ++stage) {
    const int64_t count = counts[static_cast<size_t>(stage)];
    const double slots = slack * this->slots(c, stage);
    double bytes = static_cast<double>(profile.frameworkBytes.count());
    if (stage == 0)
      bytes += site.entranceState;
    if (stage + 1 == c.pp)
      bytes += site.exitState;
    double workspace = 0;
    for (size_t k = 0; k < site.layers.size(); ++k) {
      const std::vector<int64_t> &layers = before[k];
      const Layer &layer = site.layers[k];
      const auto own = static_cast<double>(layers[from + count] - layers[from]);
      bytes += own * (layer.stateBytes + slots * leastSaved(c, layer));
      if (own > 0)
        workspace = std::max(workspace, layer.workspace);
    }
    if (bytes + slack * workspace >= limit)
      return false;
    from += count;
  }
  return true;
}

bool StageBounds::splitsFit(const Candidate &c, double limit) {
  const Site &site = this->site(c, Depth::Policy);
  if (c.chunks > 1)
    return chunkedSplitsFit(site, c, limit);
  const double slack = 1 + profile.allocatorSlack;
  // Every kind of layers apart, as if the others needed nothing.
  for (const Layer &layer : site.layers) {
    double placed = 0;
    for (int64_t stage = 0; stage < c.pp && placed < layer.count; ++stage) {
      const double slots = this->slots(c, stage);
      double room = limit - static_cast<double>(profile.frameworkBytes.count());
      if (stage == 0)
        room -= site.entranceState;
      if (stage + 1 == c.pp)
        room -= site.exitState;
      if (room <= 0)
        return false;
      room -= slack * layer.workspace;
      double count =
          room / (layer.stateBytes + slack * slots * leastSaved(c, layer));
      count = std::floor(count * (1 + 1e-9) + 1e-9);
      if (count < 1 && uniform())
        return false; // every stage holds a layer
      placed += std::max(0.0, count);
    }
    if (placed < layer.count)
      return false;
  }
  return true;
}

} // namespace shardwright::cost
