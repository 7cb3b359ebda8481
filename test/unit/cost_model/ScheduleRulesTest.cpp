// Whether a schedule takes so many microbatches, chunks and groups.
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"
#include "Violations.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Program program() {
  return smallLlama({.hidden = 64, .kvHeads = 4, .group = 2, .headDim = 8,
                     .ffn = 48, .layers = 6});
}

} // namespace

TEST_CASE("schedules name the batches near by") {
  Program m = program();
  Plan p = planFor(m, 2, 1, 1, false, 0, 2, 3);
  p.schedule = ScheduleKind::Interleaved;
  p.chunks = 2;
  p.stages = evenStages(m, 4, Recompute::None);
  const std::optional<Violation> violation =
      find(checkPlan(m, p), "schedule_fits");
  REQUIRE(violation);
  CHECK(violation->legal ==
        std::vector<std::string>{"microbatch_group = 3", "global = 4",
                                 "global = 8"});
}

TEST_CASE("groups of interleaved microbatches fill the pipeline, the last too") {
  const Program m = program(); // 6 layers
  const auto problem = [&](int64_t microbatches, int64_t group,
                           ScheduleKind kind = ScheduleKind::Interleaved) {
    Plan p = planFor(m, 3, 1, 1, false, 0, 1, microbatches);
    if (kind == ScheduleKind::Interleaved) {
      p.chunks = 2;
      p.stages = evenStages(m, 6, Recompute::None);
    }
    p.schedule = kind;
    p.group = group;
    const std::optional<Violation> violation =
        find(checkPlan(m, p), "schedule_fits");
    return violation ? violation->message : "";
  };
  for (const auto &[microbatches, group] :
       {std::pair(6, 0), std::pair(6, 3), std::pair(6, 6), std::pair(5, 5),
        std::pair(7, 4), std::pair(10, 7)})
    CHECK(problem(microbatches, group) == "");
  CHECK(problem(5, 0) ==
        "expected the number of microbatches to be a multiple of pp = 3 for "
        "schedule interleaved, but got 5; legal here: microbatch_group = 5, "
        "global = 3, global = 6");
  CHECK(problem(6, 2) ==
        "expected microbatch_group from pp = 3 to the 6 microbatches for "
        "schedule interleaved, but got 2; legal here: microbatch_group = 3, "
        "microbatch_group = 6");
  CHECK(problem(6, 7) ==
        "expected microbatch_group from pp = 3 to the 6 microbatches for "
        "schedule interleaved, but got 7; legal here: microbatch_group = 3, "
        "microbatch_group = 6, global = 7");
  CHECK(problem(6, 5) ==
        "expected the last of groups of 5 in 6 microbatches to have at least "
        "pp = 3 for schedule interleaved, but got 1; legal here: "
        "microbatch_group = 3, microbatch_group = 6, global = 5, global = 8");
  // Two on either side: 16 can be run in 4, 6, 8, 9, ... in a row.
  CHECK(problem(16, 7) ==
        "expected the last of groups of 7 in 16 microbatches to have at least "
        "pp = 3 for schedule interleaved, but got 2; legal here: "
        "microbatch_group = 4, microbatch_group = 6, microbatch_group = 8, "
        "microbatch_group = 9, global = 14, global = 17");
  CHECK(problem(2, 0).find("to be at least pp = 3") != std::string::npos);
  CHECK(problem(6, 3, ScheduleKind::OneFOneB) ==
        "expected no microbatch_group for schedule 1f1b, but got 3; legal "
        "here: no microbatch_group");
}

TEST_CASE("a V has two chunks") {
  const Program m = program();
  for (const auto &[kind, ours] :
       {std::pair(ScheduleKind::ZbV, true),
        std::pair(ScheduleKind::Interleaved, false)})
    for (int64_t chunks : {1, 2, 3}) {
      CAPTURE(name(kind), chunks);
      Plan p = planFor(m, 2, 1, 1, false, 0, 2, 8);
      p.schedule = kind;
      p.chunks = chunks;
      p.stages = evenStages(m, 2 * chunks, Recompute::None);
      const std::optional<Violation> violation =
          find(checkPlan(m, p), "schedule_fits");
      CHECK(violation.has_value() == (chunks == 1 || (ours && chunks == 3)));
      if (violation)
        CHECK(violation->legal == std::vector<std::string>{"chunks = 2"});
    }
}
