#include "cost_model/search/Search.h"

#include "cost_model/base/Crew.h"
#include "cost_model/search/Family.h"

#include <algorithm>
#include <queue>

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

/// Bounds and times are sums taken in different orders: a bound may exceed the
/// time it bounds by rounding, never by more than this share.
constexpr double roundingSlack = 1e-9;

/// A mesh of the question with its legal batches.
struct LegalMesh {
  Candidate mesh;
  std::vector<Candidate> batches;
  std::vector<Violation> violations; ///< if there are no batches
  int64_t leaves = 0, illegal = 0;
};

std::vector<LegalMesh> legalMeshes(const Estimator &estimator,
                                   const Family &family) {
  std::vector<LegalMesh> result;
  for (const Candidate &mesh : family.meshes()) {
    LegalMesh legal{mesh, {}, estimator.check(mesh, Depth::Mesh), 0, 0};
    if (!legal.violations.empty()) {
      for (const Candidate &batch : family.batches(mesh))
        legal.illegal += family.leaves(batch, Depth::Batch);
    } else {
      // Batches that differ in microBatch alone break the same rules, unless
      // their tokens have to fill the tiles of narrow products.
      bool known = false, lawful = false;
      Candidate last;
      for (const Candidate &batch : family.batches(mesh)) {
        if (batch.products.value_or(Narrow::None) == Narrow::None)
          last.microBatch = batch.microBatch;
        if (!known || batch != last) {
          std::vector<Violation> violations =
              estimator.check(batch, Depth::Batch);
          lawful = violations.empty();
          if (legal.violations.empty())
            legal.violations = std::move(violations);
          known = true;
          last = batch;
        }
        if (!lawful) {
          legal.illegal += family.leaves(batch, Depth::Batch);
          continue;
        }
        legal.batches.push_back(batch);
        legal.leaves += family.leaves(batch, Depth::Batch);
      }
      if (!legal.batches.empty())
        legal.violations.clear();
    }
    result.push_back(std::move(legal));
  }
  return result;
}

/// What SearchOptions::distinct compares.
Candidate layoutOf(Candidate candidate) {
  candidate.recompute = Recompute::None;
  candidate.fullLayers = -1;
  candidate.firstLayers = candidate.lastLayers = 0;
  return candidate;
}

struct Node {
  double bound;
  Part part;
  size_t family; ///< index of its mesh
  /// Roots wait under roughBound.
  bool rough = false;
};
/// Smallest bound first; deeper first among equals, then the candidate's order.
struct Later {
  bool operator()(const Node &a, const Node &b) const {
    if (a.bound != b.bound)
      return a.bound > b.bound;
    if (a.part.depth != b.part.depth)
      return a.part.depth < b.part.depth;
    return a.part.candidate > b.part.candidate;
  }
};

/// What is learnt of a mesh during the search.
struct FamilyRecord {
  double bound = std::numeric_limits<double>::infinity(); ///< of pruned parts
  std::optional<Candidate> best;
  Seconds bestTime;
};

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
  Worker(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), options(options), family(options) {}

  Outcome work(const Node &node, Incumbents incumbents) {
    outcome = Outcome();
    known = std::move(incumbents);
    const Part &part = node.part;
    if (node.rough) {
      if (fits(part))
        push(part, node);
    } else if (part.depth == Depth::Batch) {
      for (const Part &state : family.children(part))
        expand(state, node);
    } else {
      work(node);
    }
    return std::move(outcome);
  }
  /// The bound under which a root waits.
  double rootBound(const Candidate &batch) const {
    return std::max(estimator.lowerBound(batch, Depth::Mesh).count(),
                    estimator.roughBound(batch).count()) *
           (1 - roundingSlack);
  }

private:
  /// Whether a completion may fit; books what does not.
  bool fits(Part part) {
    Candidate least = part.candidate;
    least.fullLayers = part.fullMost;
    if (estimator.mayFit(least, part.depth, options.memoryLimit))
      return true;
    outcome.unfit += family.leaves(part);
    return false;
  }

  /// A state and its policies at once: they share nearly all that they take, and
  /// it is policies whose bounds know the memory.
  void expand(const Part &state, const Node &parent) {
    if (!fits(state))
      return;
    const double bound = boundOf(state.candidate, Depth::State, parent.bound);
    if (bound > known.atMost(state.candidate)) {
      prune(family.leaves(state), bound);
      return;
    }
    const Node node{bound, state, parent.family};
    for (Part policy : family.children(state)) {
      if (!fits(policy))
        continue;
      raise(policy);
      push(policy, node);
    }
  }

  /// "Full on n" for a range of n: more recomputation needs less. Books those
  /// that do not fit, of a range whose end may.
  void raise(Part &range) {
    Part unfit = range;
    int64_t &least = range.candidate.fullLayers;
    for (int64_t most = range.fullMost; least < most;) {
      Candidate middle = range.candidate;
      middle.fullLayers = least + (most - least) / 2;
      if (estimator.mayFit(middle, Depth::Policy, options.memoryLimit))
        most = middle.fullLayers;
      else
        least = middle.fullLayers + 1;
    }
    unfit.fullMost = least - 1;
    if (unfit.candidate.fullLayers <= unfit.fullMost)
      outcome.unfit += family.leaves(unfit);
  }

  double boundOf(const Candidate &candidate, Depth depth, double parent) const {
    const double bound = estimator.lowerBound(candidate, depth).count();
    return std::max(parent, bound * (1 - roundingSlack));
  }
  void prune(int64_t leaves, double bound) {
    outcome.pruned += leaves;
    outcome.prunedBound = std::min(outcome.prunedBound, bound);
  }
  void push(const Part &part, const Node &parent) {
    const double bound = boundOf(part.candidate, part.depth, parent.bound);
    if (bound > known.atMost(part.candidate))
      prune(family.leaves(part), bound);
    else
      outcome.open.push_back({bound, part, parent.family});
  }

  /// Of "full on n" for a range of n the smallest is worked on, which is the
  /// fastest; the rest waits.
  void work(const Node &node) {
    Node own = node;
    own.part.fullMost = node.part.candidate.fullLayers;
    if (node.part.fullMost > own.part.fullMost) {
      Part rest = node.part;
      ++rest.candidate.fullLayers;
      push(rest, node);
    }
    dive(own);
  }

  /// Every split of a policy: most are outside of what the time or the memory
  /// lets a stage hold, and of the others the most promising are priced first.
  void dive(const Node &node) {
    const Candidate &policy = node.part.candidate;
    const int64_t all = family.leaves(node.part);
    int64_t settled = 0; // looked at one by one
    std::vector<Candidate> seen;
    double within = known.atMost(policy);
    if (within == std::numeric_limits<double>::infinity())
      within = node.bound * (1 + roundingSlack);
    for (double step = 1e-4;; step *= 4) {
      const double most = std::min(known.atMost(policy), within);
      const std::vector<Split> splits = promising(policy, most);
      std::vector<Node> heap;
      for (const Split &split : splits) {
        Node leaf{0, {policy, Depth::Complete, policy.fullLayers}, node.family};
        leaf.part.candidate.firstLayers = split.first;
        leaf.part.candidate.lastLayers = split.last;
        if (std::binary_search(seen.begin(), seen.end(), leaf.part.candidate))
          continue;
        leaf.bound = boundOf(leaf.part.candidate, Depth::Complete, node.bound);
        heap.push_back(std::move(leaf));
      }
      std::sort(heap.begin(), heap.end(),
                [](const Node &a, const Node &b) { return Later()(b, a); });
      for (const Node &leaf : heap) {
        const Candidate &c = leaf.part.candidate;
        if (leaf.bound > std::min(known.atMost(policy), within))
          break; // and all behind it
        ++settled;
        seen.push_back(c);
        if (!estimator.fits(c, options.memoryLimit)) {
          ++outcome.unfit;
          continue;
        }
        const double time = estimator.time(c).count();
        outcome.priced.push_back({c, time});
        known.add(time, c);
      }
      std::sort(seen.begin(), seen.end());
      if (within >= known.atMost(policy) || settled == all)
        break;
      if (step > 100) // nothing fits near by: look at all of them
        within = std::numeric_limits<double>::infinity();
      else
        within = node.bound * (1 + step);
    }
    if (settled < all)
      prune(all - settled, std::min(known.atMost(policy), within));
  }

  std::vector<Split> promising(const Candidate &policy, double most) const {
    const SplitBox box = estimator.box(policy, Seconds(most * (1 + roundingSlack)));
    std::vector<Split> result;
    const int64_t interior = policy.pp - 2;
    for (const Split &split : family.splits(policy))
      if (split.first == 0) // the even split, which no box speaks of
        result.push_back(split);
      else if (split.largest > policy.fullLayers && split.first <= box.first &&
          split.last <= box.last &&
          (interior < 1 ||
           ceilDiv(options.layers - split.first - split.last, interior) <=
               box.interior))
        result.push_back(split);
    return result;
  }

  const Estimator &estimator;
  const SearchOptions &options;
  Family family;
  Incumbents known{{}, SearchOptions()};
  Outcome outcome;
};

class BranchAndBound {
public:
  BranchAndBound(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), options(options), family(options),
        meshes(legalMeshes(estimator, family)), records(meshes.size()),
        incumbents({}, options),
        crew(static_cast<size_t>(std::max(1, options.threads))) {
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      if (i > 0)
        others.push_back(estimator.another());
      workers.emplace_back(i > 0 ? *others.back() : estimator, options);
    }
  }

  SearchResult run() {
    addRoots();
    size_t size = 8; // of a round: the first incumbents are worth waiting for
    while (!queue.empty()) {
      if (options.stop && options.stop()) {
        leaveOpen();
        break;
      }
      std::vector<Node> round;
      while (round.size() < size && !queue.empty()) {
        Node node = queue.top();
        queue.pop();
        if (beaten(node.bound, node.part.candidate))
          prune(node);
        else
          round.push_back(std::move(node));
      }
      workOn(round);
      size = std::min<size_t>(2 * size, 64);
    }
    finish();
    return std::move(result);
  }

private:
  void addRoots() {
    std::vector<Node> roots;
    for (size_t i = 0; i < meshes.size(); ++i) {
      result.counters.considered += meshes[i].leaves;
      result.counters.illegal += meshes[i].illegal;
      for (const Candidate &batch : meshes[i].batches)
        roots.push_back({0, {batch, Depth::Batch, -1}, i, true});
    }
    const size_t some = 4096; // between questions whether to stop
    for (size_t from = 0; from < roots.size(); from += some) {
      if (from > 0 && options.stop && options.stop())
        break; // the others keep 0
      crew.each(std::min(some, roots.size() - from),
                [&](size_t thread, size_t i) {
                  Node &root = roots[from + i];
                  root.bound = workers[thread].rootBound(root.part.candidate);
                });
    }
    queue = decltype(queue)(Later(), std::move(roots));
  }

  bool beaten(double bound, const Candidate &candidate) const {
    return bound > incumbents.atMost(candidate);
  }
  void prune(const Node &node) {
    result.counters.pruned += family.leaves(node.part);
    records[node.family].bound = std::min(records[node.family].bound, node.bound);
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

  /// The search was stopped: what is left may hold better plans.
  void leaveOpen() {
    result.counters.proven = false;
    result.openBound = Seconds(queue.top().bound);
    for (; !queue.empty(); queue.pop()) {
      const Node &node = queue.top();
      if (beaten(node.bound, node.part.candidate))
        prune(node);
      else
        result.counters.open += family.leaves(node.part);
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
      if (mesh.batches.empty()) {
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
  std::vector<std::unique_ptr<Estimator>> others; ///< of the other threads
  std::vector<Worker> workers;
  std::vector<LegalMesh> meshes;
  std::vector<FamilyRecord> records;
  Incumbents incumbents;
  Crew crew;
  std::priority_queue<Node, std::vector<Node>, Later> queue;
  SearchResult result;
};

/// Depth-first: every part that cannot need less than the best is skipped.
class SmallestSearch {
public:
  SmallestSearch(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), options(options), family(options) {}

  std::optional<RankedPlan> run() {
    for (const LegalMesh &mesh : legalMeshes(estimator, family))
      for (const Candidate &batch : mesh.batches) {
        if (options.stop && options.stop())
          return std::nullopt;
        visit({batch, Depth::Batch, -1});
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
      if (best && !estimator.fits(part.candidate, memory))
        return;
      best = part.candidate;
      memory = estimator.memory(part.candidate);
      return;
    }
    Candidate least = part.candidate;
    least.fullLayers = part.fullMost;
    if (best && !estimator.mayFit(least, part.depth, memory))
      return;
    if (part.fullMost == part.candidate.fullLayers) {
      for (const Part &child : family.children(part))
        visit(child);
      return;
    }
    Part one = part;
    one.fullMost = part.candidate.fullLayers;
    for (; one.fullMost <= part.fullMost; ++one.fullMost) {
      one.candidate.fullLayers = one.fullMost;
      visit(one);
    }
  }

  const Estimator &estimator;
  const SearchOptions &options;
  Family family;
  std::optional<Candidate> best;
  Bytes memory;
};

} // namespace

SearchResult search(const Estimator &estimator, const SearchOptions &options) {
  return BranchAndBound(estimator, options).run();
}

std::optional<RankedPlan> smallest(const Estimator &estimator,
                                   const SearchOptions &options) {
  return SmallestSearch(estimator, options).run();
}

} // namespace shardwright::cost
