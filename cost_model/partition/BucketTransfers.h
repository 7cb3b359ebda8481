//===- BucketTransfers.h - What ZeRO moves of a bucket ----------*- C++ -*-===//
//
// Which collectives sum the gradients of a bucket and gather its parameters is
// said here alone; the ledger counts them, the estimate times them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_BUCKETTRANSFERS_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_BUCKETTRANSFERS_H

#include "cost_model/partition/Layout.h"

#include <algorithm>

namespace shardwright::cost {

struct BucketTransfer {
  enum Group { Partial, Owners, Copies, Shards };
  /// Over whom: axes that gradients are partial over besides the data axes,
  /// pipeline ranks that hold the same layers, data ranks that hold the same
  /// shard (all of them without ZeRO), ranks that share it out.
  Group group;
  Collective collective;
  Phase phase; ///< Reduce; gathers in Update, or where ZeRO 3 uses parameters
  Axes axes; ///< of the group; none of owners
  int64_t elements;       ///< that a rank puts in
  bool everyMicrobatch;   ///< else once a step
};

/// Calls `visit` with every transfer of `bucket`, whose layer `owners` pipeline
/// ranks hold, in the order in which they depend on one another. Under ZeRO 2
/// and 3 gradients are shared out in every microbatch, and the other sums are of
/// shards, once.
template <typename Visit>
void forEachBucketTransfer(const Plan &plan, const Bucket &bucket,
                           int64_t owners, Visit visit) {
  const int64_t shard = bucket.elements / bucket.shards;
  const int64_t rest = plan.zero >= 2 ? shard : bucket.elements;
  using Transfer = BucketTransfer;
  if (!bucket.extraReduceAxes.empty())
    visit(Transfer{Transfer::Partial, Collective::AllReduce, Phase::Reduce,
                   bucket.extraReduceAxes, rest, false});
  if (owners > 1)
    visit(Transfer{Transfer::Owners, Collective::AllReduce, Phase::Reduce, {},
                   rest, false});
  if (bucket.shards > 1)
    visit(Transfer{Transfer::Shards, Collective::ReduceScatter, Phase::Reduce,
                   bucket.shardAxes, bucket.elements, plan.zero >= 2});
  Axes copies = bucket.dataAxes;
  for (Axis axis : bucket.shardAxes)
    copies.erase(axis);
  if (degree(plan, copies) > 1)
    visit(Transfer{Transfer::Copies, Collective::AllReduce, Phase::Reduce,
                   copies, shard, false});
  if (bucket.shards == 1)
    return;
  const auto gather = [&](Phase phase, bool everyMicrobatch) {
    visit(Transfer{Transfer::Shards, Collective::AllGather, phase,
                   bucket.shardAxes, shard, everyMicrobatch});
  };
  if (plan.zero <= 2)
    return gather(Phase::Update, false);
  gather(Phase::Forward, true);
  gather(Phase::DataGrad, true);
}

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_BUCKETTRANSFERS_H
