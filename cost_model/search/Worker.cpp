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

double Worker::rootBound(const Node &root) const {
  const Candidate &batch = root.part.candidate;
  const bool group = root.rough == Rough::Experts;
  Candidate least = batch;
  if (group) { // of its meshes; on all ranks there is least of an expert on each
    least.ep = batch.dp * batch.cp * batch.tp;
    least.etp = 1;
  }
  if (!estimator.mayFit(least, Depth::Batch, options.memoryLimit))
    return kInfinity;
  return std::max(estimator.lowerBound(batch, Depth::Mesh).count(),
                  estimator.roughBound(batch, *root.rough).count()) *
         (1 - roundingSlack);
}

/// The batch of a group at each of its meshes.
void Worker::part(const Node &group) {
  const size_t end = meshes.endOfGroup(group.family);
  for (size_t i = group.family; i < end; ++i) {
    Node root{0, group.part, i, Rough::Part};
    root.part.candidate = meshes.at(i, group.part.candidate);
    if (!meshes.isLawful(i, root.part.candidate))
      continue;
    root.bound = std::max(group.bound, rootBound(root));
    if (root.bound == kInfinity)
      outcome.unfit += left(family, root);
    else // pruned where it is known of which mesh it is
      outcome.open.push_back(std::move(root));
  }
}

Outcome Worker::work(const Node &node, Incumbents incumbents) {
  outcome = Outcome();
  known = std::move(incumbents);
  const Part &part = node.part;
  if (node.rough == Rough::Experts) {
    this->part(node);
  } else if (node.rough == Rough::Part) {
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
/// fastest; the rest waits. If no split of the smallest is promising none of any
/// n is: no split's bound falls with n, and more n have fewer splits of their own.
void Worker::narrow(const Node &node) {
  const std::vector<Leaf> leaves =
      promising(node, known.atMost(node.part.candidate));
  if (leaves.empty()) {
    prune(left(family, node), known.atMost(node.part.candidate));
    return;
  }
  Node own = node;
  own.bound = std::max(node.bound, leaves.front().bound);
  own.part.fullMost = node.part.candidate.fullLayers;
  if (node.part.fullMost > own.part.fullMost) {
    Part rest = node.part;
    ++rest.candidate.fullLayers;
    push(rest, own);
  }
  dive(own, leaves);
}

/// The splits of a policy near the best bound among them are priced; the others
/// wait under the least of theirs.
void Worker::dive(const Node &node, const std::vector<Leaf> &leaves) {
  const Candidate &policy = node.part.candidate;
  const double near = leaves.front().bound * 1.01;
  Node rest = node;
  for (const Leaf &leaf : leaves) {
    if (leaf.bound > std::min(near, known.atMost(policy))) {
      rest.bound = std::max(node.bound, leaf.bound);
      rest.settledBelow = leaf.bound;
      push(std::move(rest)); // and all behind it
      return;
    }
    ++rest.settled;
    if (!estimator.mayFit(leaf.candidate, Depth::Complete,
                          options.memoryLimit) ||
        !estimator.fits(leaf.candidate, options.memoryLimit)) {
      ++outcome.unfit;
      continue;
    }
    const double time = estimator.time(leaf.candidate).count();
    outcome.priced.push_back({leaf.candidate, time});
    known.add(time, leaf.candidate);
  }
  if (const int64_t outside = left(family, rest); outside > 0)
    prune(outside, known.atMost(policy));
}

/// Splits that were not looked at yet and may take `most` or less, by their
/// bound: most splits are outside of what the time lets a stage hold.
std::vector<Worker::Leaf> Worker::promising(const Node &node,
                                            double most) const {
  const Candidate &policy = node.part.candidate;
  const SplitBox box =
      estimator.box(policy, Seconds(most * (1 + roundingSlack)));
  std::vector<Leaf> result;
  const int64_t interior = policy.pp - 2;
  for (const Split &split : family.splits(policy)) {
    // No box speaks of the even split.
    if (split.first > 0 &&
        (split.largest <= policy.fullLayers || split.first > box.first ||
         split.last > box.last ||
         (interior > 0 &&
          ceilDiv(options.layers - split.first - split.last, interior) >
              box.interior)))
      continue;
    Leaf leaf{policy, 0};
    leaf.candidate.firstLayers = split.first;
    leaf.candidate.lastLayers = split.last;
    leaf.bound = boundOf(leaf.candidate, Depth::Complete, 0);
    if (leaf.bound >= node.settledBelow && leaf.bound <= most)
      result.push_back(std::move(leaf));
  }
  std::sort(result.begin(), result.end(), [](const Leaf &a, const Leaf &b) {
    return a.bound != b.bound ? a.bound < b.bound : a.candidate < b.candidate;
  });
  return result;
}

} // namespace shardwright::cost
