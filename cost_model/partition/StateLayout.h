//===- StateLayout.h - How a plan cuts what is trained ----------*- C++ -*-===//
//
// Parameters and optimizer state as the ranks of a plan hold them, tensor by
// tensor: what a checkpoint of shards is cut into, so what another plan would
// have to cut anew.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_STATELAYOUT_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_STATELAYOUT_H

#include "cost_model/partition/Layout.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// Something in equal parts over `ranks` ranks of the degree or axes `axis`
/// (axisName); whole: 1 rank, no name. Equal if the parts are: which ranks hold
/// them is no matter of the cut.
struct Cut {
  int64_t size; ///< padded, elements
  int64_t ranks = 1;
  std::string axis;
  bool operator==(const Cut &other) const {
    return size == other.size && ranks == other.ranks;
  }
};

struct CutDim {
  Role role;
  Cut cut;
  bool operator==(const CutDim &) const = default;
};

/// One parameter in every layer of its kind.
struct TensorLayout {
  std::string name; ///< in the checkpoint, `{}` for the layer
  Segment segment;
  std::vector<CutDim> dims;
  /// The flat bucket that holds a rank's part of the tensor and is cut for the
  /// optimizer, and under ZeRO 3 for the parameters too (`flat`).
  Cut bucket;
  int64_t offset; ///< of the tensor, elements, in the bucket
  bool flat;

  bool sameParameter(const TensorLayout &other) const {
    return dims == other.dims && flat == other.flat &&
           (!flat || sameBucket(other));
  }
  bool sameState(const TensorLayout &other) const {
    return dims == other.dims && sameBucket(other);
  }

private:
  bool sameBucket(const TensorLayout &other) const {
    return bucket == other.bucket && offset == other.offset;
  }
};

struct KindLayout {
  std::string kind;
  int64_t layers = 0;
  /// Of each rank of the pipeline the layers of this kind, counted from 0 over
  /// the layers of all kinds; embedding and head are layer 0 of their own.
  std::vector<std::vector<int64_t>> layersOfStages;
  std::vector<TensorLayout> tensors; ///< in order of the parameters
};

/// Every kind in order of the stack. The plan is legal (Rules.h). A tensor of
/// several kinds is in each, as it lies on the first stage that owns it.
std::vector<KindLayout> stateLayout(const Program &program, const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_STATELAYOUT_H
