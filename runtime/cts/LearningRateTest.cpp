//===- LearningRateTest.cpp - Learning rates of steps, by hand ------------===//
#include "runtime/src/train/LearningRate.h"

#include <catch2/catch.hpp>

using namespace shardwright::runtime;

TEST_CASE("learning rates by hand") {
  Options options;
  options.learningRate = 8;
  options.steps = 12;
  for (int64_t step : {1, 7, 12})
    CHECK(learningRateAt(options, step) == 8);
  options.warmupSteps = 4;
  CHECK(learningRateAt(options, 1) == 2);
  CHECK(learningRateAt(options, 4) == 8);
  CHECK(learningRateAt(options, 12) == 8);
  options.decay = LrDecay::Linear;
  options.minLearningRate = 2;
  CHECK(learningRateAt(options, 3) == 6);
  CHECK(learningRateAt(options, 6) == Approx(6.5)); // 2 of 8 steps down 6
  CHECK(learningRateAt(options, 12) == 2);
  options.decay = LrDecay::Cosine;
  CHECK(learningRateAt(options, 4) == 8);
  CHECK(learningRateAt(options, 8) == Approx(5)); // half way
  CHECK(learningRateAt(options, 6) == Approx(2 + 6 * 0.8535533905932737));
  CHECK(learningRateAt(options, 12) == Approx(2));
  CHECK(learningRateAt(options, 99) == Approx(2));
  options.decaySteps = 8; // of more steps than the decay takes
  CHECK(learningRateAt(options, 6) == Approx(5));
  CHECK(learningRateAt(options, 9) == Approx(2));
  options.warmupSteps = 20; // longer than both
  CHECK(learningRateAt(options, 10) == 4);
  CHECK(learningRateAt(options, 21) == Approx(2));
}
