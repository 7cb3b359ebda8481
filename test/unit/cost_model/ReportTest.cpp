#include "SmallPrograms.h"

#include "cost_model/search/Report.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

TEST_CASE("quantities are shown with units") {
  CHECK(bytesText(Bytes(0)) == "0 B");
  CHECK(bytesText(Bytes(1023)) == "1023 B");
  CHECK(bytesText(Bytes(1536)) == "1.50 KiB");
  CHECK(bytesText(Bytes(80LL << 30)) == "80.00 GiB");
  CHECK(secondsText(Seconds(0)) == "0 s");
  CHECK(secondsText(Seconds(12.345)) == "12.35 s");
  CHECK(secondsText(Seconds(0.0123)) == "12.30 ms");
  CHECK(secondsText(Seconds(4.5e-6)) == "4.5 us");
  CHECK(countText(1024) == "1024");
  CHECK(countText(70.55e9) == "70.55 B");
  CHECK(groupedText(0) == "0");
  CHECK(groupedText(999) == "999");
  CHECK(groupedText(1000) == "1,000");
  CHECK(groupedText(-1234567) == "-1,234,567");
  CHECK(plural(0, "plan") == "plans");
  CHECK(plural(1, " mesh") == " mesh");
  CHECK(plural(2, " mesh") == " meshes");
  CHECK(percentText(0.4321) == "43.2 %");
}

TEST_CASE("columns are aligned and lines have no trailing blanks") {
  Table table({"name", "count", ""}, {Table::Align::Left, Table::Align::Right,
                                      Table::Align::Left});
  table.add({"a", "1", "x"});
  table.add({"long", "1000"});
  CHECK(table.text() == "name  count\n"
                        "a         1  x\n"
                        "long   1000\n");
}

TEST_CASE("equal stages are written as runs") {
  CHECK(layersText({20}) == "20");
  CHECK(layersText({20, 20, 20}) == "20x3");
  CHECK(layersText({19, 21, 21, 19}) == "19+21x2+19");
}

TEST_CASE("a plan is told in a line") {
  LlamaSizes sizes;
  sizes.layers = 8;
  Program program = smallLlama(sizes);
  Plan plan = planFor(program, 2, 2, 4, true, 1, 2, 4);
  CHECK(planText(program, plan) ==
        "4 TP, 2 PP, 2 DP, SP, ZeRO-1, microbatch 2 x 4, 1F1B, recompute none, "
        "layers 4x2");
  CHECK(planText(program, planFor(program, 1, 1, 1)) ==
        "1 TP, 1 PP, 1 DP, microbatch 1 x 4, recompute none");
}

TEST_CASE("recomputation of a plan has a word") {
  LlamaSizes sizes;
  sizes.layers = 7;
  Program program = smallLlama(sizes);
  Plan plan = planFor(program, 2, 1, 1);
  CHECK(recomputeText(program, plan) == "none");
  plan.stages = evenStages(program, 2, Recompute::Selective);
  CHECK(recomputeText(program, plan) == "selective");
  plan.stages = evenStages(program, 2, Recompute::Full);
  CHECK(recomputeText(program, plan) == "full");
  plan.stages = evenStages(program, 2, Recompute::Full, 2);
  CHECK(recomputeText(program, plan) == "full:2");
  CHECK(layersOf(program, plan) == std::vector<int64_t>{4, 3});
  CHECK(fullLayersOf(program, plan) == std::vector<int64_t>{2, 2});
  CHECK(recomputeRange(program, plan) == "full:2");
  // Stages that differ are told apart; a search takes the least and the most.
  plan = planFor(program, 7, 1, 1);
  plan.stages = stagesWith(program, {1, 1, 1, 1, 1, 1, 1}, Recompute::Full,
                           {1, 0, 0, 0, 0, 0, 0});
  CHECK(recomputeText(program, plan) == "full:1,0x6");
  CHECK(recomputeRange(program, plan) == "full:0-1");
  plan.stages = stagesWith(program, {2, 1, 1, 1, 1, 1}, Recompute::Full,
                           {2, 1, 1, 0, 0, 0});
  CHECK(recomputeText(program, plan) == "full:2,1x2,0x3");
  CHECK(recomputeRange(program, plan) == "full:0-2");
  plan.stages = evenStages(program, 2, Recompute::Full, 2);
  plan.stages[1] = evenStages(program, 2, Recompute::Selective)[1];
  CHECK(recomputeText(program, plan) == "mixed");
}

TEST_CASE("equal neighbouring stages share a line of the memory table") {
  Estimate estimate;
  MemoryParts parts;
  parts.parameters = Bytes(1 << 20);
  estimate.stages = {{parts, Bytes(0), Bytes(0), Bytes(0)},
                     {parts, Bytes(0), Bytes(0), Bytes(0)},
                     {{}, Bytes(5), Bytes(0), Bytes(0)}};
  std::string text = memoryTable(estimate, Bytes(2 << 20));
  CHECK(text.find("\n0-1 ") != std::string::npos);
  CHECK(text.find("\n2 ") != std::string::npos);
  CHECK(text.find("50.0 %") != std::string::npos);
}

// (pp - 1) / (m + pp - 1) of equal stages: 3 / 7 of 4 stages and 4 microbatches.
TEST_CASE("the bubble of a pipeline is told for schedules that have the formula") {
  Plan plan;
  CHECK(bubbleText(plan) == "");
  plan.pp = 4;
  plan.dp = 64;
  plan.globalBatch = 1024;
  plan.microBatch = 4;
  CHECK(bubbleText(plan) ==
        "42.9 % of the pipeline if its stages are alike: 3 of 7 turns");
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 3; // 4 * 3 chunks, and 3 idle
  CHECK(bubbleText(plan) ==
        "20.0 % of the pipeline if its stages are alike: 3 of 15 turns");
  plan.schedule = ScheduleKind::ZbH1;
  CHECK(bubbleText(plan) == "");
}

TEST_CASE("what ranks lack is told stage by stage, equal neighbours together") {
  Estimate estimate;
  for (int64_t gibibytes : {9, 7, 7, 3}) {
    StageEstimate stage;
    stage.framework = Bytes(gibibytes << 30);
    estimate.stages.push_back(stage);
  }
  CHECK(deficitText(estimate, Bytes((int64_t(4) << 30) + 1)) ==
        "stage 0: 5.00 GiB, stages 1-2: 3.00 GiB");
  CHECK(deficitText(estimate, Bytes(int64_t(10) << 30)) == "");
}

TEST_CASE("plans tie by the time of a token, not of a step") {
  RankedPlan a, b;
  a.plan.globalBatch = 8;
  b.plan.globalBatch = 16;
  a.plan.sequence = b.plan.sequence = 4;
  a.estimate.stepTime = Seconds(1);
  b.estimate.stepTime = Seconds(2.2);
  CHECK(areTied(a, b, 1.14));
  CHECK_FALSE(areTied(a, b, 1.05));
}
