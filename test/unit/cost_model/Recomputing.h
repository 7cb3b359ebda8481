//===- Recomputing.h - What recomputes, step by step ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_RECOMPUTING_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_RECOMPUTING_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/search/Candidate.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace shardwright::cost {

/// What a test asks of, without the search.
struct Machine {
  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan &base;

  std::vector<Bytes> memory(const Candidate &point) const {
    std::vector<Bytes> ranks;
    for (const StageEstimate &stage : estimateMemory(
             program, hardware, profile, planAt(program, base, point)))
      ranks.push_back(stage.total());
    return ranks;
  }

  /// The point of a leaf under Full: from no layers on, ranks that hold `limit`
  /// or more recompute one more (`alike`: all stages do), until none does or no
  /// layer is left. Its memory goes to `most`.
  std::optional<Candidate> settled(const Candidate &leaf, Bytes limit,
                                   bool alike, Bytes &most) const {
    const std::vector<int64_t> counts = layersPerStage(leaf, program.layers);
    std::vector<int64_t> full(counts.size(), 0);
    for (;;) {
      Candidate point = leaf;
      if (leaf.recompute == Recompute::Full)
        point.full = full;
      const std::vector<Bytes> ranks = memory(point);
      most = *std::max_element(ranks.begin(), ranks.end());
      if (most < limit)
        return point;
      if (leaf.recompute != Recompute::Full || full == counts)
        return std::nullopt;
      std::set<int64_t> raised; // of dualpipe two ranks have the same stages
      for (int64_t rank = 0; rank < leaf.pp; ++rank) {
        if (ranks[static_cast<size_t>(rank)] < limit)
          continue;
        if (alike) {
          for (size_t i = 0; i < counts.size(); ++i)
            full[i] = std::min(full[i] + 1, counts[i]);
          break;
        }
        // The first of its stages that recompute fewest, of those with more.
        int64_t next = -1;
        bool isRaised = false;
        for (int64_t chunk = 0; chunk < leaf.chunks; ++chunk) {
          const int64_t stage = stageAt(leaf.schedule, leaf.pp, {rank, chunk});
          isRaised = isRaised || raised.count(stage) > 0;
          if (full[stage] < counts[stage] &&
              (next < 0 || full[stage] < full[next]))
            next = stage;
        }
        if (isRaised)
          continue;
        if (next < 0)
          return std::nullopt;
        ++full[next];
        raised.insert(next);
      }
    }
  }
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_RECOMPUTING_H
