//===- Family.h - Every plan that the search covers -------------*- C++ -*-===//
//
// Enumerates the family under a question's ranges, level by level, and counts
// what lies under a part without walking it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_FAMILY_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_FAMILY_H

#include "cost_model/search/Search.h"

#include <array>
#include <map>
#include <vector>

namespace shardwright::cost {

/// A part of the family.
struct Part {
  Candidate candidate;
  Depth depth = Depth::Mesh;
};

/// How many layers recompute in plans that answer a question.
FullRule fullRule(const SearchOptions &options);

class Family {
public:
  explicit Family(const SearchOptions &options) : options(options) {}

  bool allows(Field field, int64_t value) const {
    return options.ranges[static_cast<int>(field)].contains(value);
  }
  std::vector<Candidate> meshes() const;
  std::vector<Candidate> batches(const Candidate &mesh) const;
  std::vector<Part> children(const Part &parent) const;
  /// Splits of a policy, each once.
  const std::vector<Split> &splits(const Candidate &policy) const {
    return shape(policy).splits;
  }
  /// Complete candidates under a part.
  int64_t leaves(const Part &part) const;
  int64_t leaves(const Candidate &candidate, Depth depth) const {
    return leaves({candidate, depth});
  }

private:
  /// What all candidates with as many stages have in common.
  struct Shape {
    std::vector<Split> splits;
    int64_t leaves = -1; ///< of a state
  };
  Shape &shape(const Candidate &c) const;
  void addExperts(Candidate candidate, std::vector<Candidate> &result) const;
  bool allowsKind(const Candidate &c, CpKind kind) const;
  bool allowsZeroRanks(const Candidate &c) const;
  int64_t groupFor(int64_t pp, int64_t microbatches) const;
  std::vector<Candidate> states(const Candidate &batch) const;
  std::vector<Part> policies(const Candidate &state) const;

  const SearchOptions &options;
  mutable std::map<int64_t, Shape> shapes; ///< by number of stages
  /// Leaves under Depth::Batch, by what of a candidate they depend on.
  mutable std::map<std::array<int64_t, 5>, int64_t> leavesOfBatch;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_FAMILY_H
