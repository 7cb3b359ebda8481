//===- StageWork.h - What a stage does in a step ----------------*- C++ -*-===//
//
// Sums over the layers of a stage, and what of its transfers hides behind its
// compute. The estimate composes these; the bounds of the search are made of
// the same functions, so that a bound and a price cannot drift apart.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_STAGEWORK_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_STAGEWORK_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/hardware/Collective.h"

namespace shardwright::cost {

/// How the groups over `axes` (outer to inner) of a plan's mesh lie on nodes.
Placement placementOf(const Plan &plan, const Hardware &hardware,
                      const Axes &axes);

/// Reduction and gathering of one block, bucket by bucket (D8).
/// Under ZeRO 2 and 3 `reduce` is of every microbatch and `reduceShards`, of what
/// it leaves, once; below, all is in `reduce`.
struct BlockTimes {
  Seconds reduce, gather, reduceShards;
};
BlockTimes blockTimes(const Plan &plan, const Hardware &hardware,
                      const Profile &profile, const ParameterBlock &block);

/// Sums over the layers of a stage, of one microbatch.
struct StageWork {
  LayerProfile layers;           ///< of kinds that take and give a stream
  LayerProfile entrance;         ///< of kinds that only give one (embedding)
  LayerProfile exit;             ///< of kinds that only take one (head)
  Seconds reduce, largestReduce; ///< gradient reduction; of one layer
  Seconds gather;                ///< of parameters
  Seconds reduceShards; ///< sums of sharded gradients that are left for the end
  /// Of what its layers save to the host's memory, one way, if it goes there.
  Seconds toHost;
  int64_t elements = 0;          ///< parameters of a rank
  int64_t stateElements = 0;     ///< of its optimizer state
};

/// Adds `count` times `layer` to `sum`.
void accumulate(LayerProfile &sum, const LayerProfile &layer, int64_t count);
/// Makes compute take 1 / speed.
void slowDown(StageWork &own, double speed);
/// Leaves of the exchanges of a chunk's layers what shows, if they run beside the
/// other pass of another microbatch (Profile::exchangeBesideOther): all in the
/// first forward and the last backward pass of a pipeline of `stages` ranks, which
/// have no other beside them.
void exchangeBesideOther(StageWork &own, const Hardware &hardware,
                         int64_t microbatches, int64_t stages);
/// Adds what another chunk of the same rank does.
void accumulate(StageWork &sum, const StageWork &chunk);
/// Adds `count` layers whose parameters are `block`, timed `times`; `part` is
/// one of the three LayerProfiles of `sum`.
void addLayers(StageWork &sum, LayerProfile &part, const LayerProfile &layer,
               const ParameterBlock &block, const BlockTimes &times,
               int64_t count);

/// What shows of the transfers of a stage under a plan (zero, schedule, chunks
/// and the groups of microbatches that these run in a row).
class StageClock {
public:
  StageClock(const Hardware &hardware, const Profile &profile,
             const Plan &plan)
      : hardware(hardware), profile(profile), zero(plan.zero),
        chunks(plan.chunks), firstGroup(groupOf(plan)),
        lastGroup(lastGroupOf(plan)), schedule(plan.schedule),
        offload(plan.offloadOptimizer), dtypes(plan.dtypes) {}

  /// ZeRO 3 gathers the parameters of a layer before it runs, forward and again
  /// backward; it and ZeRO 2 reduce the gradients of every microbatch. The next
  /// layer's transfers run beside a layer if the profile overlaps, so only what
  /// is longer than the layers shows.
  Seconds shardedForward(const StageWork &own) const;
  Seconds shardedBackward(const StageWork &own) const;
  /// Of the copies of saved values to the host beside a forward pass, and back
  /// beside a backward pass.
  Seconds savedForward(const StageWork &own) const {
    return maximum(Seconds(0), own.toHost - own.layers.forward);
  }
  Seconds savedBackward(const StageWork &own) const {
    return maximum(Seconds(0), own.toHost - own.layers.dataGrad -
                                   own.layers.weightGrad);
  }
  /// Of the gradient reduction that ends a step.
  Seconds exposedReduce(const StageWork &own) const;
  /// Of the gather of updated parameters.
  Seconds exposedGather(const StageWork &own) const;
  double optimizerBytes(const StageWork &own) const;
  Seconds optimizerTime(const StageWork &own) const;
  /// Of it, with an optimizer on the host: gradients go there, the host updates
  /// its state, parameters come back, one after the other.
  Seconds hostTime(const StageWork &own) const;

private:
  /// exposedTime of a transfer whose parts belong to the chunks of a stage. Of
  /// interleaved chunks each runs `group` microbatches in a row, and only the
  /// part of the last (first) one has no more than its own microbatch to hide
  /// behind.
  Seconds exposedInChunks(Seconds transfer, Seconds cover,
                          int64_t group) const;
  static int64_t lastGroupOf(const Plan &plan);

  const Hardware &hardware;
  const Profile &profile;
  int zero;
  int64_t chunks, firstGroup, lastGroup;
  ScheduleKind schedule;
  bool offload;
  DTypes dtypes;
};

/// How much slower than the mean the slowest of `ranks` devices is, if speeds
/// are normal (expectedLargestNormal in Goodput.h).
double slowestExcess(const Device &device, int64_t ranks);

/// The reduction of gradient norm and loss over all ranks.
Seconds synchronizationTime(const Hardware &hardware, const Plan &plan);

/// One border of the pipeline, one microbatch, and what the receiver gathers.
Seconds borderTime(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_STAGEWORK_H
