#include "cost_model/estimate/StageWork.h"

#include "cost_model/estimate/Goodput.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/partition/BucketTransfers.h"
#include "cost_model/rules/Framework.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
Placement placementOf(const Plan &plan, const Hardware &hardware,
                      const Axes &axes) {
  if (axes.empty())
    return {};
  const int64_t perNode = hardware.ranksPerNode();
  Placement at;
  at.ranks = degree(plan, axes);
  int64_t stride = 1;
  size_t axis = plan.mesh.size();
  for (size_t i = axes.size(); i-- > 0;) {
    for (; axis-- > size_t(axes[i]) + 1;)
      stride *= plan.mesh[axis].size;
    // Neighbouring axes are one, however a node cuts them.
    int64_t size = plan.mesh[axis].size;
    for (; i > 0 && size_t(axes[i - 1]) + 1 == axis; --i)
      size *= plan.mesh[--axis].size;
    const int64_t reach = std::min(checkedMul(size, stride), perNode);
    at.perNode *= std::min(size, ceilDiv(reach, stride));
    at.reach = std::max(at.reach, size > 1 ? reach : 1);
    stride *= size;
  }
  at.nodes = ceilDiv(at.ranks, at.perNode);
  at.sharing =
      at.nodes == 1 ? 1 : std::max<int64_t>(1, perNode / at.perNode);
  return at;
}

BlockTimes blockTimes(const Plan &plan, const Hardware &hardware,
                      const Profile &profile, const ParameterBlock &block) {
  BlockTimes times;
  const int64_t gradWidth =
      profile.reducedGradientBytes > 0
          ? static_cast<int64_t>(profile.reducedGradientBytes)
          : byteWidth(plan.dtypes.grad);
  const int64_t paramWidth = byteWidth(plan.dtypes.param);
  for (const Bucket &bucket : block.buckets) {
    const Placement data = placementOf(plan, hardware, bucket.dataAxes);
    if (data.ranks > 1)
      times.reduce += memoryTime(
          hardware.device, KernelClass::Elementwise,
          Bytes(static_cast<int64_t>(static_cast<double>(bucket.elements) *
                                     profile.reductionTraffic)));
    const auto timeOf = [&](Collective collective, int64_t elements,
                            int64_t width, const Placement &at) {
      return collectiveTime(hardware, collective,
                            Bytes(checkedMul(elements, width)), at);
    };
    const bool whole =
        bucket.shards > 1 && plan.zero < 3 && profile.allReduceUnderZero;
    if (whole)
      times.reduce += timeOf(Collective::AllReduce, bucket.elements, gradWidth,
                             data);
    forEachBucketTransfer(
        plan, bucket, stageOwners(plan.schedule),
        [&](const BucketTransfer &t) {
          if (t.phase == Phase::DataGrad) // as forward
            return;
          const bool gathers = t.collective == Collective::AllGather;
          if (whole && !gathers &&
              (t.group == BucketTransfer::Shards ||
               t.group == BucketTransfer::Copies))
            return;
          // Owners are half a pipeline apart, on average.
          const Placement at =
              t.group == BucketTransfer::Owners
                  ? placeGroup(2,
                               pipelineStride(plan) *
                                   std::max<int64_t>(1, plan.pp / 2),
                               hardware.ranksPerNode())
                  : placementOf(plan, hardware, t.axes);
          const bool rest = plan.zero >= 2 && !gathers && !t.everyMicrobatch;
          (gathers ? times.gather
           : rest  ? times.reduceShards
                   : times.reduce) +=
              timeOf(t.collective, t.elements, gathers ? paramWidth : gradWidth,
                     at);
        });
  }
  return times;
}

void accumulate(LayerProfile &sum, const LayerProfile &layer, int64_t count) {
  const double times = static_cast<double>(count);
  sum.forward += times * layer.forward;
  sum.dataGrad += times * layer.dataGrad;
  sum.weightGrad += times * layer.weightGrad;
  sum.recompute += times * layer.recompute;
  sum.forwardCommunication += times * layer.forwardCommunication;
  sum.backwardCommunication += times * layer.backwardCommunication;
  sum.forwardExchange += times * layer.forwardExchange;
  sum.backwardExchange += times * layer.backwardExchange;
  sum.forwardContext += times * layer.forwardContext;
  sum.backwardContext += times * layer.backwardContext;
  sum.forwardHost += times * layer.forwardHost;
  sum.backwardHost += times * layer.backwardHost;
}

void accumulate(StageWork &sum, const StageWork &chunk) {
  accumulate(sum.layers, chunk.layers, 1);
  accumulate(sum.entrance, chunk.entrance, 1);
  accumulate(sum.exit, chunk.exit, 1);
  sum.reduce += chunk.reduce;
  sum.largestReduce = maximum(sum.largestReduce, chunk.largestReduce);
  sum.gather += chunk.gather;
  sum.reduceShards += chunk.reduceShards;
  sum.toHost += chunk.toHost;
  sum.elements = checkedAdd(sum.elements, chunk.elements);
  sum.stateElements = checkedAdd(sum.stateElements, chunk.stateElements);
}

void slowDown(StageWork &own, double speed) {
  for (LayerProfile *part : {&own.layers, &own.entrance, &own.exit})
    for (Seconds *time : {&part->forward, &part->dataGrad, &part->weightGrad,
                          &part->recompute})
      *time = (1 / speed) * *time;
}

void exchangeBesideOther(StageWork &own, const Hardware &hardware,
                         int64_t microbatches, int64_t stages) {
  LayerProfile &layers = own.layers;
  const double alone = std::min(1.0, static_cast<double>(stages) /
                                         static_cast<double>(microbatches));
  const auto shown = [&](Seconds exchange, Seconds cover) {
    return alone * exchange +
           (1 - alone) * exposedTime(hardware, exchange, cover);
  };
  layers.forwardExchange =
      shown(layers.forwardExchange, layers.dataGrad + layers.weightGrad);
  layers.backwardExchange = shown(layers.backwardExchange, layers.forward);
}

void addLayers(StageWork &sum, LayerProfile &part, const LayerProfile &layer,
               const ParameterBlock &block, const BlockTimes &times,
               int64_t count) {
  const double layers = static_cast<double>(count);
  accumulate(part, layer, count);
  sum.reduce += layers * times.reduce;
  sum.largestReduce = maximum(sum.largestReduce, times.reduce);
  sum.gather += layers * times.gather;
  sum.reduceShards += layers * times.reduceShards;
  sum.elements = checkedAdd(sum.elements, checkedMul(count, block.elements));
  sum.stateElements =
      checkedAdd(sum.stateElements, checkedMul(count, block.stateElements));
}

Seconds StageClock::shardedForward(const StageWork &own) const {
  if (zero < 3)
    return Seconds(0);
  return profile.overlapParameterGather
             ? exposedTime(hardware, own.gather, own.layers.forward)
             : own.gather;
}
Seconds StageClock::shardedBackward(const StageWork &own) const {
  if (zero < 2)
    return Seconds(0);
  const Seconds transfers =
      zero == 3 ? own.gather + own.reduce : own.reduce;
  return profile.overlapGradientReduce
             ? exposedTime(hardware, transfers,
                           own.layers.dataGrad + own.layers.weightGrad)
             : transfers;
}
Seconds StageClock::exposedReduce(const StageWork &own) const {
  if (zero >= 2) {
    // Nothing is left to hide the last layer's behind, of the last microbatch;
    // what shows of every microbatch is counted with its backward pass.
    const Seconds last = profile.overlapGradientReduce
                             ? own.largestReduce - shardedBackward(own)
                             : Seconds(0);
    return own.reduceShards + maximum(Seconds(0), last);
  }
  if (!profile.overlapGradientReduce)
    return own.reduce;
  // All but the last bucket may hide behind the last microbatch's backward.
  const Seconds cover = own.layers.dataGrad + own.layers.weightGrad;
  return maximum(own.largestReduce,
                 exposedInChunks(own.reduce, cover, lastGroup));
}

int64_t StageClock::lastGroupOf(const Plan &plan) {
  const int64_t group = groupOf(plan);
  const int64_t left = group > 0 ? plan.microbatches() % group : 0;
  return left > 0 ? left : group;
}

Seconds StageClock::exposedInChunks(Seconds transfer, Seconds cover,
                                    int64_t group) const {
  const double part = schedule == ScheduleKind::Interleaved
                          ? 1.0 / static_cast<double>(chunks)
                          : 1.0;
  const Seconds early = (1 - part) * transfer;
  const Seconds room = (1 - part) * static_cast<double>(group) * cover;
  return exposedTime(hardware,
                     part * transfer + maximum(Seconds(0), early - room),
                     part * cover);
}
Seconds StageClock::exposedGather(const StageWork &own) const {
  if (zero >= 3)
    return Seconds(0);
  return profile.overlapParameterGather
             ? exposedInChunks(own.gather, own.layers.forward, firstGroup)
             : own.gather;
}
double StageClock::optimizerBytes(const StageWork &own) const {
  return (offload ? 0
                  : static_cast<double>(own.stateElements) *
                        profile.stateBytesPerParameter) +
         static_cast<double>(own.elements) * profile.gradientBytesPerParameter;
}
Seconds StageClock::optimizerTime(const StageWork &own) const {
  return memoryTime(hardware.device, KernelClass::Optimizer,
                    Bytes(static_cast<int64_t>(optimizerBytes(own)))) +
         hostTime(own);
}
Seconds StageClock::hostTime(const StageWork &own) const {
  if (!offload || !hardware.host.known())
    return Seconds(0);
  const double elements = static_cast<double>(own.stateElements);
  const double grad = static_cast<double>(byteWidth(dtypes.grad)),
               param = static_cast<double>(byteWidth(dtypes.param)),
               master = static_cast<double>(byteWidth(dtypes.master));
  // Where the master stays on the device it comes back instead.
  const double back =
      factsOf(profile.framework).offloadsMaster ? param : master;
  const double moved = elements * (grad + back);
  // Master and two moments are read and written, the gradient and the parameter
  // written by one and read by the other.
  const double traffic = elements * (6 * master + 2 * grad + 2 * back);
  return Seconds(moved / (hardware.host.link.count() * kHostLinkFraction) +
                 traffic /
                     (hardware.host.memory.count() * kHostUpdateFraction));
}

double slowestExcess(const Device &device, int64_t ranks) {
  return device.speedDeviation * expectedLargestNormal(ranks);
}

Seconds synchronizationTime(const Hardware &hardware, const Plan &plan) {
  return collectiveTime(hardware, Collective::AllReduce, Bytes(16),
                        placeGroup(plan.ranks(), 1, hardware.ranksPerNode()));
}

Seconds borderTime(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan) {
  if (plan.pp == 1)
    return Seconds(0);
  const Bytes stream = streamBytes(program, plan);
  Bytes sent = stream;
  Seconds gather(0);
  if (profile.scatterTransfers && !plan.sp && plan.tp > 1) {
    sent = Bytes(ceilDiv(stream.count(), plan.tp));
    gather = collectiveTime(hardware, Collective::AllGather, sent,
                            placeGroup(plan.tp, 1, hardware.ranksPerNode()));
  }
  return transferTime(hardware, sent, pipelineStride(plan), plan.pp) + gather;
}

} // namespace shardwright::cost
