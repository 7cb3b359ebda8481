#include "cost_model/Search.h"

#include <algorithm>
#include <map>
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

/// Enumerates the family under the question's ranges, level by level.
class Family {
public:
  explicit Family(const SearchOptions &options) : options(options) {}

  bool allows(Field field, int64_t value) const {
    return options.ranges[static_cast<int>(field)].contains(value);
  }

  std::vector<Candidate> meshes() const {
    std::vector<Candidate> result;
    for (int64_t tp : divisors(options.gpus))
      for (int64_t pp : divisors(options.gpus / tp)) {
        int64_t dp = options.gpus / tp / pp;
        if (!allows(Field::Tp, tp) || !allows(Field::Pp, pp) ||
            !allows(Field::Dp, dp))
          continue;
        Candidate candidate;
        candidate.tp = tp;
        candidate.pp = pp;
        candidate.dp = dp;
        candidate.recompute = options.policies.front();
        addExperts(candidate, result);
      }
    return result;
  }

  /// The mesh with every expert parallelism. An expert is split (etp) only if
  /// the question asks for it.
  void addExperts(Candidate candidate, std::vector<Candidate> &result) const {
    candidate.sp = options.experts > 0 && candidate.tp > 1;
    const int64_t ranks = candidate.dp * candidate.tp;
    const Range &split = options.ranges[static_cast<int>(Field::Etp)];
    for (int64_t etp : divisors(ranks)) {
      if (etp > 1 && !(split.bounded() && split.contains(etp)))
        continue;
      for (int64_t ep : divisors(ranks / etp)) {
        if ((ep > 1 && (options.experts == 0 || options.experts % ep != 0)) ||
            !allows(Field::Ep, ep) || !allows(Field::Etp, etp))
          continue;
        candidate.ep = ep;
        candidate.etp = etp;
        result.push_back(candidate);
      }
    }
  }

  std::vector<Candidate> batches(const Candidate &mesh) const {
    std::vector<Candidate> result;
    if (options.globalBatch % mesh.dp != 0)
      return result;
    for (int sp = 0; sp <= (mesh.tp > 1 ? 1 : 0); ++sp)
      for (int64_t micro : divisors(options.globalBatch / mesh.dp)) {
        if (!allows(Field::Sp, sp) || !allows(Field::MicroBatch, micro) ||
            (mesh.sp && sp == 0)) // experts need it
          continue;
        Candidate candidate = mesh;
        candidate.sp = sp == 1;
        candidate.microBatch = micro;
        result.push_back(candidate);
      }
    return result;
  }

  /// ZeRO with one data rank and GPipe with one stage are the same program as
  /// without: not counted twice.
  std::vector<Candidate> states(const Candidate &batch) const {
    std::vector<Candidate> result;
    for (int zero = 0; zero <= (batch.dp > 1 ? 1 : 0); ++zero)
      for (ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
        if (!allows(Field::Zero, zero) ||
            !allows(Field::Schedule, static_cast<int64_t>(schedule)) ||
            (batch.pp == 1 && schedule != ScheduleKind::OneFOneB))
          continue;
        Candidate candidate = batch;
        candidate.zero = zero;
        candidate.schedule = schedule;
        result.push_back(candidate);
      }
    return result;
  }

  std::vector<Candidate> policies(const Candidate &state) const {
    std::vector<Candidate> result;
    auto add = [&](Recompute policy, int64_t full) {
      // "Full on n" is asked for by its own field; all layers are -1.
      if (!allows(Field::FullLayers, full))
        return;
      Candidate candidate = state;
      candidate.recompute = policy;
      candidate.fullLayers = full;
      result.push_back(candidate);
    };
    for (Recompute policy : options.policies) {
      if (!allows(Field::Recompute, static_cast<int64_t>(policy)))
        continue;
      add(policy, -1);
      if (policy == Recompute::Full)
        for (int64_t full = 1; full < shape(state.pp).largest; ++full)
          add(policy, full);
    }
    return result;
  }

  std::vector<Candidate> layouts(const Candidate &policy) const {
    std::vector<Candidate> result;
    const std::vector<Split> &splits = shape(policy.pp).splits;
    result.reserve(splits.size());
    for (const Split &split : splits) {
      if (split.largest <= policy.fullLayers) // the same as full on all
        continue;
      Candidate candidate = policy;
      candidate.firstLayers = split.first;
      candidate.lastLayers = split.last;
      result.push_back(candidate);
    }
    return result;
  }

  std::vector<Candidate> children(const Candidate &parent, Depth depth) const {
    switch (depth) {
    case Depth::Mesh: return batches(parent);
    case Depth::Batch: return states(parent);
    case Depth::State: return policies(parent);
    case Depth::Policy: return layouts(parent);
    case Depth::Complete: break;
    }
    return {};
  }

  /// Complete candidates under `candidate`, without walking them.
  int64_t leaves(const Candidate &candidate, Depth depth) const {
    switch (depth) {
    case Depth::Complete:
      return 1;
    case Depth::Policy:
      return shape(candidate.pp).splitsAbove(candidate.fullLayers);
    case Depth::State: {
      Shape &shape = this->shape(candidate.pp);
      if (shape.leaves < 0) { // does not depend on the other fields
        shape.leaves = 0;
        for (const Candidate &child : policies(candidate))
          shape.leaves += leaves(child, Depth::Policy);
      }
      return shape.leaves;
    }
    case Depth::Batch:
      return static_cast<int64_t>(states(candidate).size()) *
             leaves(candidate, Depth::State);
    case Depth::Mesh:
      break;
    }
    return 0;
  }

private:
  /// What the splits of one pipeline depth have in common.
  struct Shape {
    std::vector<Split> splits;
    std::vector<int64_t> above; ///< splits whose largest stage exceeds index
    int64_t largest = 0;
    int64_t leaves = -1;
    int64_t splitsAbove(int64_t layers) const {
      return layers < 0 ? static_cast<int64_t>(splits.size()) : above[layers];
    }
  };
  Shape &shape(int64_t pp) const {
    auto [entry, inserted] = shapes.try_emplace(pp);
    Shape &shape = entry->second;
    if (inserted) {
      shape.splits = splits(options.layers, pp, options.ranges);
      for (const Split &split : shape.splits)
        shape.largest = std::max(shape.largest, split.largest);
      shape.above.assign(shape.largest + 1, 0);
      for (const Split &split : shape.splits)
        for (int64_t layers = 0; layers < split.largest; ++layers)
          ++shape.above[layers];
    }
    return shape;
  }

  const SearchOptions &options;
  mutable std::map<int64_t, Shape> shapes;
};

Depth next(Depth depth) { return static_cast<Depth>(static_cast<int>(depth) + 1); }

/// A mesh of the question with its legal batches.
struct LegalMesh {
  Candidate mesh;
  std::vector<Candidate> batches;
  std::vector<Violation> violations; ///< if there are no batches
  int64_t leaves = 0;
};

std::vector<LegalMesh> legalMeshes(const Estimator &estimator,
                                   const Family &family) {
  std::vector<LegalMesh> result;
  for (const Candidate &mesh : family.meshes()) {
    LegalMesh legal{mesh, {}, estimator.check(mesh), 0};
    if (legal.violations.empty()) {
      for (const Candidate &batch : family.batches(mesh)) {
        std::vector<Violation> violations = estimator.check(batch);
        if (violations.empty()) {
          legal.batches.push_back(batch);
          legal.leaves += family.leaves(batch, Depth::Batch);
        } else if (legal.violations.empty()) {
          legal.violations = violations;
        }
      }
      if (!legal.batches.empty())
        legal.violations.clear();
    }
    result.push_back(std::move(legal));
  }
  return result;
}

struct Node {
  double bound;
  Depth depth;
  size_t family; ///< index of its mesh
  Candidate candidate;
};
/// Smallest bound first; deeper first among equals, then the candidate's order.
struct Later {
  bool operator()(const Node &a, const Node &b) const {
    if (a.bound != b.bound)
      return a.bound > b.bound;
    if (a.depth != b.depth)
      return a.depth < b.depth;
    return a.candidate > b.candidate;
  }
};

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
        meshes(legalMeshes(estimator, family)), records(meshes.size()) {}

  SearchResult run() {
    for (size_t i = 0; i < meshes.size(); ++i) {
      result.counters.considered += meshes[i].leaves;
      for (const Candidate &batch : meshes[i].batches)
        push(batch, Depth::Batch, i, 0);
    }
    while (!queue.empty()) {
      Node node = queue.top();
      queue.pop();
      if (beaten(node.bound))
        prune(node);
      else if (node.depth == Depth::Complete)
        price(node);
      else if (!estimator.mayFit(node.candidate, node.depth,
                                 options.memoryLimit))
        result.counters.unfit += family.leaves(node.candidate, node.depth);
      else if (node.depth == Depth::Policy)
        dive(node);
      else
        for (const Candidate &child : family.children(node.candidate, node.depth))
          push(child, next(node.depth), node.family, node.bound);
    }
    finish();
    return std::move(result);
  }

private:
  bool beaten(double bound) const {
    return static_cast<int64_t>(result.plans.size()) >= options.top &&
           bound > result.plans.back().estimate.stepTime.count();
  }

  void prune(const Node &node) {
    result.counters.pruned += family.leaves(node.candidate, node.depth);
    records[node.family].bound = std::min(records[node.family].bound, node.bound);
  }

  Node nodeOf(const Candidate &candidate, Depth depth, size_t mesh,
              double parent) const {
    double bound = estimator.lowerBound(candidate, depth).count();
    return {std::max(parent, bound * (1 - roundingSlack)), depth, mesh,
            candidate};
  }

  void push(const Candidate &candidate, Depth depth, size_t mesh, double parent) {
    Node node = nodeOf(candidate, depth, mesh, parent);
    if (beaten(node.bound))
      prune(node);
    else
      queue.push(node);
  }

  /// Splits are many and their bounds are near the truth: the most promising
  /// one that fits is priced at once, and most others are then beaten.
  void dive(const Node &node) {
    std::vector<Node> heap;
    for (const Candidate &child : family.children(node.candidate, node.depth)) {
      Node split = nodeOf(child, Depth::Complete, node.family, node.bound);
      if (beaten(split.bound))
        prune(split);
      else
        heap.push_back(split);
    }
    auto fits = [&](const Node &split) {
      if (estimator.memory(split.candidate) < options.memoryLimit)
        return true;
      ++result.counters.unfit;
      return false;
    };
    std::make_heap(heap.begin(), heap.end(), Later());
    for (bool priced = false; !priced && !heap.empty(); heap.pop_back()) {
      std::pop_heap(heap.begin(), heap.end(), Later());
      priced = fits(heap.back());
      if (priced)
        price(heap.back());
    }
    for (const Node &split : heap)
      if (beaten(split.bound))
        prune(split);
      else if (fits(split))
        queue.push(split);
  }

  void price(const Node &node) {
    ++result.counters.evaluated;
    RankedPlan ranked;
    ranked.candidate = node.candidate;
    ranked.estimate = estimator.estimate(node.candidate);
    FamilyRecord &record = records[node.family];
    if (!record.best || ranked.estimate.stepTime < record.bestTime) {
      record.best = node.candidate;
      record.bestTime = ranked.estimate.stepTime;
    }
    if (beaten(ranked.estimate.stepTime.count()))
      return;
    ranked.memory = estimator.memory(node.candidate);
    ranked.plan = estimator.plan(node.candidate);
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
  }

  /// What SearchOptions::distinct compares.
  static Candidate layoutOf(Candidate candidate) {
    candidate.recompute = Recompute::None;
    candidate.fullLayers = -1;
    candidate.firstLayers = candidate.lastLayers = 0;
    return candidate;
  }

  void finish() {
    for (size_t i = 0; i < meshes.size(); ++i) {
      const LegalMesh &mesh = meshes[i];
      auto listed = [&](const RankedPlan &plan) {
        return plan.plan.tp == mesh.mesh.tp && plan.plan.pp == mesh.mesh.pp;
      };
      if (std::any_of(result.plans.begin(), result.plans.end(), listed))
        continue;
      const FamilyRecord &record = records[i];
      RejectedFamily rejected{Reject::Memory, mesh.mesh.dp, mesh.mesh.tp,
                              mesh.mesh.pp,   mesh.leaves,  mesh.violations,
                              Seconds(),      {},           {},
                              mesh.mesh.ep};
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
  std::vector<LegalMesh> meshes;
  std::vector<FamilyRecord> records;
  std::priority_queue<Node, std::vector<Node>, Later> queue;
  SearchResult result;
};

/// Depth-first: every part that cannot need less than the best is skipped.
class SmallestSearch {
public:
  SmallestSearch(const Estimator &estimator, const SearchOptions &options)
      : estimator(estimator), family(options) {}

  std::optional<RankedPlan> run() {
    for (const LegalMesh &mesh : legalMeshes(estimator, family))
      for (const Candidate &batch : mesh.batches)
        visit(batch, Depth::Batch);
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
  void visit(const Candidate &candidate, Depth depth) {
    if (depth == Depth::Complete) {
      Bytes needed = estimator.memory(candidate);
      if (!best || needed < memory) {
        best = candidate;
        memory = needed;
      }
      return;
    }
    if (best && !estimator.mayFit(candidate, depth, memory))
      return;
    for (const Candidate &child : family.children(candidate, depth))
      visit(child, next(depth));
  }

  const Estimator &estimator;
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
