//===- StageSplits.cpp - How many layers stages may hold ------------------===//
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {

namespace {

/// Far more layers than any model has.
constexpr int64_t kUnlimited = int64_t(1) << 40;

} // namespace

StageBounds::Load StageBounds::load(const Site &site, const Candidate &c,
                                    const Layer &layer, int64_t stage) const {
  // stageTime is linear in the stage's cost, and grows with it.
  Cost own;
  if (stage == 0)
    own.add(site.entrance, 1);
  if (stage + 1 == c.pp)
    own.add(site.exit, 1);
  const double path = this->path(site, c);
  const double none = stageTime(site, c, Cost(), stage, path);
  const auto slope = [&](const Cost &cost) {
    return stageTime(site, c, cost, stage, path) - none;
  };
  Load load{stageTime(site, c, own, stage, path), slope(layer.policy), 0, 0, {}};
  if (!isMixed(c))
    return load;
  const double policy = load.plain;
  load.plain = slope(layer.plain);
  load.more = std::max(0.0, policy - load.plain);
  // The first of a stage recompute; of other kinds, where there are some.
  if (uniform())
    load.floor = static_cast<double>(std::min(site.floor, program.layers));
  load.need = need(site, c, layer, stage);
  return load;
}

int64_t StageBounds::Load::cap(double within) const {
  const double rest = within - ends;
  if (rest < 0)
    return -1;
  double count = kUnlimited;
  const auto keep = [&](double time, double perLayer) {
    if (time < count * perLayer)
      count = time / perLayer;
  };
  if (rest < floor * (plain + more))
    keep(rest, plain + more);
  else
    keep(rest - floor * more, plain);
  if (need.plain > 0) { // as many recompute as memory asks for, and no more
    keep(std::max(0.0, need.room), std::min(need.plain, need.policy));
    keep(std::max(0.0, rest + need.spared * more), plain + need.perLayer * more);
  }
  // A layer in a billion is for rounding.
  return static_cast<int64_t>(count * (1 + 1e-9) + 1e-9);
}

std::vector<StageBounds::Loads> StageBounds::loads(const Site &site,
                                                   const Candidate &c) const {
  std::vector<Loads> loads;
  loads.reserve(site.layers.size());
  for (const Layer &layer : site.layers) {
    Loads own;
    own[0] = load(site, c, layer, 0);
    if (c.pp > 1)
      own[1] = load(site, c, layer, c.pp - 1);
    if (c.pp > 2) {
      own[2] = load(site, c, layer, 1);
      own[3] = load(site, c, layer, c.pp - 2);
    }
    loads.push_back(own);
  }
  return loads;
}

bool StageBounds::feasible(const Site &site, const Candidate &c,
                           const std::vector<Loads> &loads, double time,
                           Caps *caps) const {
  const bool hides = hidesReduce(c);
  const int64_t layers = program.layers, interior = c.pp - 2;
  double reduce = hides ? site.leastReduce : 0, compute = 0;
  // Caps say how few layers a stage may have, and that how much is left.
  for (int round = 0; round < 3; ++round) {
    const double within = time - stepTime(site, 0, reduce, compute);
    for (size_t k = 0; k < loads.size(); ++k) {
      const Layer &layer = site.layers[k];
      const int64_t first = loads[k][0].cap(within);
      const int64_t last = c.pp > 1 ? loads[k][1].cap(within) : 0;
      // Earlier stages run further ahead, and may hold one layer more.
      const int64_t early = interior > 0 ? loads[k][2].cap(within) : 0;
      const int64_t late = interior > 0 ? loads[k][3].cap(within) : 0;
      if (first < 0 || last < 0 || early < 0 || late < 0)
        return false;
      int64_t inside = std::max<int64_t>(interior, 0) *
                       std::min(early, int64_t(layers));
      if (interior > 0 && uniform() && late < layers)
        inside = std::min(inside, interior * (late + 1) - 1);
      const double placed =
          static_cast<double>(std::min(first, layers)) +
          static_cast<double>(std::min(last, layers)) +
          static_cast<double>(inside);
      if (placed < layer.count)
        return false;
      if (!uniform())
        continue;
      if (caps)
        *caps = {first, c.pp > 1 ? last : first, early};
      const auto computeOf = [&](int64_t count, int64_t stage) {
        return stageCost(site, c, stage, 0,
                         std::clamp<int64_t>(count, 1, layers));
      };
      Cost least = computeOf(layers - std::min(last, layers) - inside, 0);
      if (c.pp > 1)
        least = Cost::least(
            least, computeOf(layers - std::min(first, layers) - inside,
                             c.pp - 1));
      if (interior > 0)
        least = Cost::least(
            least, computeOf((layers - std::min(first, layers) -
                              std::min(last, layers)) /
                                 interior,
                             c.pp - 2)); // recomputes least
      compute = least.compute;
      if (!hides)
        reduce = least.reduce;
    }
    if (!uniform())
      break;
  }
  return true;
}

/// The least time in which the splits of `c` may find room: bisection, from
/// below. What is returned is infeasible or 0.
double StageBounds::splitTime(const Site &site, const Candidate &c) const {
  const std::vector<Loads> loads = this->loads(site, c);
  double low = 0,
         high = stepTime(site, site.microbatches * site.policyTotal, 0, 0);
  if (feasible(site, c, loads, high, nullptr))
    for (int step = 0; step < 24 && high - low > 1e-6 * high; ++step) {
      const double middle = (low + high) / 2;
      (feasible(site, c, loads, middle, nullptr) ? high : low) = middle;
    }
  else
    low = high;
  return low;
}

std::vector<Split> StageBounds::within(const Candidate &c,
                                       const std::vector<Split> &splits,
                                       double atMost, const FullRule &rule) {
  const Site &site = this->site(c, Depth::Policy, rule);
  std::vector<Split> result;
  if (c.chunks > 1) {
    const double rest = restTime(site, c);
    for (const Split &split : splits)
      if (rest + endsTime(site, c, split.first, split.last) <=
          atMost * (1 + 1e-9))
        result.push_back(split);
    return result;
  }
  const SplitBox box = this->box(site, c, atMost);
  for (const Split &split : splits) {
    const int64_t left = program.layers - split.first - split.last;
    if (split.first <= box.first && split.last <= box.last &&
        (c.pp <= 2 || ceilDiv(left, c.pp - 2) <= box.interior))
      result.push_back(split);
  }
  return result;
}

StageBounds::SplitBox StageBounds::box(const Site &site, const Candidate &c,
                                       double atMost) const {
  SplitBox box;
  if (uniform()) {
    Caps caps{};
    if (!feasible(site, c, loads(site, c), atMost, &caps))
      return box;
    return {caps.first, caps.last, caps.interior};
  }
  const double within = atMost - stepTime(site, 0, site.leastReduce, 0);
  const double path = this->path(site, c);
  const int64_t layers = program.layers;
  const auto inTime = [&](const Cost &cost, int64_t stage) {
    return stageTime(site, c, cost, stage, path) <= within * (1 + 1e-9);
  };
  const auto fits = [&](int64_t stage, int64_t from, int64_t count) {
    return inTime(stageCost(site, c, stage, from, count), stage);
  };
  // One layer more at the front of a stage may recompute in the place of a longer
  // one: the time of a stage does not always grow with it.
  const auto mayFit = [&](int64_t stage, int64_t from, int64_t count) {
    if (!isMixed(c))
      return fits(stage, from, count);
    Cost cost = stageCost(site, c, stage, from, 0, 0);
    for (size_t k = 0; k < site.layers.size(); ++k)
      cost.add(Cost::least(site.layers[k].plain, site.layers[k].policy),
               static_cast<double>(before[k][from + count] - before[k][from]));
    return inTime(cost, stage);
  };
  /// The most of 0 .. `most` for which `fits`; `mayFit` falls with the count.
  const auto largest = [](int64_t most, const auto &mayFit, const auto &fits) {
    int64_t count = 0;
    while (count < most && mayFit(count + 1))
      ++count;
    while (count > 0 && !fits(count))
      --count;
    return count;
  };
  const auto ofStage = [&](int64_t stage, const auto &from) {
    return largest(
        layers,
        [&](int64_t count) { return mayFit(stage, from(count), count); },
        [&](int64_t count) { return fits(stage, from(count), count); });
  };
  box.first = ofStage(0, [](int64_t) { return int64_t(0); });
  box.last = ofStage(c.pp - 1, [&](int64_t count) { return layers - count; });
  if (c.pp > 2) {
    const auto any = [&](int64_t count, const auto &fits) {
      for (int64_t from = 1; from + count < layers; ++from)
        if (fits(1, from, count))
          return true;
      return false;
    };
    box.interior =
        largest(layers - 2, [&](int64_t count) { return any(count, mayFit); },
                [&](int64_t count) { return any(count, fits); });
  }
  return box;
}

} // namespace shardwright::cost
