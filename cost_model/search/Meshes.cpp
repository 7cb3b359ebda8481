#include "cost_model/search/Meshes.h"

#include <algorithm>
#include <array>

namespace shardwright::cost {

namespace {

/// Batches that differ in microBatch alone break the same rules, unless their
/// tokens have to fill the tiles of narrow products.
Candidate lawOf(Candidate batch) {
  if (batch.products.value_or(Narrow::None) == Narrow::None)
    batch.microBatch = 0;
  return batch;
}

} // namespace

Meshes::Meshes(const Estimator &estimator, const Family &family,
               const SearchOptions &options) {
  const bool atOnce = options.stop && options.stop();
  for (const Candidate &mesh : family.meshes())
    meshes.push_back({mesh, {}});
  if (atOnce) {
    left = static_cast<int64_t>(meshes.size());
    return;
  }
  for (size_t first = 0; first < meshes.size(); first = endOfGroup(first)) {
    if (options.stop && options.stop()) {
      addSome(first, estimator, family, options.memoryLimit);
      return;
    }
    addGroup(first, estimator, family);
  }
}

void Meshes::addSome(size_t first, const Estimator &estimator,
                     const Family &family, Bytes limit) {
  struct Group {
    int64_t replica; ///< ranks that hold the model once
    size_t first;
  };
  std::vector<Group> groups;
  for (; first < meshes.size(); first = endOfGroup(first)) {
    const Candidate &mesh = meshes[first].mesh;
    left += static_cast<int64_t>(endOfGroup(first) - first);
    Candidate least = mesh;
    least.ep = mesh.dp * mesh.cp * mesh.tp;
    if (!family.batches(mesh).empty() &&
        estimator.mayFit(least, Depth::Mesh, limit))
      groups.push_back({mesh.tp * mesh.cp * mesh.pp, first});
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group &a, const Group &b) {
                     return a.replica < b.replica;
                   });
  // Ever further apart, as most of the many large replicas are slow.
  const size_t most = std::min<size_t>(32, groups.size());
  const size_t spare = groups.size() - most;
  for (size_t i = 0; i < most; ++i) {
    const size_t apart =
        most > 1 ? spare * i * i / ((most - 1) * (most - 1)) : 0;
    const size_t chosen = groups[i + apart].first;
    addGroup(chosen, estimator, family);
    left -= static_cast<int64_t>(endOfGroup(chosen) - chosen);
  }
}

size_t Meshes::endOfGroup(size_t first) const {
  size_t end = first + 1;
  while (end < meshes.size() &&
         at(first, meshes[end].mesh) == meshes[first].mesh)
    ++end;
  return end;
}

Candidate Meshes::at(size_t mesh, Candidate batch) const {
  batch.ep = meshes[mesh].mesh.ep;
  batch.etp = meshes[mesh].mesh.etp;
  return batch;
}

bool Meshes::isLawful(size_t mesh, const Candidate &batch) const {
  const std::vector<Candidate> &lawful = meshes[mesh].lawful;
  return std::binary_search(lawful.begin(), lawful.end(), lawOf(batch));
}

void Meshes::addLawful(size_t index, const Candidate &batch,
                       const Estimator &estimator) {
  LegalMesh &mesh = meshes[index];
  std::vector<Violation> violations = estimator.check(batch, Depth::Batch);
  if (violations.empty())
    mesh.lawful.push_back(lawOf(batch));
  else if (mesh.violations.empty())
    mesh.violations = std::move(violations);
}

void Meshes::addGroup(size_t first, const Estimator &estimator,
                      const Family &family) {
  const size_t end = endOfGroup(first);
  const std::vector<Candidate> batches = family.batches(meshes[first].mesh);
  for (size_t i = first; i < end; ++i) {
    meshes[i].violations = estimator.check(meshes[i].mesh, Depth::Mesh);
    if (!meshes[i].violations.empty())
      continue; // of the mesh itself
    std::optional<Candidate> last;
    for (const Candidate &batch : batches)
      if (lawOf(batch) != last) {
        last = lawOf(batch);
        addLawful(i, at(i, batch), estimator);
      }
    std::sort(meshes[i].lawful.begin(), meshes[i].lawful.end());
    if (!meshes[i].lawful.empty())
      meshes[i].violations.clear();
  }
  for (const Candidate &batch : batches) {
    // Only whether experts lie apart matters to how many states there are.
    std::array<int64_t, 2> counts = {-1, -1};
    Node root{0, {batch, Depth::Batch}, first, Rough::Experts};
    for (size_t i = first; i < end; ++i) {
      const Candidate own = at(i, batch);
      int64_t &count = counts[own.ep * own.etp > 1];
      if (count < 0)
        count = family.leaves(own, Depth::Batch);
      if (isLawful(i, own)) {
        meshes[i].leaves += count;
        root.leaves += count;
      } else {
        meshes[i].illegal += count;
      }
    }
    if (end - first == 1)
      root.rough = Rough::Part;
    if (root.leaves > 0)
      roots.push_back(root);
  }
}

} // namespace shardwright::cost
