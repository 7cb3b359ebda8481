//===- Layout.h - Where things lie in a rank's memory -----------*- C++ -*-===//
//
// Buckets of parameters and the static arena (D8, D10). Plain functions that
// the predicted ledger, the search and sw-allocate share.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_LAYOUT_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_LAYOUT_H

#include "cost_model/partition/Assignment.h"
#include "cost_model/partition/Ledger.h"

#include <type_traits>

namespace shardwright::cost {

/// Every buffer of the arena starts at a multiple of this.
inline constexpr int64_t arenaAlignment = 256;

/// Parameters of one layer that are reduced, updated and gathered together.
/// Key: (data axes, axes whose partial must be summed besides them, decay).
struct Bucket {
  Axes dataAxes;        ///< dp and cp, or edp for experts
  Axes shardAxes;       ///< of them those of ZeRO; none: not sharded
  Axes extraReduceAxes; ///< all-reduced first (tp under sp)
  bool decay = true;
  std::vector<int> parameters;  ///< indices in the kind, ascending
  std::vector<int64_t> offsets; ///< of each parameter, elements, in the bucket
  int64_t shards = 1;           ///< of its optimizer state: the ranks of
                                ///< shardAxes
  int64_t elements = 0;         ///< padded to shards * 128 elements
  int64_t offset = 0;           ///< of the bucket, elements, in the layer block
};

/// All parameters of one layer of a kind that are not shared, as one block of
/// consecutive buckets. The same offsets serve parameters (param dtype),
/// gradients (grad dtype) and, divided by zero degree, master, m and v.
struct ParameterBlock {
  std::vector<Bucket> buckets;
  int64_t elements = 0;
  int64_t stateElements = 0; ///< of a rank: sum of elements / shards
};

/// Bytes of master, m and v of one parameter.
inline int64_t optimizerBytesPerElement(const DTypes &dtypes) {
  return 3 * byteWidth(dtypes.master);
}

/// Bytes of a rank's parameters, gradients and optimizer state: of all its
/// `elements`, or of the `stateElements` that ZeRO leaves it, as its stage says.
/// Number is int64_t, checked, or double.
template <typename Number> struct StateBytes {
  Number parameters, gradients, optimizer;
  Number total() const { return parameters + gradients + optimizer; }
};
template <typename Number>
StateBytes<Number> stateBytes(const DTypes &dtypes, int zero, Number elements,
                              Number stateElements) {
  const auto times = [](Number count, int64_t width) {
    if constexpr (std::is_same_v<Number, int64_t>)
      return checkedMul(count, width);
    else
      return count * static_cast<Number>(width);
  };
  return {times(zero >= 3 ? stateElements : elements, byteWidth(dtypes.param)),
          times(zero >= 2 ? stateElements : elements, byteWidth(dtypes.grad)),
          times(stateElements, optimizerBytesPerElement(dtypes))};
}

/// Ranks over which optimizer state of parameters other than experts is
/// sharded: cp times dp, or times those of HSDP, if zero >= 1, else 1.
int64_t zeroDegree(const Plan &plan);

/// A tensor that several kinds use (tied embedding), where it occurs first.
struct SharedParameter {
  std::string name;
  int kind, parameter;
};
/// In order of first use over the kinds; Bucket::parameters of a shared block
/// are indices in this list.
std::vector<SharedParameter> sharedParameters(const Program &program);
/// Pipeline ranks that run a kind with the shared parameter `name`, ascending.
std::vector<int64_t> ownerStages(const Program &program, const Plan &plan,
                                 std::string_view name);

/// Block of the unshared parameters of `kind`. Buckets are ordered by
/// (experts last, extraReduceAxes, decay first), parameters by index, one right
/// behind the other. Extra axes are those, but the data axes, over which the
/// planned gradient is partial.
ParameterBlock parameterBlock(const Plan &plan, const Kind &kind);
/// Block of the shared parameters that pipeline rank `stage` owns (tied
/// embedding).
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
/// (aligned 256; none if the kind takes none) and each saved value (aligned
/// 256).
Bytes savedBytesPerLayer(const Plan &plan, const Kind &kind,
                         const KindVariant &variant,
                         const PlannedVariant &planned);

/// A temporary of the functions of a variant.
struct Temporary {
  enum Where { Forward, DataGrad, WeightGrad } function; ///< that defines it
  ValueId value;
  /// Version of the value: 0 as produced, i + 1 after reshard step i. The first
  /// one, where an all-reduce works in place.
  int version;
  Interval interval;
};
/// Temporaries of the forward function, and those of data gradient and weight
/// gradient, whose ops form one line of time because kept values live from the
/// one into the other. Rules:
/// - time counts events: for every op the reshard steps that stand before it
///   (by value, then step), then the op; steps that stand behind the last op;
/// - a value or step result is alive from the event that makes it to the last
///   event that reads it, inclusive; a kept value at least to the end of the
///   data gradient, and to its last reader in the weight gradient;
/// - an all-reduce works in the buffer of what it reads, unless the same
///   version has a reader after it;
/// - arguments (but kept ones) and what is returned as stream, saved value,
///   parameter gradient or loss lie elsewhere, together with everything that is
///   all-reduced in place into them. Kernels bring no scratch.
struct Temporaries {
  std::vector<Temporary> forward, backward;
};
Temporaries temporariesOf(const Plan &plan, const KindVariant &variant,
                          const PlannedVariant &planned);
/// Gives those of one plan the sizes that they have under another for which the
/// variant is planned alike: where axes are, not how large they are.
void resize(Temporaries &temporaries, const Plan &plan,
            const KindVariant &variant, const PlannedVariant &planned);
/// The larger of the packed forward and the packed backward ones.
Bytes workspaceBytes(const Temporaries &temporaries);

/// Saved values of the op with this label.
struct SavedPart {
  std::string label;
  Bytes bytes;
  /// What they grow by if products keep their inputs in 8 bits: by half where
  /// another op reads them too, else by minus a half.
  Bytes narrow;
  bool routed; ///< rows of experts
};

/// What one layer of a kind holds on one rank for a microbatch.
struct LayerMemory {
  Bytes saved; ///< savedBytesPerLayer
  /// What a data gradient leaves until a weight gradient that runs apart: each
  /// kept value, and the gradient of the stream that leaves the layer if the
  /// weight gradient reads it (aligned 256 each).
  Bytes kept;
  Bytes workspace; ///< workspaceBytes
  Bytes staging;   ///< largest of the collectives in its three functions
  Bytes attention; ///< output of the attention core
  std::vector<SavedPart> parts; ///< of saved, without the stream
};
/// `temporaries` are the variant's under the plan.
LayerMemory layerMemory(const Plan &plan, const Kind &kind,
                        const KindVariant &variant,
                        const PlannedVariant &planned,
                        const Temporaries &temporaries);

/// Per parameter of `kind` the axes besides the data axes over which its
/// gradient is partial; of any variant, they are the same.
std::vector<Axes>
extraReduceAxesOf(const Plan &plan, const Kind &kind,
                  const KindVariant &variant, const PlannedVariant &planned);
/// parameterBlock, given those.
ParameterBlock blockOf(const Plan &plan, const Kind &kind,
                       const std::vector<Axes> &extraAxes);

/// What one layer of a kind holds and does per microbatch on one rank. Depends
/// on dp, tp, cp, cpKind, sp, ep, etp, zero, microBatch and dtypes of the plan only, so a caller may
/// remember it across plans that share them.
struct LayerFacts {
  /// Per parameter of the kind, shared ones too: the axes besides the data
  /// axes over which its gradient is partial.
  std::vector<Axes> extraReduceAxes;
  ParameterBlock block;
  /// Of one microbatch; phases Forward, DataGrad and WeightGrad only.
  std::map<LedgerKey, LedgerEntry> collectives;
  Flops forward, dataGrad, weightGrad;
  LayerMemory memory;
};
/// The plan is legal (Rules.h).
LayerFacts layerFacts(const Plan &plan, const Kind &kind,
                      const KindVariant &variant);

/// Bytes of one rank's part of the stream of one microbatch.
Bytes streamBytes(const Program &program, const Plan &plan);

/// Memory of one rank of `stage`, a rank of the pipeline with one or several
/// entries of plan.stages (its chunks). Parts:
/// - parameters: elements of all layer blocks and the shared block * param
///   width; gradients: the same * grad width; elements / shards of the
///   parameters under ZeRO 3, of the gradients under ZeRO 2 and 3;
/// - optimizer: 3 * elements / shards, bucket by bucket, * master width
///   (master, m, v); none if it lives on the host;
/// - saved: where backwards are joined, slots * bytes, a slot having the sum of
///   savedBytesPerLayer of its chunk. Chunks whose slots are of one size share
///   them: as many as they hold at any moment (inFlight in Schedule.h)
///   together; those of other sizes have their own, as a static arena cannot
///   pack unequal ones without gaps. Else (priced, not compiled) the most at
///   any moment of the saved bytes of all layers of a chunk for each microbatch
///   that it holds, and their kept bytes for each whose weight gradient is
///   left;
/// - p2p: one aligned stream for each of the schedule's border buffers: under
///   GPipe and 1F1B the stream that leaves and the gradient that arrives (unless
///   last stage) and the gradient that leaves (unless first);
/// - comm: the largest staging of any collective of the step, aligned, where
///   keys and values that go round stay as they arrive until a forward attention
///   ends (cp - 1 parts) and take turns in two buffers backward, with their
///   gradients (Transformer Engine d0067d0, context_parallel.py,
///   AttnFuncWithCPAndKVP2P); under ZeRO 2 and 3 the whole gradient of the
///   largest block, which is reduced as soon as it is made, under ZeRO 3 also
///   its gathered parameters, aligned;
/// - workspace: the largest workspaceBytes of the stage's kinds + two aligned
///   streams, between which the gradient passes from layer to layer. Under
///   schedules that split the backward it still has room for one layer's kept
///   values.
MemoryParts memoryOf(const Program &program, const Plan &plan, int64_t stage);
/// The same for every stage, planning every kind once.
std::vector<MemoryParts> memoryOfStages(const Program &program,
                                        const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_LAYOUT_H
