//===- Meshes.h - The meshes of a question, and which are legal -*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_MESHES_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_MESHES_H

#include "cost_model/search/Queue.h"
#include "cost_model/search/Search.h"

#include <vector>

namespace shardwright::cost {

struct LegalMesh {
  Candidate mesh;
  std::vector<Violation> violations; ///< if no batch is lawful
  /// Batches that break no rule, ascending, without a microbatch where none
  /// matters to the rules.
  std::vector<Candidate> lawful = {};
  int64_t leaves = 0, illegal = 0; ///< complete candidates
};

/// All meshes, in groups that differ only in where experts live.
class Meshes {
public:
  Meshes(const Estimator &estimator, const Family &family,
         const SearchOptions &options);

  /// Meshes that nobody looked into, as `options.stop` said so: they have no
  /// roots and count nothing. If it said so after the start, a few more were
  /// looked into, that one plan may be found: most of those that hold the model
  /// on few ranks and may fit.
  int64_t uncounted() const { return left; }
  size_t size() const { return meshes.size(); }
  const LegalMesh &operator[](size_t index) const { return meshes[index]; }
  /// One past the last mesh of the group that begins at `first`.
  size_t endOfGroup(size_t first) const;
  bool isLawful(size_t mesh, const Candidate &batch) const;
  /// The batch of one mesh of a group at another.
  Candidate at(size_t mesh, Candidate batch) const;
  /// One for every batch of a group that is lawful at some of its meshes; their
  /// bounds are 0.
  std::vector<Node> roots;

private:
  void addGroup(size_t first, const Estimator &estimator, const Family &family);
  void addSome(size_t first, const Estimator &estimator, const Family &family,
               Bytes limit);
  void addLawful(size_t mesh, const Candidate &batch, const Estimator &estimator);
  std::vector<LegalMesh> meshes;
  int64_t left = 0;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_MESHES_H
