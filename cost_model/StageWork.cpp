#include "cost_model/StageWork.h"

#include "cost_model/Collective.h"
#include "cost_model/Kernel.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
namespace {

/// Placement of a group over neighbouring mesh axes.
Placement placementOf(const Plan &plan, const Hardware &hardware,
                      const std::vector<Axis> &axes) {
  if (axes.empty())
    return {};
  int64_t stride = 1;
  for (size_t axis = axes.back() + size_t(1); axis < plan.mesh.size(); ++axis)
    stride *= plan.mesh[axis].size;
  return placeGroup(degree(plan, axes), stride, hardware.ranksPerNode());
}

} // namespace

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
    const Bytes gradient(checkedMul(bucket.elements, gradWidth));
    if (!bucket.extraReduceAxes.empty())
      times.reduce +=
          collectiveTime(hardware, Collective::AllReduce, gradient,
                         placeGroup(degree(plan, bucket.extraReduceAxes), 1,
                                    hardware.ranksPerNode()));
    if (stageOwners(plan.schedule) > 1) // half a pipeline apart, on average
      times.reduce += collectiveTime(
          hardware, Collective::AllReduce, gradient,
          placeGroup(2, plan.dp * plan.tp * std::max<int64_t>(1, plan.pp / 2),
                     hardware.ranksPerNode()));
    if (data.ranks > 1)
      times.reduce += memoryTime(
          hardware.device, KernelClass::Elementwise,
          Bytes(static_cast<int64_t>(static_cast<double>(bucket.elements) *
                                     profile.reductionTraffic)));
    times.reduce += collectiveTime(hardware,
                                   plan.zero == 0 || profile.allReduceUnderZero
                                       ? Collective::AllReduce
                                       : Collective::ReduceScatter,
                                   gradient, data);
    if (plan.zero == 0)
      continue;
    times.gather += collectiveTime(
        hardware, Collective::AllGather,
        Bytes(checkedMul(bucket.elements / bucket.shards, paramWidth)), data);
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
  sum.elements = checkedAdd(sum.elements, chunk.elements);
  sum.stateElements = checkedAdd(sum.stateElements, chunk.stateElements);
}

void addLayers(StageWork &sum, LayerProfile &part, const LayerProfile &layer,
               const ParameterBlock &block, const BlockTimes &times,
               int64_t count) {
  const double layers = static_cast<double>(count);
  accumulate(part, layer, count);
  sum.reduce += layers * times.reduce;
  sum.largestReduce = maximum(sum.largestReduce, times.reduce);
  sum.gather += layers * times.gather;
  sum.elements = checkedAdd(sum.elements, checkedMul(count, block.elements));
  sum.stateElements =
      checkedAdd(sum.stateElements, checkedMul(count, block.stateElements));
}

Seconds StageClock::shardedForward(const StageWork &own) const {
  if (zero < 2)
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
  if (zero >= 2) // the last one of a step
    return profile.overlapGradientReduce ? own.largestReduce : Seconds(0);
  if (!profile.overlapGradientReduce)
    return own.reduce;
  // All but the last bucket may hide behind the last microbatch's backward.
  const Seconds cover = own.layers.dataGrad + own.layers.weightGrad;
  return maximum(own.largestReduce, exposedInChunks(own.reduce, cover));
}
/// exposedTime of a transfer whose parts belong to the chunks of a stage. Of
/// interleaved chunks each runs pp microbatches in a row, and only the part
/// of the last (first) one has no more than its own microbatch to hide
/// behind.
Seconds StageClock::exposedInChunks(Seconds transfer, Seconds cover) const {
  const double part = schedule == ScheduleKind::Interleaved
                          ? 1.0 / static_cast<double>(chunks)
                          : 1.0;
  const Seconds early = (1 - part) * transfer;
  const Seconds room = (1 - part) * static_cast<double>(pp) * cover;
  return exposedTime(hardware,
                     part * transfer + maximum(Seconds(0), early - room),
                     part * cover);
}
Seconds StageClock::exposedGather(const StageWork &own) const {
  if (zero >= 2)
    return Seconds(0);
  return profile.overlapParameterGather
             ? exposedInChunks(own.gather, own.layers.forward)
             : own.gather;
}
Seconds StageClock::optimizerTime(const StageWork &own) const {
  const double bytes =
      static_cast<double>(own.stateElements) *
          profile.stateBytesPerParameter +
      static_cast<double>(own.elements) * profile.gradientBytesPerParameter;
  return memoryTime(hardware.device, KernelClass::Optimizer,
                    Bytes(static_cast<int64_t>(bytes)));
}


/// How much slower than the mean the slowest of `ranks` devices is, if speeds
/// are normal: the expected largest of n standard normals, by Blom's
/// quantile (n - 0.375) / (n + 0.25), times the deviation. For large n the
/// quantile is sqrt(2 ln n) to first order; 3.2 at n = 1024.
double slowestExcess(const Device &device, int64_t ranks) {
  if (ranks <= 1)
    return 0;
  const double n = static_cast<double>(ranks);
  const double tail = 1 - (n - 0.375) / (n + 0.25);
  // Abramowitz and Stegun 26.2.23, |error| < 4.5e-4.
  const double t = std::sqrt(-2 * std::log(tail));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                           (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return device.speedDeviation * z;
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
  return transferTime(hardware, sent, plan.dp * plan.tp, plan.pp) + gather;
}

} // namespace shardwright::cost
