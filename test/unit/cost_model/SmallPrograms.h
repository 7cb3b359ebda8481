//===- SmallPrograms.h - Programs built by hand, for tests ------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_SMALLPROGRAMS_H
#define SHARDWRIGHT_TEST_SMALLPROGRAMS_H

#include "cost_model/plan/Plan.h"

#include <map>
#include <string>
#include <vector>

namespace shardwright::test {

/// Appends ops to a function; dims are letters, sizes come from a table.
class FunctionBuilder {
public:
  explicit FunctionBuilder(std::map<char, int64_t> sizes)
      : sizes(std::move(sizes)) {}

  cost::ValueId argument(cost::ArgKind kind, int index,
                         const std::string &letters,
                         cost::Precision precision = cost::Precision::Compute);
  void result(cost::ResultKind kind, int index, cost::ValueId value);

  struct Options {
    std::string label = {};
    cost::KernelClass kernel = cost::KernelClass::Elementwise;
    std::vector<bool> linear = {}; ///< default: none
    std::string full = {};         ///< letters that must stay whole
    std::string sum = {}; ///< letters summed over for results without them
    std::string maximum = {};      ///< letters reduced by maximum
    std::vector<cost::Precision> precision = {}; ///< of results, default Compute
    bool causal = false;
  };
  /// `spec` is "sbh,fh->sbf"; several results are separated by commas. Letters
  /// of no result are summed over.
  std::vector<cost::ValueId> op(const std::string &name, cost::Segment segment,
                                const std::string &spec,
                                const std::vector<cost::ValueId> &operands,
                                const Options &options);
  cost::ValueId contract(const std::string &name, cost::Segment segment,
                         const std::string &spec, cost::ValueId lhs,
                         cost::ValueId rhs,
                         cost::Precision precision = cost::Precision::Compute);
  cost::ValueId add(const std::string &name, cost::Segment segment,
                    const std::string &letters, cost::ValueId lhs,
                    cost::ValueId rhs);

  cost::Function function;

private:
  std::map<char, int64_t> sizes;
};

/// One kind: y = w2 (w1 x), forward and gradients; segment mlp throughout.
/// Sequence 6, hidden 8, ffn 16.
cost::Program twoGemms();

struct LlamaSizes {
  int64_t sequence = 16, hidden = 24, kvHeads = 4, group = 2, headDim = 3,
          ffn = 40, vocab = 1000, layers = 4;
  bool tied = false;
};
/// embed, dense (none, selective, full) and head, with their gradients.
cost::Program smallLlama(const LlamaSizes &sizes = {});

/// A plan for `program` with mesh and even stages; model fields are empty.
cost::Plan planFor(const cost::Program &program, int64_t pp, int64_t dp,
                   int64_t tp, bool sp = false, int zero = 0,
                   int64_t microBatch = 1, int64_t microbatches = 4,
                   cost::Recompute policy = cost::Recompute::None);

} // namespace shardwright::test

#endif // SHARDWRIGHT_TEST_SMALLPROGRAMS_H
