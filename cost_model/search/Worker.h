//===- Worker.h - What is done to one part of the family --------*- C++ -*-===//
//
// The parts that wait for their turn, and what a turn makes of one: parts of it,
// plans priced, and counts of what need not be looked at.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_WORKER_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_WORKER_H

#include "cost_model/search/Meshes.h"

#include <limits>
#include <utility>
#include <vector>

namespace shardwright::cost {

/// Bounds and times are sums taken in different orders: a bound may exceed the
/// time it bounds by rounding, never by more than this share.
inline constexpr double roundingSlack = 1e-9;

/// What SearchOptions::distinct compares.
Candidate layoutOf(Candidate candidate);

/// The times that a part has to beat. Taken between rounds, so that a round
/// does not depend on the order in which its parts are worked on.
class Incumbents {
public:
  Incumbents(const std::vector<RankedPlan> &plans, const SearchOptions &options)
      : top(static_cast<size_t>(options.top)), distinct(options.distinct),
        cutoff(options.cutoff.count()) {
    for (const RankedPlan &plan : plans)
      times.emplace_back(plan.estimate.stepTime.count(),
                         layoutOf(plan.candidate));
  }
  /// Nothing slower than this is wanted of the layout of `candidate`.
  double atMost(const Candidate &candidate) const {
    double most =
        times.size() < top ? cutoff : std::min(cutoff, times.back().first);
    if (distinct) {
      const Candidate layout = layoutOf(candidate);
      for (const auto &[time, other] : times)
        if (time < most && other == layout)
          most = time;
    }
    return most;
  }
  /// A plan that was priced; keeps the best `top` (of each layout one).
  void add(double time, const Candidate &candidate) {
    const Candidate layout = layoutOf(candidate);
    if (distinct)
      for (auto &entry : times)
        if (entry.second == layout) {
          entry.first = std::min(entry.first, time);
          std::sort(times.begin(), times.end());
          return;
        }
    times.emplace_back(time, layout);
    std::sort(times.begin(), times.end());
    if (times.size() > top)
      times.pop_back();
  }

private:
  size_t top;
  bool distinct;
  double cutoff;
  std::vector<std::pair<double, Candidate>> times; ///< ascending
};

/// What came of one part in a round.
struct Outcome {
  std::vector<Node> open;
  struct Priced {
    Candidate candidate;
    double time;
  };
  std::vector<Priced> priced;
  int64_t pruned = 0, unfit = 0;
  double prunedBound = std::numeric_limits<double>::infinity();
};

/// Works on parts, with an estimator of its own; one for each thread.
class Worker {
public:
  Worker(const Estimator &estimator, const SearchOptions &options,
         const Meshes &meshes)
      : estimator(estimator), options(options), meshes(meshes),
        family(options), rule(fullRule(options)) {}

  Outcome work(const Node &node, Incumbents incumbents);
  /// The bound under which a root waits; infinity if nothing of it fits.
  double rootBound(const Node &root) const;

private:
  void part(const Node &group);
  bool fits(const Part &part);
  void expand(const Part &state, const Node &parent);
  /// A split of a policy, and what its bound says without the policy's.
  struct Leaf {
    Candidate candidate;
    double bound;
  };
  void dive(const Node &node);
  std::vector<Leaf> promising(const Node &node) const;
  double boundOf(const Candidate &candidate, Depth depth, double parent) const;
  void prune(int64_t leaves, double bound);
  void push(Node node);
  void push(const Part &part, const Node &parent) {
    push({boundOf(part.candidate, part.depth, parent.bound), part,
          parent.family});
  }

  const Estimator &estimator;
  const SearchOptions &options;
  const Meshes &meshes;
  Family family;
  const FullRule rule;
  Incumbents known{{}, SearchOptions()};
  Outcome outcome;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_WORKER_H
