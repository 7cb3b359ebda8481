//===- Descent.h - One plan that fits, soon ---------------------*- C++ -*-===//
//
// For who stops a search before it has a plan: not the best, nothing is proven
// of it, but it fits and is no bad one.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_DESCENT_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_DESCENT_H

#include "cost_model/search/Meshes.h"

#include <optional>
#include <vector>

namespace shardwright::cost {

class Descent {
public:
  Descent(const Estimator &estimator, const SearchOptions &options,
          const Meshes &meshes)
      : estimator(estimator), options(options), meshes(meshes),
        family(options), rule(fullRule(options)) {}

  /// Some of `parts`, which are in the order of their bounds.
  static std::vector<Node> drawFrom(const std::vector<const Node *> &parts);

  /// Of parts that were drawn plans with even stages are priced, at first those
  /// that shard most; of the best of these others. The fastest of all.
  std::optional<Candidate> run(const std::vector<Node> &drawn);

private:
  struct Found {
    Candidate candidate;
    Candidate batch;
    double time;
  };
  void addBatches(const Node &part, std::vector<Candidate> &batches) const;
  std::optional<Found> thrifty(const Candidate &batch) const;
  void improve(Found &found) const;
  std::optional<Candidate> even(const Part &policy) const;
  bool mayFit(const Part &part) const {
    return estimator.mayFit(part.candidate, part.depth, options.memoryLimit);
  }

  const Estimator &estimator;
  const SearchOptions &options;
  const Meshes &meshes;
  Family family;
  const FullRule rule;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_DESCENT_H
