//===- LearningRate.h - Learning rate of a step -----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_LEARNINGRATE_H
#define SHARDWRIGHT_RUNTIME_TRAIN_LEARNINGRATE_H

#include "runtime/src/train/Options.h"

#include <algorithm>
#include <cmath>

namespace shardwright::runtime {

/// Of step `number`, from 1, as Megatron names its parts: a warm-up from lr /
/// warmup to lr, then by style, over the steps to `decaySteps`, to minLr, where
/// it stays.
///   linear: minLr + (lr - minLr) (1 - r),  cosine: ... (1 + cos(pi r)) / 2,
///   r = (number - warmup) / (decaySteps - warmup)
inline double learningRateAt(const Options &options, int64_t number) {
  const int64_t warmup = options.warmupSteps;
  if (number <= warmup)
    return options.learningRate * static_cast<double>(number) /
           static_cast<double>(warmup);
  if (options.decay == LrDecay::Constant)
    return options.learningRate;
  const int64_t last = options.decaySteps ? options.decaySteps : options.steps;
  const double r =
      last <= warmup ? 1
                     : std::min(1.0, static_cast<double>(number - warmup) /
                                         static_cast<double>(last - warmup));
  const double left = options.decay == LrDecay::Linear
                          ? 1 - r
                          : 0.5 * (1 + std::cos(3.14159265358979323846 * r));
  return options.minLearningRate +
         (options.learningRate - options.minLearningRate) * left;
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_LEARNINGRATE_H
