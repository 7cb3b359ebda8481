//===- Update.cpp - End of a step: reduce, norm, clip, update, gather -----===//
#include "runtime/src/compute/SumOfSquares.h"
#include "runtime/src/train/Trainer.h"

#include <cmath>

namespace shardwright::runtime {

sw_rt_status Trainer::reduceGradients() {
  context.phase = SW_RT_REDUCE;
  return forEachBlock(
      [&](const sw_rt_block &block, int64_t elements, uint32_t owners) {
        return reduceBlock(block, elements, owners);
      });
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
                 : allReduce(context, group, dtype, SW_RT_SUM, gradient,
                             gradient, bucket.elements);
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
    if (sw_rt_status status = sw_rt_reduce_scatter(
            &context, stage.dpAxis(), dtype, SW_RT_SUM, gradient,
            gradient + me * shard * gradWidth, bucket.elements))
      return status;
  }
  return SW_RT_OK;
}

double Trainer::squaredNorm() {
  double sum = 0;
  stage.forEachParameter([&](const ParameterView &view) {
    const ElementRange range = stage.ownedRange(view);
    const char *gradient =
        arena.at(Arena::Gradients) +
        (view.blockElements + view.parameter->offset) * gradWidth;
    // Gradients of padding are 0: they may be added.
    const int64_t count = range.last - range.first;
    if (program.grad_dtype == SW_RT_F64)
      sum += sumOfSquares(
          context.pool,
          reinterpret_cast<const double *>(gradient) + range.first, count);
    else
      sum += sumOfSquares(
          context.pool,
          reinterpret_cast<const float *>(gradient) + range.first, count);
  });
  return sum;
}

void Trainer::updateBlock(const sw_rt_block &block, int64_t elements,
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
    const double scalars[8] = {options.learningRate,
                               options.beta1,
                               options.beta2,
                               options.eps,
                               bucket.decay ? options.weightDecay : 0.0,
                               scale,
                               1 - std::pow(options.beta1, t),
                               1 - std::pow(options.beta2, t)};
    const char *gradients = arena.at(Arena::Gradients) + own * gradWidth;
    char *parameters = arena.at(Arena::Parameters) + own * paramWidth;
    forEachRange(context.pool, shard, [&](int64_t begin, int64_t end) {
      char *state = master + begin * masterWidth;
      program.update(state, state + stateBytes, state + 2 * stateBytes,
                     gradients + begin * gradWidth,
                     parameters + begin * paramWidth, end - begin, scalars);
    });
  }
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
  double sums[2] = {squaredNorm(), 0};
  // The loss of a data rank is whole on each of its other ranks: one counts.
  const uint32_t others =
      context.mesh.all() & ~stage.dpAxis() & ~stage.axis(program.pp_axis);
  if (stage.isLast() && context.mesh.coordinate(context.rank(), others) == 0)
    sums[1] = program.stat_dtype == SW_RT_F64
                  ? *reinterpret_cast<const double *>(loss)
                  : *reinterpret_cast<const float *>(loss);
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
        updateBlock(block, elements, scale);
        return SW_RT_OK;
      });
  if (status == SW_RT_OK && stage.zeroDegree() > 1)
    status =
        forEachBlock([&](const sw_rt_block &block, int64_t elements, uint32_t) {
          return gatherBlock(block, elements);
        });
  return status;
}

} // namespace shardwright::runtime
