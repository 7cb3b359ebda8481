#include "cost_model/search/Worker.h"

#include <algorithm>

namespace shardwright::cost {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
} // namespace

Candidate layoutOf(Candidate candidate) {
  candidate.recompute = Recompute::None;
  candidate.fullLayers = -1;
  candidate.firstLayers = candidate.lastLayers = 0;
  return candidate;
}

double Worker::rootBound(const Candidate &batch) const {
  if (!estimator.mayFit(batch, Depth::Batch, options.memoryLimit))
    return kInfinity;
  return std::max(estimator.lowerBound(batch, Depth::Mesh).count(),
                  estimator.roughBound(batch, Rough::Ops).count()) *
         (1 - roundingSlack);
}

Outcome Worker::work(const Node &node, Incumbents incumbents) {
  outcome = Outcome();
  known = std::move(incumbents);
  const Part &part = node.part;
  if (node.rough == Rough::Ops) {
    Node next = node;
    next.rough = Rough::Layers;
    next.bound = std::max(
        node.bound,
        estimator.roughBound(part.candidate, Rough::Layers).count() *
            (1 - roundingSlack));
    push(std::move(next));
  } else if (node.rough) {
    push(part, node);
  } else if (part.depth == Depth::Batch) {
    for (const Part &state : family.children(part))
      expand(state, node);
  } else {
    narrow(node);
  }
  return std::move(outcome);
}

/// Whether a completion may fit; books what does not.
bool Worker::fits(Part part) {
  Candidate least = part.candidate;
  least.fullLayers = part.fullMost;
  if (estimator.mayFit(least, part.depth, options.memoryLimit))
    return true;
  outcome.unfit += family.leaves(part);
  return false;
}

/// A state and its policies at once: they share nearly all that they take, and
/// it is policies whose bounds know the memory.
void Worker::expand(const Part &state, const Node &parent) {
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

/// "Full on n" for a range of n: more recomputation needs less. Books those that
/// do not fit, of a range whose end may.
void Worker::raise(Part &range) {
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

double Worker::boundOf(const Candidate &candidate, Depth depth,
                       double parent) const {
  const double bound = estimator.lowerBound(candidate, depth).count();
  return std::max(parent, bound * (1 - roundingSlack));
}
void Worker::prune(int64_t leaves, double bound) {
  outcome.pruned += leaves;
  outcome.prunedBound = std::min(outcome.prunedBound, bound);
}
void Worker::push(Node node) {
  if (node.bound > known.atMost(node.part.candidate))
    prune(left(family, node), node.bound);
  else
    outcome.open.push_back(std::move(node));
}

/// Of "full on n" for a range of n the smallest is worked on, which is the
/// fastest; the rest waits.
void Worker::narrow(const Node &node) {
  Node own = node;
  own.part.fullMost = node.part.candidate.fullLayers;
  if (node.part.fullMost > own.part.fullMost) {
    Part rest = node.part;
    ++rest.candidate.fullLayers;
    push(rest, node);
  }
  dive(own);
}

/// Every split of a policy: most are outside of what the time or the memory lets
/// a stage hold, and of the others the most promising are priced first. While
/// the time to beat is far, those near the bound are, and the others wait; while
/// there is none any plan is worth having.
void Worker::dive(const Node &node) {
  const Candidate &policy = node.part.candidate;
  const int64_t all = left(family, node);
  int64_t settled = 0; // looked at one by one
  const double growth = node.growth > 0 ? node.growth : 0.01;
  const double most = known.atMost(policy), near = node.bound * (1 + growth);
  const bool waits = most < kInfinity && near < most;
  const double within = waits ? near : most;
  std::vector<Split> seen;
  if (node.settled > 0)
    seen = promising(policy, node.bound);
  std::vector<Node> heap;
  for (const Split &split : promising(policy, within)) {
    Node leaf{0, {policy, Depth::Complete, policy.fullLayers}, node.family};
    leaf.part.candidate.firstLayers = split.first;
    leaf.part.candidate.lastLayers = split.last;
    leaf.bound = boundOf(leaf.part.candidate, Depth::Complete, node.bound);
    if (leaf.bound > node.bound ||
        std::find(seen.begin(), seen.end(), split) == seen.end())
      heap.push_back(std::move(leaf));
  }
  std::sort(heap.begin(), heap.end(),
            [](const Node &a, const Node &b) { return Later()(b, a); });
  for (const Node &leaf : heap) {
    const Candidate &c = leaf.part.candidate;
    if (leaf.bound > std::min(known.atMost(policy), within))
      break; // and all behind it
    ++settled;
    if (!estimator.fits(c, options.memoryLimit)) {
      ++outcome.unfit;
      continue;
    }
    const double time = estimator.time(c).count();
    outcome.priced.push_back({c, time});
    known.add(time, c);
  }
  if (settled == all)
    return;
  if (!waits) {
    prune(all - settled, std::min(known.atMost(policy), within));
    return;
  }
  Node rest = node;
  rest.bound = within;
  rest.settled += settled;
  rest.growth = 4 * growth;
  push(std::move(rest));
}

std::vector<Split> Worker::promising(const Candidate &policy,
                                     double most) const {
  const SplitBox box =
      estimator.box(policy, Seconds(most * (1 + roundingSlack)));
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

} // namespace shardwright::cost
