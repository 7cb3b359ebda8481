//===- StageChunkTimes.cpp - Times of ranks that run several stages -------===//
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace shardwright::cost {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

} // namespace

/// What the layers of a model take up to each; and what each takes that comes
/// behind so many, at the least.
void StageBounds::setSums(Site &site, const Candidate &c) const {
  site.sums.assign(1, {});
  std::vector<Cost> layers;
  for (int64_t i = 0; i < program.layers; ++i)
    for (size_t k = 0; k < site.layers.size(); ++k) {
      if (before[k][static_cast<size_t>(i) + 1] ==
          before[k][static_cast<size_t>(i)])
        continue;
      const Layer &layer = site.layers[k];
      layers.push_back(isMixed(c) ? Cost::least(layer.plain, layer.policy)
                                  : layer.policy);
      std::array<Cost, 3> sum = site.sums.back();
      sum[0].add(layer.plain, 1);
      sum[1].add(layer.policy, 1);
      sum[2].add(layers.back(), 1);
      site.sums.push_back(sum);
    }
  site.least = layers;
  for (size_t i = layers.size() - 1; i-- > 0;)
    site.least[i] = Cost::least(site.least[i], site.least[i + 1]);
  site.cheapest.resize(site.layers.size());
  std::iota(site.cheapest.begin(), site.cheapest.end(), size_t(0));
  std::sort(site.cheapest.begin(), site.cheapest.end(),
            [&](size_t x, size_t y) {
              return more(site.layers[x]) < more(site.layers[y]);
            });
  site.stages = stageCount(c);
  site.bothEnds = holdsBothEnds(c);
  site.passes = static_cast<double>(chunkMicrobatches(
      c.schedule, static_cast<int64_t>(site.microbatches)));
}

/// What a step takes beside its pipeline, of any split.
double StageBounds::restTime(const Site &site, const Candidate &c) const {
  return stepTime(site, 0, hidesReduce(c) ? site.leastReduce : 0, 0);
}

int64_t StageBounds::askedFull(const Site &site, const Candidate &c,
                               int64_t stage, int64_t count) const {
  if (!isMixed(c))
    return count;
  return c.full.empty() ? std::min(count, site.floor)
                        : c.full[static_cast<size_t>(stage)];
}

template <typename Of>
double StageBounds::chunkSum(const Site &site, const Candidate &c,
                             const StageStarts &starts, int64_t stage,
                             Of of) const {
  const int64_t from = starts.of(stage), to = starts.of(stage + 1);
  const int64_t split = from + askedFull(site, c, stage, to - from);
  const auto sum = [&](int64_t layers, size_t how) {
    return of(site.sums[static_cast<size_t>(layers)][how]);
  };
  double all = sum(split, 1) - sum(from, 1);
  if (split < to)
    all += sum(to, 0) - sum(split, 0);
  if (stage == 0)
    all += of(site.entrance);
  if (stage + 1 == starts.stages)
    all += of(site.exit);
  return all;
}

template <typename Of>
double StageBounds::rankSum(const Site &site, const Candidate &c,
                            const StageStarts &starts, int64_t rank,
                            Of of) const {
  double sum = 0;
  for (int64_t chunk = 0; chunk < c.chunks; ++chunk)
    sum += chunkSum(site, c, starts,
                    stageAt(c.schedule, c.pp, {rank, chunk}), of);
  return sum;
}

/// What recomputation adds at the least to a pass through a rank, beyond that of
/// the layers that the rule's floor asks for: of the kinds that take least.
double StageBounds::leastRecomputed(const Site &site, const Candidate &c,
                                    int64_t rank,
                                    const StageStarts &starts) const {
  const auto stageOf = [&](int64_t chunk) {
    return stageAt(c.schedule, c.pp, {rank, chunk});
  };
  int64_t asked = 0;
  for (int64_t chunk = 0; chunk < c.chunks; ++chunk)
    asked += std::min(starts.count(stageOf(chunk)), site.floor);
  double time = 0;
  auto left =
      static_cast<double>(fullOfRank(site, c, rank, starts) - asked);
  if (uniform())
    return std::max(0.0, left) * more(site.layers.front());
  for (size_t k : site.cheapest) {
    double count = 0;
    for (int64_t chunk = 0; chunk < c.chunks && count < left; ++chunk)
      count += layersOf(k, starts, stageOf(chunk));
    count = std::min(count, left);
    if (count <= 0)
      continue;
    time += count * more(site.layers[k]);
    left -= count;
  }
  return time;
}

/// A rank runs its chunks for every microbatch that passes them. The first
/// microbatch arrives behind the stages before its first chunk, and where a
/// rank's first chunk is the first stages in order, the gradients of those
/// stages still follow its last. Weight gradients that run apart may come later.
/// What it recomputes is left out of times above `enough`.
double StageBounds::rankTime(const Site &site, const Candidate &c,
                             const StageStarts &starts, int64_t rank,
                             double enough) const {
  const auto all = [](const Cost &cost) { return cost.all(); };
  const auto passing = [&](const Cost &cost) {
    return splitsBackward(c.schedule) ? cost.forward : cost.all();
  };
  double time = site.passes * rankSum(site, c, starts, rank, all);
  if (stageOwners(c.schedule) == 1) {
    if (c.full.empty() && (!isMixed(c) || site.floor == 0))
      time += passing(site.sums[static_cast<size_t>(starts.of(rank))]
                               [isMixed(c) ? 0 : 1]) +
              (rank > 0 ? passing(site.entrance) : 0);
    else
      for (int64_t stage = 0; stage < rank; ++stage)
        time += chunkSum(site, c, starts, stage, passing);
  }
  if (isMixed(c) && c.full.empty() && time <= enough)
    time += site.passes * leastRecomputed(site, c, rank, starts);
  return time;
}

/// Of times above `enough` not all ranks are looked at; those of the ends first.
double StageBounds::chunkedTime(const Site &site, const Candidate &c,
                                double enough) const {
  const StageStarts starts(c, program.layers);
  const double rest = restTime(site, c);
  double pipeline = 0;
  for (int64_t i = 0; i < c.pp; ++i) {
    const int64_t rank = i == 0 ? 0 : i == 1 ? c.pp - 1 : i - 1;
    pipeline =
        std::max(pipeline, rankTime(site, c, starts, rank, enough - rest));
    if (rest + pipeline > enough)
      return rest + pipeline;
  }
  const bool hides = hidesReduce(c);
  double compute = kInfinity, reduce = kInfinity;
  for (int64_t rank = 0; rank < c.pp; ++rank) {
    compute = std::min(compute, rankSum(site, c, starts, rank,
                                        [](const Cost &cost) {
                                          return cost.compute;
                                        }));
    if (!hides)
      reduce = std::min(reduce, rankSum(site, c, starts, rank,
                                        [](const Cost &cost) {
                                          return cost.reduce;
                                        }));
  }
  return stepTime(site, pipeline, hides ? site.leastReduce : reduce,
                  site.passes / site.microbatches * compute);
}

/// The same of the ranks of the ends and the last of the others, from the numbers
/// of layers alone, for their stages that are no ends.
double StageBounds::endsTime(const Site &site, const Candidate &c, int64_t first,
                             int64_t last) const {
  const int64_t layers = program.layers, interior = site.stages - 2;
  const auto each = static_cast<double>(
      interior > 0 ? (layers - first - last) / interior : 0);
  const Cost &layer = site.least[static_cast<size_t>(first)];
  const auto sum = [&](int64_t count) -> const Cost & {
    return site.sums[static_cast<size_t>(count)][2];
  };
  const double front = site.entrance.all() + sum(first).all();
  const double back =
      site.exit.all() + sum(layers).all() - sum(layers - last).all();
  const bool oneWay = stageOwners(c.schedule) == 1;
  const bool apart = splitsBackward(c.schedule);
  const double passing = apart ? layer.forward : layer.all();
  // Behind the first stage and `count` interior ones.
  const auto arrives = [&](int64_t count) {
    return (apart ? site.entrance.forward + sum(first).forward : front) +
           static_cast<double>(count) * each * passing;
  };
  const auto ofInterior = [&](int64_t stages) {
    return static_cast<double>(stages) * each * layer.all();
  };
  if (site.bothEnds) {
    const double ends = site.passes * (front + back + ofInterior(c.chunks - 2));
    return oneWay ? std::max(ends, site.passes * ofInterior(c.chunks) +
                                       arrives(c.pp - 2))
                  : ends;
  }
  const double beside = ofInterior(c.chunks - 1);
  double time = std::max(site.passes * (front + beside),
                         site.passes * (back + beside) + arrives(c.pp - 2));
  if (c.pp > 2)
    time = std::max(time,
                    site.passes * ofInterior(c.chunks) + arrives(c.pp - 3));
  return time;
}

/// Some rank has the mean of all layers, and of the layers that come before its
/// first: at least one on each stage.
double StageBounds::meanTime(const Site &site, const Candidate &c) const {
  const double ranks = static_cast<double>(c.pp);
  double time = site.microbatches * site.plainTotal / ranks;
  if (!site.sums.empty() && stageOwners(c.schedule) == 1) { // a schedule is fixed
    const bool apart = splitsBackward(c.schedule);
    const auto passing = [&](const Cost &cost) {
      return apart ? cost.forward : cost.all();
    };
    time += (ranks - 1) * (passing(site.entrance) / ranks +
                           passing(site.least.front()) / 2);
  }
  return restTime(site, c) + time;
}

namespace {

/// The most of `low` .. `high` for which `holds`, which holds for all below one for
/// which it does; `low` - 1 if it holds for none.
template <typename Holds>
int64_t mostThat(int64_t low, int64_t high, const Holds &holds) {
  --low;
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (holds(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

} // namespace

/// The least over all splits of the bound of each. By the layers of all interior
/// stages: as these grow, so does the time of ranks that have no others, and with
/// them fixed the time of a rank with an end grows with the layers there. All this
/// holds where the layers behind the first stage are of one kind.
double StageBounds::chunkedSplitTime(const Site &site, const Candidate &c,
                                     double enough) const {
  const int64_t layers = program.layers, interior = site.stages - 2;
  const std::vector<int64_t> even = evenSplit(layers, site.stages);
  const double rest = restTime(site, c);
  double least = std::min(
      enough, chunkedTime(site, withSplit(c, {even.front(), even.back(), 0}),
                          enough));
  const auto ask = [&](int64_t first, int64_t last) {
    if (rest + endsTime(site, c, first, last) < least)
      least = std::min(
          least, chunkedTime(site, withSplit(c, {first, last, 0}), least));
  };
  const auto kindsBehind = [&](int64_t first) {
    return std::count_if(before.begin(), before.end(), [&](const auto &layersOf) {
      return layersOf.back() > layersOf[static_cast<size_t>(first)];
    });
  };
  int64_t alike = 1; // layers on the first stage
  while (kindsBehind(alike) > 1)
    ++alike;
  for (int64_t first = 1; first < alike; ++first)
    for (int64_t last = interior > 0 ? 1 : layers - first;
         last <= layers - interior - first; ++last)
      ask(first, last);

  const auto inTime = [&](int64_t first, int64_t last, int64_t rank) {
    const StageStarts starts(withSplit(c, {first, last, 0}), layers);
    return rest + rankTime(site, c, starts, rank, least - rest) < least;
  };
  int64_t most = interior > 0 ? layers - alike - 1 : 0;
  if (c.pp > 2 || (site.bothEnds && interior > 0)) {
    const int64_t others = site.bothEnds ? c.pp / 2 : c.pp - 2;
    most = mostThat(interior, most, [&](int64_t inner) {
      const int64_t last = layers - inner - alike;
      return inTime(alike, last, 1) && inTime(alike, last, others);
    });
  }
  const double shortest = site.least[static_cast<size_t>(alike)].all();
  for (int64_t inner = most; inner >= interior; --inner) {
    const int64_t ends = layers - inner;
    // Both ranks of the ends together, or the one of both.
    const int64_t beside =
        interior > 0 ? (2 * c.chunks - 2) * (inner / interior) : 0;
    const double held =
        site.entrance.all() + site.exit.all() +
        shortest * static_cast<double>(ends + (site.bothEnds ? 0 : beside));
    if (site.passes * held > (least - rest) * (site.bothEnds ? 1 : 2))
      continue;
    int64_t from = alike, to = ends - 1;
    if (!site.bothEnds) {
      to = mostThat(from, to, [&](int64_t first) {
        return inTime(first, ends - first, 0);
      });
      from = ends - mostThat(ends - to, ends - from, [&](int64_t last) {
               return inTime(ends - last, last, c.pp - 1);
             });
    }
    for (int64_t first = from; first <= to; ++first)
      ask(first, ends - first);
  }
  return least;
}

} // namespace shardwright::cost
