#include "cost_model/hardware/Imbalance.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

TEST_CASE("one expert rank has the mean load") {
  CHECK(busiestOverMean(1, 1000, 0.99) == 1);
}

TEST_CASE("the busiest of eight ranks, by hand") {
  // Relative variance 7 / 151 = 0.0464; all eight below with probability 1/2
  // means each below with 0.917, z = 1.385. Wilson and Hilferty:
  // (1 - 0.00515 + 1.385 * 0.0718)^3 = 1.312.
  CHECK(busiestOverMean(8, 1e12, 0.5) == Approx(1.312).epsilon(0.003));
}

TEST_CASE("a part of a sequence has its share of the rows") {
  Plan plan;
  plan.ep = 8;
  plan.microBatch = 2;
  CHECK(rowsTogether(plan, 4096, 6) == 4096 * 2 * 6 * 8);
  plan.cp = 4;
  CHECK(rowsTogether(plan, 4096, 6) == 1024 * 2 * 6 * 8);
}

TEST_CASE("rarer layers, more ranks and fewer rows are less even") {
  CHECK(busiestOverMean(8, 1e6, 0.99) > busiestOverMean(8, 1e6, 0.5));
  CHECK(busiestOverMean(64, 1e6, 0.5) > busiestOverMean(8, 1e6, 0.5));
  CHECK(busiestOverMean(8, 20, 0.5) > busiestOverMean(8, 1e6, 0.5));
  CHECK(busiestOverMean(2, 1, 0.999999) <= 2);
}
