#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

TEST_CASE("the mesh is pp, dp, tp and ranks are row-major on it") {
  Plan plan;
  plan.pp = 2;
  plan.dp = 3;
  plan.tp = 4;
  setMesh(plan);
  CHECK(plan.ranks() == 24);
  CHECK(axisNamed(plan, "pp") == 0);
  CHECK(axisNamed(plan, "dp") == 1);
  CHECK(axisNamed(plan, "tp") == 2);
  CHECK(coordinates(plan, 0) == std::vector<int64_t>{0, 0, 0});
  CHECK(coordinates(plan, 12 + 2 * 4 + 3) == std::vector<int64_t>{1, 2, 3});
}

TEST_CASE("dtypes: statistics stay in f32 unless everything is f64") {
  DTypes dtypes;
  CHECK(dtypes.of(Precision::Compute) == DType::BF16);
  CHECK(dtypes.of(Precision::Stat) == DType::F32);
  CHECK(dtypes.of(Precision::Index) == DType::I32);
  dtypes.compute = DType::F64;
  CHECK(dtypes.of(Precision::Stat) == DType::F64);
  CHECK(byteWidth(DType::F64) == 8);
  CHECK(byteWidth(DType::BF16) == 2);
}

namespace {
/// Layers per stage, embedding and head apart.
std::vector<int64_t> layersOf(const std::vector<Stage> &stages) {
  std::vector<int64_t> counts;
  for (const Stage &stage : stages) {
    counts.push_back(0);
    for (const StageRun &run : stage.runs)
      counts.back() += run.kind == "dense" ? run.count : 0;
  }
  return counts;
}
} // namespace

TEST_CASE("even stages lose no layer") {
  for (int64_t layers : {1, 2, 7, 30, 32, 126})
    for (int64_t pp = 1; pp <= layers && pp <= 16; ++pp) {
      Program program = smallLlama({.layers = layers});
      std::vector<Stage> stages = evenStages(program, pp, Recompute::None);
      REQUIRE(stages.size() == static_cast<size_t>(pp));
      int64_t total = 0, least = layers, most = 0;
      for (int64_t count : layersOf(stages)) {
        total += count;
        least = std::min(least, count);
        most = std::max(most, count);
      }
      CHECK(total == layers);
      CHECK(most - least <= 1);
      CHECK(stages.front().runs.front().kind == "embed");
      CHECK(stages.back().runs.back().kind == "head");
    }
}

TEST_CASE("interior stages take the layers that are left over") {
  Program program = smallLlama({.layers = 30});
  CHECK(layersOf(evenStages(program, 4, Recompute::None)) ==
        std::vector<int64_t>{7, 8, 8, 7});
  program = smallLlama({.layers = 7});
  CHECK(layersOf(evenStages(program, 4, Recompute::None)) ==
        std::vector<int64_t>{2, 2, 2, 1});
}

TEST_CASE("full recomputation of some layers of a stage leaves the last as is") {
  Program program = smallLlama({.layers = 6});
  std::vector<Stage> stages = evenStages(program, 2, Recompute::Full, 2);
  CHECK(stages[0].runs ==
        std::vector<StageRun>{{"embed", 1, Recompute::None},
                              {"dense", 2, Recompute::Full},
                              {"dense", 1, Recompute::None}});
  CHECK(stages[1].runs ==
        std::vector<StageRun>{{"dense", 2, Recompute::Full},
                              {"dense", 1, Recompute::None},
                              {"head", 1, Recompute::None}});
  stages = evenStages(program, 2, Recompute::Full, 9);
  CHECK(stages[0].runs.size() == 2);
  stages = evenStages(program, 2, Recompute::Full, 0);
  CHECK(stages[0].runs[1] == StageRun{"dense", 3, Recompute::None});
  stages = evenStages(program, 1, Recompute::Full);
  CHECK(stages[0].runs[1] == StageRun{"dense", 6, Recompute::Full});
}
