#include "cost_model/search/Descent.h"

#include <algorithm>
#include <set>

namespace shardwright::cost {

namespace {

// Somebody waits: a few hundredths of a second, up to tenths where layers have
// experts.
constexpr size_t kParts = 256;  ///< looked at, for
constexpr size_t kThrifty = 96; ///< plans that fit, of which
constexpr size_t kBest = 3;     ///< are improved by plans of
constexpr size_t kStates = 8;   ///< states

/// Of a part of it: what is fixed at Depth::Batch.
Candidate batchOf(const Candidate &part, const Candidate &mesh) {
  Candidate batch = mesh;
  batch.sp = part.sp;
  batch.cpKind = part.cpKind;
  batch.order = part.order;
  batch.products = part.products;
  batch.microBatch = part.microBatch;
  return batch;
}

} // namespace

std::vector<Node> Descent::drawFrom(const std::vector<const Node *> &parts) {
  // Ever further apart: the least bounds are of the best parts, or of those whose
  // costs the bounds do not know yet.
  const size_t most = std::min(kParts, parts.size());
  const size_t spare = parts.size() - most;
  std::vector<Node> drawn;
  for (size_t i = 0; i < most; ++i) {
    const size_t apart =
        most > 1 ? spare * i * i / ((most - 1) * (most - 1)) : 0;
    drawn.push_back(*parts[i + apart]);
  }
  return drawn;
}

std::optional<Candidate> Descent::run(const std::vector<Node> &drawn) {
  std::vector<Found> all;
  std::set<Candidate> tried;
  for (const Node &part : drawn) {
    if (all.size() >= kThrifty)
      break;
    std::vector<Candidate> batches;
    addBatches(part, batches);
    for (const Candidate &batch : batches)
      if (tried.insert(batch).second)
        if (std::optional<Found> found = thrifty(batch))
          all.push_back(*found);
  }
  const auto faster = [](const Found &a, const Found &b) {
    return a.time != b.time ? a.time < b.time : a.candidate < b.candidate;
  };
  std::sort(all.begin(), all.end(), faster);
  if (all.size() > kBest)
    all.resize(kBest);
  for (Found &found : all)
    improve(found);
  const auto best = std::min_element(all.begin(), all.end(), faster);
  if (best == all.end())
    return std::nullopt;
  return best->candidate;
}

/// A part's batch; of a group of meshes where its experts move least and where a
/// rank has fewest of them.
void Descent::addBatches(const Node &part,
                         std::vector<Candidate> &batches) const {
  const bool group = part.rough == Rough::Experts;
  const size_t end =
      group ? meshes.endOfGroup(part.family) : part.family + 1;
  std::optional<Candidate> nearest, fewest;
  double least = 0;
  for (size_t mesh = part.family; mesh < end; ++mesh) {
    const Candidate batch = batchOf(part.part.candidate, meshes[mesh].mesh);
    if (!meshes.isLawful(mesh, batch) ||
        (group && !mayFit({batch, Depth::Batch})))
      continue;
    const double bound =
        group ? estimator.roughBound(batch, Rough::Part).count() : 0;
    if (!nearest || bound < least) {
      nearest = batch;
      least = bound;
    }
    if (!fewest || batch.ep > fewest->ep)
      fewest = batch;
  }
  if (nearest)
    batches.push_back(*nearest);
  if (fewest && fewest != nearest)
    batches.push_back(*fewest);
}

/// The split whose largest stage is smallest, with least beside the head, if it
/// fits.
std::optional<Candidate> Descent::even(const Part &policy) const {
  const std::vector<Split> &splits = family.splits(policy.candidate);
  const auto found = std::min_element(
      splits.begin(), splits.end(), [](const Split &a, const Split &b) {
        return a.largest != b.largest ? a.largest < b.largest : a.last < b.last;
      });
  if (found == splits.end() || !mayFit(policy))
    return std::nullopt;
  return estimator.settle(withSplit(policy.candidate, *found), rule);
}

std::optional<Descent::Found> Descent::thrifty(const Candidate &batch) const {
  const std::vector<Part> states = family.children({batch, Depth::Batch});
  size_t tried = 0;
  // The last of each kind shard and recompute most.
  for (auto state = states.rbegin(); state != states.rend(); ++state) {
    if (!mayFit(*state))
      continue;
    if (++tried > kStates)
      break;
    const std::vector<Part> policies = family.children(*state);
    for (auto policy = policies.rbegin(); policy != policies.rend(); ++policy)
      if (const std::optional<Candidate> point = even(*policy))
        return Found{*point, batch, estimator.time(*point).count()};
  }
  return std::nullopt;
}

void Descent::improve(Found &found) const {
  std::vector<std::pair<double, Candidate>> states;
  for (const Part &state : family.children({found.batch, Depth::Batch}))
    if (mayFit(state))
      states.emplace_back(
          estimator.lowerBound(state.candidate, Depth::State, rule, unlimitedTime)
              .count(),
          state.candidate);
  std::sort(states.begin(), states.end());
  if (states.size() > kStates)
    states.resize(kStates);
  for (const auto &[bound, state] : states) {
    if (bound > found.time)
      break;
    for (const Part &policy : family.children({state, Depth::State})) {
      const std::optional<Candidate> point = even(policy);
      if (!point)
        continue;
      const double time = estimator.time(*point).count();
      if (time < found.time) {
        found.time = time;
        found.candidate = *point;
      }
    }
  }
}

} // namespace shardwright::cost
