#include "cost_model/validation/RunLayout.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// Layers of each stage, embedding and head among them.
std::vector<int64_t> counts(const std::vector<Stage> &stages) {
  std::vector<int64_t> result;
  for (const Stage &stage : stages) {
    result.push_back(0);
    for (const StageRun &run : stage.runs)
      result.back() += run.count;
  }
  return result;
}
Program layers(int64_t count, int64_t vocab) {
  return smallLlama({.sequence = 64,
                     .hidden = 256,
                     .kvHeads = 4,
                     .group = 1,
                     .headDim = 64,
                     .ffn = 512,
                     .vocab = vocab,
                     .layers = count});
}
using Counts = std::vector<int64_t>;

} // namespace

TEST_CASE("modules are dealt evenly, the earlier stages more") {
  // Embedding, 10 layers, norm and head are 13 modules on 4 stages: 4, 3, 3, 3;
  // the norm is part of the head's kind.
  CHECK(counts(stagesByModules(layers(10, 1024), 4, Recompute::None)) ==
        Counts{4, 3, 3, 2});
}

TEST_CASE("a stage ends behind the layer that takes it over its share") {
  // A layer has 4 * 256^2 + 3 * 256 * 512 = 655,360 weights, the head
  // 5,120 * 256 = 2 layers: 10 layers in all, 5 a stage; the sixth goes over.
  CHECK(counts(stagesByProducts(layers(8, 5120), 2, Recompute::None)) ==
        Counts{1 + 6, 2 + 1});
}

TEST_CASE("balanced stages leave room for the head") {
  const std::vector<Stage> stages =
      balancedStages(layers(13, 20480), 4, Recompute::Full);
  const Counts own = counts(stages);
  REQUIRE(own.size() == 4);
  CHECK(own[0] + own[1] + own[2] + own[3] == 15);
  CHECK(own[3] - 1 < own[0] - 1); // less layers beside the head
  for (const StageRun &run : stages[1].runs)
    CHECK(run.recompute == Recompute::Full);
  CHECK(stages[3].runs.back().recompute == Recompute::None);
}

TEST_CASE("balanced stages hold a layer each where they are many") {
  for (int64_t count :
       counts(balancedStages(layers(6, 1024), 8, Recompute::None)))
    CHECK(count == 1);
}
