#include "cost_model/search/Worker.h"

#include <algorithm>

namespace shardwright::cost {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
} // namespace

Candidate layoutOf(Candidate candidate) {
  candidate.recompute = Recompute::None;
  candidate.full.clear();
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
  return std::max(estimator.lowerBound(batch, Depth::Mesh, rule, unlimitedTime).count(),
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
  } else if (!node.bounded) {
    if (fits(part))
      push(part, node);
  } else {
    dive(node);
  }
  return std::move(outcome);
}

/// Whether a completion may fit; books what does not.
bool Worker::fits(const Part &part) {
  if (estimator.mayFit(part.candidate, part.depth, options.memoryLimit))
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
  Node node{bound, state, parent.family};
  for (const Part &policy : family.children(state)) {
    if (policy.candidate.chunks == 1) {
      if (fits(policy))
        push(policy, node);
      continue;
    }
    // Their bounds take longer, and few of the many have to be known.
    node.part = policy;
    node.bounded = false;
    push(node);
  }
}

double Worker::boundOf(const Candidate &candidate, Depth depth,
                       double parent) const {
  // Beyond this a part is pruned, however far.
  const Seconds enough(known.atMost(candidate) * (1 + 2 * roundingSlack));
  const double bound =
      estimator.lowerBound(candidate, depth, rule, enough).count();
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

/// The splits of a policy near the best bound of those that fit are priced; the
/// others wait under theirs.
void Worker::dive(const Node &node) {
  const Candidate &policy = node.part.candidate;
  double near = kInfinity;
  Node rest = node;
  for (const Leaf &leaf : promising(node)) {
    if (leaf.bound > std::min(near, known.atMost(policy))) {
      rest.bound = std::max(node.bound, leaf.bound);
      rest.settledBelow = leaf.bound;
      push(std::move(rest)); // and all behind it
      return;
    }
    ++rest.settled;
    std::optional<Candidate> point;
    if (estimator.mayFit(leaf.candidate, Depth::Complete, options.memoryLimit))
      point = estimator.settle(leaf.candidate, rule);
    if (!point) {
      ++outcome.unfit;
      continue;
    }
    near = std::min(near, leaf.bound * 1.01);
    if (const double bound = boundOf(*point, Depth::Complete, leaf.bound);
        bound > known.atMost(policy)) {
      prune(1, bound);
      continue;
    }
    const double time = estimator.time(*point).count();
    known.add(time, *point);
    outcome.priced.push_back({std::move(*point), time});
  }
  if (const int64_t outside = left(family, rest); outside > 0)
    prune(outside, known.atMost(policy));
}

/// Splits that were not looked at yet and may be wanted, by their bound.
std::vector<Worker::Leaf> Worker::promising(const Node &node) const {
  const Candidate &policy = node.part.candidate;
  const double most = known.atMost(policy);
  std::vector<Leaf> result;
  for (const auto &[split, time] :
       estimator.within(policy, family.splits(policy), rule,
                        Seconds(most * (1 + 2 * roundingSlack)))) {
    const double bound = time.count() * (1 - roundingSlack);
    if (bound >= node.settledBelow && bound <= most)
      result.push_back({withSplit(policy, split), bound});
  }
  std::sort(result.begin(), result.end(), [](const Leaf &a, const Leaf &b) {
    return a.bound != b.bound ? a.bound < b.bound : a.candidate < b.candidate;
  });
  return result;
}

} // namespace shardwright::cost
