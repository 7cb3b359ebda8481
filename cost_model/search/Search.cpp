#include "cost_model/search/Search.h"

#include "cost_model/base/Crew.h"
#include "cost_model/search/Descent.h"
#include "cost_model/search/Family.h"
#include "cost_model/search/Worker.h"

#include <algorithm>

namespace shardwright::cost {

std::string_view name(Reject reject) {
  switch (reject) {
  case Reject::Rule: return "rule";
  case Reject::Memory: return "memory";
  case Reject::Slower: return "slower";
  }
  return "";
}

bool RankedPlan::before(const RankedPlan &other) const {
  if (estimate.stepTime != other.estimate.stepTime)
    return estimate.stepTime < other.estimate.stepTime;
  if (memory != other.memory)
    return memory < other.memory;
  return text < other.text;
}

namespace {

/// What is learnt of a mesh during the search.
struct FamilyRecord {
  double bound = std::numeric_limits<double>::infinity(); ///< of pruned parts
  std::optional<Candidate> best;
  Seconds bestTime;
};

class BranchAndBound {
public:
  BranchAndBound(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), options(options), family(options),
        meshes(estimator, family, options), records(meshes.size()),
        incumbents({}, options),
        crew(static_cast<size_t>(std::max(1, options.threads))) {
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      if (i > 0)
        others.push_back(estimator.another());
      workers.emplace_back(i > 0 ? *others.back() : estimator, options, meshes);
    }
  }

  SearchResult run() {
    addRoots();
    size_t size = 8; // of a round: the first incumbents are worth waiting for
    while (!queue.empty()) {
      if (stopped())
        break;
      std::vector<Node> round;
      while (round.size() < size && !queue.empty()) {
        Node node = queue.take();
        if (beaten(node.bound, node.part.candidate))
          prune(node);
        else
          round.push_back(std::move(node));
      }
      workOn(round);
      size = std::min<size_t>(2 * size, 64);
    }
    if (!queue.empty() || !aside.empty() || meshes.uncounted() > 0)
      leaveOpen();
    finish();
    return std::move(result);
  }

private:
  /// Once it was, it is: a clock is not asked again.
  bool stopped() {
    wasStopped = wasStopped || meshes.uncounted() > 0 ||
                 (options.stop && options.stop());
    return wasStopped;
  }

  /// Of the roots from `from` on, which have no bound yet, the first of every few
  /// get theirs, for a plan to be found; the others wait for nothing.
  void setAside(std::vector<Node> &roots, size_t from) {
    const size_t most = 512;
    const size_t every = (roots.size() - from + most - 1) / most;
    size_t kept = from;
    for (size_t i = from; i < roots.size(); ++i)
      if ((i - from) % every == 0) {
        roots[kept] = std::move(roots[i]);
        roots[kept].bound = workers[0].rootBound(roots[kept]);
        ++kept;
      } else {
        aside.push_back(std::move(roots[i]));
      }
    roots.resize(kept);
  }

  void addRoots() {
    for (size_t i = 0; i < meshes.size(); ++i) {
      result.counters.considered += meshes[i].leaves;
      result.counters.illegal += meshes[i].illegal;
    }
    result.counters.uncounted = meshes.uncounted();
    std::vector<Node> roots = std::move(meshes.roots);
    const size_t some = 4096; // between questions whether to stop
    for (size_t from = 0; from < roots.size(); from += some) {
      if (stopped()) {
        setAside(roots, from);
        break;
      }
      crew.each(std::min(some, roots.size() - from),
                [&](size_t thread, size_t i) {
                  Node &root = roots[from + i];
                  root.bound = workers[thread].rootBound(root);
                });
    }
    // Those that cannot fit have no bound.
    std::erase_if(roots, [&](const Node &root) {
      const bool unfit = root.bound == std::numeric_limits<double>::infinity();
      if (unfit)
        result.counters.unfit += left(family, root);
      return unfit;
    });
    queue.fill(roots);
    if (options.stop)
      firstDrawn = Descent::drawFrom(queue.some());
  }

  bool beaten(double bound, const Candidate &candidate) const {
    return bound > incumbents.atMost(candidate);
  }
  void prune(const Node &node) {
    result.counters.pruned += left(family, node);
    const size_t end = node.rough == Rough::Experts
                           ? meshes.endOfGroup(node.family)
                           : node.family + 1;
    for (size_t i = node.family; i < end; ++i)
      if (!meshes[i].lawful.empty())
        records[i].bound = std::min(records[i].bound, node.bound);
  }

  void workOn(const std::vector<Node> &round) {
    std::vector<Outcome> outcomes(round.size());
    crew.each(round.size(), [&](size_t thread, size_t i) {
      outcomes[i] = workers[thread].work(round[i], incumbents);
    });
    for (size_t i = 0; i < round.size(); ++i)
      take(round[i], outcomes[i]);
  }

  void take(const Node &node, const Outcome &outcome) {
    FamilyRecord &record = records[node.family];
    result.counters.pruned += outcome.pruned;
    result.counters.unfit += outcome.unfit;
    record.bound = std::min(record.bound, outcome.prunedBound);
    for (const Outcome::Priced &priced : outcome.priced) {
      ++result.counters.evaluated;
      if (!record.best || priced.time < record.bestTime.count()) {
        record.best = priced.candidate;
        record.bestTime = Seconds(priced.time);
      }
      if (!beaten(priced.time, priced.candidate))
        insert(priced.candidate);
    }
    for (const Node &child : outcome.open)
      if (beaten(child.bound, child.part.candidate))
        prune(child);
      else
        queue.push(child);
  }

  void insert(const Candidate &candidate) {
    RankedPlan ranked;
    ranked.candidate = candidate;
    ranked.estimate = estimator.estimate(candidate);
    ranked.memory = estimator.memory(candidate);
    ranked.plan = estimator.plan(candidate);
    ranked.text = canonicalText(ranked.plan);
    if (options.distinct) {
      auto same = std::find_if(result.plans.begin(), result.plans.end(),
                               [&](const RankedPlan &other) {
                                 return layoutOf(other.candidate) ==
                                        layoutOf(ranked.candidate);
                               });
      if (same != result.plans.end()) {
        if (same->before(ranked))
          return;
        result.plans.erase(same);
      }
    }
    auto place = std::upper_bound(
        result.plans.begin(), result.plans.end(), ranked,
        [](const RankedPlan &a, const RankedPlan &b) { return a.before(b); });
    result.plans.insert(place, std::move(ranked));
    if (static_cast<int64_t>(result.plans.size()) > options.top)
      result.plans.pop_back();
    incumbents = Incumbents(result.plans, options);
  }

  /// A plan to show, which still counts as open: its part is not left. From where
  /// the search is now and where it began: what it has priced may be worse, and
  /// the longer of two searches shall not show the worse plan.
  void descend() {
    Descent descent(estimator, options, meshes);
    const auto now = descent.run(Descent::drawFrom(queue.some())),
               first = descent.run(firstDrawn);
    for (const std::optional<Candidate> &plan : {now, first})
      if (plan && (result.plans.empty() ||
                   estimator.time(*plan) <
                       result.plans.front().estimate.stepTime))
        insert(*plan);
  }

  /// The search was stopped: what is left may hold better plans.
  void leaveOpen() {
    result.counters.proven = false;
    // No kernel is faster than the arithmetic peak, whatever the mesh.
    double least = std::numeric_limits<double>::infinity();
    if ((!aside.empty() || meshes.uncounted() > 0) && meshes.size() > 0)
      least = estimator.lowerBound(meshes[0].mesh, Depth::Mesh, {}, unlimitedTime)
                  .count() *
              (1 - roundingSlack);
    if (!queue.empty())
      least = std::min(least, queue.top().bound);
    result.openBound = Seconds(least);
    if (options.cutoff.count() == std::numeric_limits<double>::infinity())
      descend();
    for (const Node &root : aside)
      result.counters.open += left(family, root);
    while (!queue.empty()) {
      const Node node = queue.take();
      if (beaten(node.bound, node.part.candidate))
        prune(node);
      else
        result.counters.open += left(family, node);
    }
  }

  void finish() {
    for (size_t i = 0; i < meshes.size(); ++i) {
      const LegalMesh &mesh = meshes[i];
      auto listed = [&](const RankedPlan &plan) {
        const Plan &p = plan.plan;
        const Candidate &m = mesh.mesh;
        return p.tp == m.tp && p.pp == m.pp && p.ep == m.ep &&
               p.etp == m.etp && p.cp == m.cp;
      };
      if (std::any_of(result.plans.begin(), result.plans.end(), listed))
        continue;
      const FamilyRecord &record = records[i];
      RejectedFamily rejected{Reject::Memory, mesh.mesh.dp, mesh.mesh.tp,
                              mesh.mesh.pp,   mesh.leaves,  mesh.violations,
                              Seconds(),      {},           {},
                              mesh.mesh.ep,   mesh.mesh.etp, mesh.mesh.cp};
      if (mesh.lawful.empty()) {
        if (mesh.violations.empty()) // the question's own ranges left nothing
          continue;
        rejected.reject = Reject::Rule;
      } else if (record.best || record.bound < std::numeric_limits<double>::infinity()) {
        rejected.reject = Reject::Slower;
        rejected.best = record.best;
        rejected.bound = Seconds(record.bound);
        if (record.best) {
          rejected.bestTime = record.bestTime;
          rejected.bound = Seconds(std::min(record.bound, record.bestTime.count()));
        }
      }
      result.rejected.push_back(std::move(rejected));
    }
  }

  const Estimator &estimator;
  const SearchOptions &options;
  Family family;
  bool wasStopped = false;
  Meshes meshes;
  std::vector<FamilyRecord> records;
  std::vector<std::unique_ptr<Estimator>> others; ///< of the other threads
  std::vector<Worker> workers;
  Incumbents incumbents;
  Crew crew;
  NodeQueue queue;
  std::vector<Node> aside; ///< roots that were not bounded before the stop
  std::vector<Node> firstDrawn; ///< for a descent, should the search be stopped
  SearchResult result;
};

/// Depth-first: every part that cannot need less than the best is skipped.
class SmallestSearch {
public:
  SmallestSearch(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), options(options), family(options) {}

  std::optional<RankedPlan> run() {
    const Meshes meshes(estimator, family, options);
    for (size_t i = 0; i < meshes.size(); ++i)
      for (const Candidate &batch : family.batches(meshes[i].mesh)) {
        if (options.stop && options.stop())
          return std::nullopt;
        if (meshes.isLawful(i, batch))
          visit({batch, Depth::Batch});
      }
    if (!best)
      return std::nullopt;
    RankedPlan ranked;
    ranked.candidate = *best;
    ranked.plan = estimator.plan(*best);
    ranked.estimate = estimator.estimate(*best);
    ranked.memory = memory;
    ranked.text = canonicalText(ranked.plan);
    return ranked;
  }

private:
  void visit(const Part &part) {
    if (part.depth == Depth::Complete) {
      settle(part.candidate);
      return;
    }
    if (best && !estimator.mayFit(part.candidate, part.depth, memory))
      return;
    for (const Part &child : family.children(part))
      visit(child);
  }

  /// The least that a plan of `part` can hold, if that is less than the best
  /// does: the lower the limit, the more recomputes. Bisection.
  void settle(const Candidate &part) {
    FullRule rule = fullRule(options);
    rule.limit = best ? memory : FullRule().limit;
    int64_t none = 0; // no plan of the part stays below so many bytes
    for (bool isFirst = true; isFirst || none < memory.count();
         isFirst = false) {
      if (std::optional<Candidate> point = estimator.settle(part, rule)) {
        best = std::move(point);
        memory = estimator.memory(*best);
      } else if (isFirst) {
        return;
      } else {
        none = rule.limit.count();
      }
      rule.limit = Bytes(none + ceilDiv(memory.count() - none, 2));
    }
  }

  const Estimator &estimator;
  const SearchOptions &options;
  Family family;
  std::optional<Candidate> best;
  Bytes memory;
};

} // namespace

std::vector<BoundedSplit> Estimator::within(const Candidate &policy,
                                            const std::vector<Split> &splits,
                                            const FullRule &rule,
                                            Seconds atMost) const {
  std::vector<BoundedSplit> result;
  for (const Split &split : splits)
    if (const Seconds bound = lowerBound(withSplit(policy, split),
                                         Depth::Complete, rule, atMost);
        bound <= atMost)
      result.push_back({split, bound});
  return result;
}

SearchResult search(const Estimator &estimator, const SearchOptions &options) {
  return BranchAndBound(estimator, options).run();
}

std::optional<RankedPlan> smallest(const Estimator &estimator,
                                   const SearchOptions &options) {
  return SmallestSearch(estimator, options).run();
}

} // namespace shardwright::cost
