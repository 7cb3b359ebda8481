//===- Update.cpp - End of a step: reduce, norm, clip, update, gather -----===//
#include "runtime/src/train/LearningRate.h"
#include "runtime/src/train/Trainer.h"

#include <algorithm>
#include <cmath>

namespace shardwright::runtime {

bool Trainer::reducesEarly(const sw_rt_action &action) const {
  return context.device->overlaps() &&
         &action == lastBackwards[static_cast<size_t>(action.chunk)];
}

// Shared parameters get gradients from several layers, so they come last.
sw_rt_status Trainer::reduceGradients() {
  context.phase = SW_RT_REDUCE;
  const sw_rt_status status = forEachBlock(
      [&](const sw_rt_block &block, int64_t elements, uint32_t owners) {
        const bool isDone =
            context.device->overlaps() && &block != &stage.tables.shared;
        return isDone ? SW_RT_OK : reduceBlock(block, elements, owners);
      });
  return status == SW_RT_OK ? context.device->await(Lane::Gradients) : status;
}

sw_rt_status Trainer::reduceBlock(const sw_rt_block &block, int64_t elements,
                                  uint32_t owners) {
  const sw_rt_dtype dtype = static_cast<sw_rt_dtype>(program.grad_dtype);
  for (int32_t b = 0; b < block.num_buckets; ++b) {
    const sw_rt_bucket &bucket = block.buckets[b];
    char *gradient =
        arena.at(Arena::Gradients) + (elements + bucket.offset) * gradWidth;
    auto reduceOver = [&](Group &group) {
      return group.members.size() < 2
                 ? SW_RT_OK
                 : context.device->collective({Call::AllReduce, &group, -1,
                                               dtype, SW_RT_SUM, gradient,
                                               gradient, bucket.elements,
                                               Lane::Gradients});
    };
    if (bucket.extra_reduce_axes)
      if (sw_rt_status status =
              reduceOver(context.group(bucket.extra_reduce_axes)))
        return status;
    if (owners & (owners - 1)) // more than one stage
      if (sw_rt_status status =
              reduceOver(context.group(stage.axis(program.pp_axis), owners)))
        return status;
    if (stage.dpRanks() == 1)
      continue;
    if (!program.zero) {
      if (sw_rt_status status = reduceOver(context.group(stage.dpAxis())))
        return status;
      continue;
    }
    const int64_t shard = bucket.elements / stage.dpRanks();
    const int64_t me = context.mesh.coordinate(context.rank(), stage.dpAxis());
    if (sw_rt_status status = context.device->collective(
            {Call::ReduceScatter, &context.group(stage.dpAxis()), -1, dtype,
             SW_RT_SUM, gradient, gradient + me * shard * gradWidth,
             bucket.elements, Lane::Gradients}))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status Trainer::squaredNorm(double &sum) {
  std::vector<DeviceRange> ranges;
  stage.forEachParameter([&](const ParameterView &view) {
    const ElementRange range = stage.ownedRange(view);
    // Gradients of padding are 0: they may be added.
    ranges.push_back(
        {arena.at(Arena::Gradients) +
             (view.blockElements + view.parameter->offset + range.first) *
                 gradWidth,
         range.last - range.first});
  });
  return context.device->sumOfSquares(
      static_cast<sw_rt_dtype>(program.grad_dtype), ranges, sum);
}

sw_rt_status Trainer::updateBlock(const sw_rt_block &block, int64_t elements,
                                  double scale) {
  const int64_t zero = stage.zeroDegree();
  const int64_t me =
      zero > 1 ? context.mesh.coordinate(context.rank(), stage.dpAxis()) : 0;
  const int64_t stateBytes =
      stage.tables.arena.optimizer_elements * masterWidth;
  const double t = static_cast<double>(number + 1);
  for (int32_t b = 0; b < block.num_buckets; ++b) {
    const sw_rt_bucket &bucket = block.buckets[b];
    const int64_t shard = bucket.elements / zero;
    const int64_t first = elements + bucket.offset;
    const int64_t own = first + me * shard;
    char *master = arena.at(Arena::Optimizer) + first / zero * masterWidth;
    const double scalars[8] = {learningRateAt(options, number + 1),
                               options.beta1,
                               options.beta2,
                               options.eps,
                               bucket.decay ? options.weightDecay : 0.0,
                               scale,
                               1 - std::pow(options.beta1, t),
                               1 - std::pow(options.beta2, t)};
    if (sw_rt_status status = context.device->update(
            {master, master + stateBytes, master + 2 * stateBytes,
             arena.at(Arena::Gradients) + own * gradWidth,
             arena.at(Arena::Parameters) + own * paramWidth, shard, scalars}))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status Trainer::gatherBlock(const sw_rt_block &block, int64_t elements) {
  const int64_t ranks = stage.dpRanks();
  const int64_t me = context.mesh.coordinate(context.rank(), stage.dpAxis());
  for (int32_t b = 0; b < block.num_buckets; ++b) {
    const sw_rt_bucket &bucket = block.buckets[b];
    const int64_t shard = bucket.elements / ranks;
    char *parameters =
        arena.at(Arena::Parameters) + (elements + bucket.offset) * paramWidth;
    if (sw_rt_status status = sw_rt_all_gather(
            &context, stage.dpAxis(),
            static_cast<sw_rt_dtype>(program.param_dtype),
            parameters + me * shard * paramWidth, parameters, shard))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status Trainer::finishStep() {
  context.phase = SW_RT_UPDATE;
  double sums[2] = {0, 0};
  if (sw_rt_status status = squaredNorm(sums[0]))
    return status;
  // The loss of a data rank is whole on each of its other ranks: one counts.
  const uint32_t others =
      context.mesh.all() & ~stage.dpAxis() & ~stage.axis(program.pp_axis);
  if (stage.isLast() && context.mesh.coordinate(context.rank(), others) == 0) {
    alignas(8) char value[8];
    if (sw_rt_status status = context.device->toHost(value, loss(), 8))
      return status;
    sums[1] = program.stat_dtype == SW_RT_F64
                  ? *reinterpret_cast<const double *>(value)
                  : *reinterpret_cast<const float *>(value);
  }
  if (context.mesh.ranks() > 1)
    if (sw_rt_status status =
            allReduce(context, context.group(context.mesh.all()), SW_RT_F64,
                      SW_RT_SUM, sums, sums, 2))
      return status;
  result.gradientNorm = std::sqrt(sums[0]);
  result.loss = sums[1];
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1]))
    return context.fail(SW_RT_NOT_FINITE,
                        "expected loss and gradient norm of step " +
                            std::to_string(number + 1) +
                            " to be finite, but got loss " +
                            std::to_string(result.loss) + " and norm " +
                            std::to_string(result.gradientNorm));
  const double scale =
      options.clip > 0
          ? std::min(1.0, options.clip / (result.gradientNorm + 1e-6))
          : 1.0;
  sw_rt_status status =
      forEachBlock([&](const sw_rt_block &block, int64_t elements, uint32_t) {
        return updateBlock(block, elements, scale);
      });
  if (status == SW_RT_OK && stage.zeroDegree() > 1)
    status =
        forEachBlock([&](const sw_rt_block &block, int64_t elements, uint32_t) {
          return gatherBlock(block, elements);
        });
  return status;
}

} // namespace shardwright::runtime
