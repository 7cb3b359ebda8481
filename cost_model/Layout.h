//===- Layout.h - Where things lie in a rank's memory -----------*- C++ -*-===//
//
// Buckets of parameters and the static arena (D8, D10). Plain functions that
// the predicted ledger, the search and sw-allocate share.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_LAYOUT_H
#define SHARDWRIGHT_COST_MODEL_LAYOUT_H

#include "cost_model/Assignment.h"
#include "cost_model/Ledger.h"

namespace shardwright::cost {

/// Parameters of one layer that are reduced, updated and gathered together.
/// Key: (axes whose partial must be summed besides the data axis, decay).
struct Bucket {
  std::vector<Axis> extraReduceAxes; ///< all-reduced first (tp under sp)
  bool decay = true;
  std::vector<int> parameters;  ///< indices in the kind, ascending
  std::vector<int64_t> offsets; ///< of each parameter, elements, in the bucket
  int64_t elements = 0;         ///< padded to shards * 128 elements
  int64_t offset = 0;           ///< of the bucket, elements, in the layer block
};

/// All parameters of one layer of a kind that are not shared, as one block of
/// consecutive buckets. The same offsets serve parameters (param dtype),
/// gradients (grad dtype) and, divided by zero degree, master, m and v.
struct ParameterBlock {
  std::vector<Bucket> buckets;
  int64_t elements = 0;
};

/// Data ranks over which optimizer state is sharded: dp if zero >= 1, else 1.
int64_t zeroDegree(const Plan &plan);

/// Block of the unshared parameters of `kind`. Buckets are ordered by
/// (extraReduceAxes, decay first), parameters by index.
ParameterBlock parameterBlock(const Plan &plan, const Kind &kind);
/// Block of the shared parameters that stage `stage` owns (tied embedding).
ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           int64_t stage);

/// Bytes of staging that the rank-ordered host collective needs:
/// all-reduce and reduce-scatter ceil(count / ranks) elements; others none.
Bytes stagingBytes(Collective collective, int64_t count, int64_t elementBytes,
                   int64_t ranks);

/// A buffer alive from the op that defines it to its last use, inclusive.
struct Interval {
  int first, last;
  int64_t bytes;
};
/// Offsets (256-byte aligned) that let intervals share memory when they do not
/// overlap: greedy by size, best fit, ties by index. Returns total bytes.
int64_t pack(const std::vector<Interval> &intervals,
             std::vector<int64_t> &offsets);

/// Bytes of one activation slot of a run: per layer the stream that enters
/// (aligned 256) and each saved value (aligned 256).
Bytes savedBytesPerLayer(const Plan &plan, const Kind &kind,
                         const KindVariant &variant,
                         const PlannedVariant &planned);

/// Bytes of workspace of one function: every value that is not an argument, a
/// stream/saved/parameter-gradient/loss result, with the results of its
/// reshards; kept values and attention scratch are part of it.
Bytes workspaceBytes(const Plan &plan, const Function &function,
                     const PlannedFunction &planned);

MemoryParts memoryOf(const Program &program, const Plan &plan, int64_t stage);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_LAYOUT_H
