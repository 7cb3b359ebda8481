//===- StageChunkMemory.cpp - Bytes of ranks that run several stages ------===//
#include "cost_model/search/StageBounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace shardwright::cost {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Whether another moment saves as much in every chunk, and more in one.
bool isCovered(const InFlight &moment, const std::vector<InFlight> &moments) {
  return std::any_of(
      moments.begin(), moments.end(), [&](const InFlight &other) {
        return other.saved != moment.saved &&
               std::equal(other.saved.begin(), other.saved.end(),
                          moment.saved.begin(), std::greater_equal<>());
      });
}

/// Whether all stages of a rank are interior ones.
bool isInterior(const Candidate &c, int64_t rank) {
  for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
    const int64_t stage = stageAt(c.schedule, c.pp, {rank, chunk});
    if (stage == 0 || stage + 1 == stageCount(c))
      return false;
  }
  return true;
}

} // namespace

const std::vector<StageBounds::RankSlots> &
StageBounds::slotsOfRanks(const Candidate &c) {
  const int64_t microbatches = base.globalBatch / (c.dp * c.microBatch);
  const auto [entry, inserted] =
      slotTables.try_emplace({static_cast<int64_t>(c.schedule), c.pp, c.chunks,
                              microbatches, c.group});
  std::vector<RankSlots> &result = entry->second;
  if (!inserted)
    return result;
  const ScheduleFacts &facts = cache.schedules.facts(
      c.schedule, c.pp, c.chunks, microbatches, c.group);
  for (const std::vector<InFlight> &moments : facts.inFlight) {
    const auto total = [](const InFlight &moment) {
      return std::accumulate(moment.saved.begin(), moment.saved.end(),
                             int64_t(0));
    };
    const InFlight &fullest = *std::max_element(
        moments.begin(), moments.end(), [&](const auto &a, const auto &b) {
          return total(a) < total(b);
        });
    RankSlots slots;
    slots.fullest.assign(fullest.saved.begin(), fullest.saved.end());
    slots.any = slots.fullest;
    for (const InFlight &moment : moments)
      if (!isCovered(moment, moments))
        for (size_t chunk = 0; chunk < slots.any.size(); ++chunk)
          slots.any[chunk] = std::min(
              slots.any[chunk], static_cast<double>(moment.saved[chunk]));
    slots.least = *std::min_element(slots.any.begin(), slots.any.end());
    slots.chunks.resize(slots.fullest.size());
    std::iota(slots.chunks.begin(), slots.chunks.end(), int64_t(0));
    std::stable_sort(slots.chunks.begin(), slots.chunks.end(),
                     [&](int64_t a, int64_t b) {
                       return slots.fullest[static_cast<size_t>(a)] >
                              slots.fullest[static_cast<size_t>(b)];
                     });
    result.push_back(std::move(slots));
  }
  return result;
}

/// Layers of kind `k` on a stage.
double StageBounds::layersOf(size_t k, const StageStarts &starts,
                             int64_t stage) const {
  const std::vector<int64_t> &layers = before[k];
  return static_cast<double>(
      layers[static_cast<size_t>(starts.of(stage + 1))] -
      layers[static_cast<size_t>(starts.of(stage))]);
}

/// Of layers of one kind the moment that holds most chunks is the one of their
/// peak. Where they differ, a framework may count what it keeps and what it does
/// not keep at different moments: each chunk as in the least of them.
const std::vector<double> &
StageBounds::inFlight(const Site &site, const Candidate &c, int64_t rank,
                      const StageStarts &starts) const {
  const RankSlots &slots = (*site.slots)[static_cast<size_t>(rank)];
  if (uniform())
    return slots.fullest;
  size_t kinds = 0;
  for (size_t k = 0; k < site.layers.size(); ++k)
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk)
      if (layersOf(k, starts, stageAt(c.schedule, c.pp, {rank, chunk})) > 0) {
        ++kinds;
        break;
      }
  return kinds == 1 ? slots.fullest : slots.any;
}

/// Bytes of a rank without what its layers hold.
double StageBounds::rankBytes(const Site &site, const Candidate &c,
                              int64_t rank) const {
  const bool owned = stageOwners(c.schedule) == 1;
  double bytes = static_cast<double>(profile.frameworkBytes.count());
  if (rank == 0 || (!owned && rank + 1 == c.pp))
    bytes += site.entranceState;
  if (owned ? rank == (site.bothEnds ? 0 : c.pp - 1)
            : rank == 0 || rank + 1 == c.pp)
    bytes += site.exitState;
  return bytes;
}

/// Layers of a rank that recompute at the least: as many as its memory asks for,
/// where those of the chunks that are in flight most spare most.
int64_t StageBounds::fullOfRank(const Site &site, const Candidate &c,
                                int64_t rank, const StageStarts &starts) const {
  const double slack = 1 + profile.allocatorSlack;
  const RankSlots &slots = (*site.slots)[static_cast<size_t>(rank)];
  const std::vector<double> &flying = inFlight(site, c, rank, starts);
  const auto stageOf = [&](int64_t chunk) {
    return stageAt(c.schedule, c.pp, {rank, chunk});
  };
  double bytes = rankBytes(site, c, rank), workspace = 0;
  double plain = 0, policy = kInfinity; // what a layer saves
  for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
    const int64_t stage = stageOf(chunk);
    const double held = slack * flying[static_cast<size_t>(chunk)];
    for (size_t k = 0; k < site.layers.size(); ++k) {
      const Layer &layer = site.layers[k];
      const double own = layersOf(k, starts, stage);
      if (own == 0)
        continue;
      bytes += own * (layer.stateBytes + held * layer.savedPlain);
      workspace = std::max(workspace, layer.workspace);
      plain = std::max(plain, layer.savedPlain);
      policy = std::min(policy, layer.savedPolicy);
    }
  }
  bytes += slack * workspace;
  int64_t full = 0;
  for (int64_t chunk : slots.chunks) {
    const double spares = slack * (flying[static_cast<size_t>(chunk)] * plain -
                                   slots.least * policy);
    if (bytes < site.limit || spares <= 0)
      break;
    const double wanted = std::ceil((bytes - site.limit) / spares - 1e-6);
    const double most = static_cast<double>(starts.count(stageOf(chunk)));
    const double taken = std::clamp(wanted, 0.0, most);
    full += static_cast<int64_t>(taken);
    bytes -= taken * spares;
  }
  return full;
}

/// What a layer saves in a chunk, at the least.
double StageBounds::leastSaved(const Candidate &c, const Layer &layer,
                               double flying, double least) {
  return isMixed(c) ? std::min(flying * layer.savedPlain,
                               least * layer.savedPolicy)
                    : flying * layer.savedPolicy;
}

bool StageBounds::chunksFit(const Site &site, const Candidate &c,
                            double limit) const {
  const double slack = 1 + profile.allocatorSlack;
  const StageStarts starts(c, program.layers);
  for (int64_t rank = 0; rank < c.pp; ++rank) {
    const RankSlots &slots = (*site.slots)[static_cast<size_t>(rank)];
    const std::vector<double> &flying = inFlight(site, c, rank, starts);
    double bytes = rankBytes(site, c, rank), workspace = 0;
    for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
      const int64_t stage = stageAt(c.schedule, c.pp, {rank, chunk});
      for (size_t k = 0; k < site.layers.size(); ++k) {
        const Layer &layer = site.layers[k];
        const double own = layersOf(k, starts, stage);
        bytes += own * (layer.stateBytes +
                        slack * leastSaved(c, layer,
                                           flying[static_cast<size_t>(chunk)],
                                           slots.least));
        if (own > 0)
          workspace = std::max(workspace, layer.workspace);
      }
    }
    if (bytes + slack * workspace >= limit)
      return false;
  }
  return true;
}

/// Every kind of layers apart, as if the others needed nothing.
bool StageBounds::chunkedSplitsFit(const Site &site, const Candidate &c,
                                   double limit) const {
  const double slack = 1 + profile.allocatorSlack;
  for (const Layer &layer : site.layers) {
    double placed = 0;
    for (int64_t rank = 0; rank < c.pp; ++rank) {
      const RankSlots &slots = (*site.slots)[static_cast<size_t>(rank)];
      const double room =
          limit - rankBytes(site, c, rank) - slack * layer.workspace;
      // One in each chunk, and one in the chunk that is in flight least.
      double round = 0, one = kInfinity;
      for (int64_t chunk = 0; chunk < c.chunks; ++chunk) {
        const double held =
            layer.stateBytes +
            slack * leastSaved(c, layer,
                               (uniform() ? slots.fullest
                                          : slots.any)[static_cast<size_t>(chunk)],
                               slots.least);
        round += held;
        one = std::min(one, held);
      }
      if (room <= 0 || (uniform() && room * (1 + 1e-9) < round))
        return false;
      const bool even = uniform() && isInterior(c, rank);
      const double rounds = even ? std::floor(room / round * (1 + 1e-9)) : 0;
      double more = std::floor((room - rounds * round) / one * (1 + 1e-9) + 1e-9);
      if (even) // interior stages differ by a layer at most
        more = std::min(more, static_cast<double>(c.chunks - 1));
      placed += rounds * static_cast<double>(c.chunks) + std::max(0.0, more);
    }
    if (placed < layer.count * static_cast<double>(stageOwners(c.schedule)))
      return false;
  }
  return true;
}

} // namespace shardwright::cost
