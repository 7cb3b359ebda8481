#include "cost_model/rules/Rules.h"
#include "cost_model/search/Candidate.h"
#include "SmallPrograms.h"
#include "Violations.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// Native is asked for a price here; what it compiles is another rule.
std::optional<Framework> priced(Framework framework) {
  return framework == Framework::Native ? std::nullopt
                                        : std::optional(framework);
}

} // namespace

TEST_CASE("under a pipeline a framework shards what it can") {
  CHECK(zeroAsRun(Framework::TorchTitan, 3, 1) == 3);
  CHECK(zeroAsRun(Framework::TorchTitan, 3, 2) == 1);
  CHECK(zeroAsRun(Framework::TorchTitan, 0, 2) == 0);
  CHECK(zeroAsRun(Framework::DeepSpeed, 2, 4) == 1);
  CHECK(zeroAsRun(Framework::MegatronCore, 1, 4) == 1);
}

TEST_CASE("frameworks run what is in their code") {
  const Program program = smallLlama({16, 24, 4, 2, 3, 40, 1000, 8, false});
  struct {
    Framework framework;
    int zero;
    ScheduleKind schedule;
    int64_t chunks;
    bool sp;
    const char *broken; ///< a rule, or none
  } cases[] = {
      {Framework::Native, 1, ScheduleKind::OneFOneB, 1, true, ""},
      {Framework::Native, 2, ScheduleKind::OneFOneB, 1, true, ""},
      {Framework::MegatronCore, 1, ScheduleKind::Interleaved, 2, true, ""},
      {Framework::MegatronCore, 3, ScheduleKind::OneFOneB, 1, true,
       "zero_of_framework"}, // but for one stage, below
      {Framework::MegatronCore, 1, ScheduleKind::GPipe, 1, true,
       "schedule_of_framework"},
      {Framework::TorchTitan, 1, ScheduleKind::ZbV, 2, true, ""},
      {Framework::TorchTitan, 3, ScheduleKind::OneFOneB, 1, true,
       "zero_of_framework"},
      {Framework::TorchTitan, 1, ScheduleKind::OneFOneB, 1, false,
       "tp_needs_sp"},
      {Framework::DeepSpeed, 1, ScheduleKind::OneFOneB, 1, false, ""},
      {Framework::DeepSpeed, 2, ScheduleKind::OneFOneB, 1, false,
       "zero_of_framework"},
      {Framework::DeepSpeed, 1, ScheduleKind::GPipe, 1, false,
       "schedule_of_framework"},
  };
  for (const auto &c : cases) {
    CAPTURE(name(c.framework), c.zero, name(c.schedule), c.sp);
    Plan plan = planFor(program, 2, 2, 2, c.sp, c.zero, 1, 4);
    plan.schedule = c.schedule;
    plan.chunks = c.chunks;
    plan.stages = evenStages(program, stageCount(plan), Recompute::None);
    const std::vector<Violation> violations =
        checkPlan(program, plan, ModelCheck::NameOnly, priced(c.framework));
    if (*c.broken == 0)
      CHECK(violations.empty());
    else {
      REQUIRE(violations.size() == 1);
      CHECK(violations[0].rule == c.broken);
      CHECK_FALSE(violations[0].legal.empty());
    }
  }
  // Copies of key/value heads on several ranks.
  const Program grouped = smallLlama({.kvHeads = 2, .group = 4});
  const Plan wide = planFor(grouped, 1, 1, 4, true, 0, 1, 4);
  for (Framework framework : frameworks) {
    CAPTURE(name(framework));
    const std::vector<Violation> violations =
        checkPlan(grouped, wide, ModelCheck::NameOnly, priced(framework));
    if (framework == Framework::Native ||
        framework == Framework::MegatronCore) {
      CHECK(violations.empty());
      continue;
    }
    REQUIRE(violations.size() == 1);
    CHECK(
        violations[0].message ==
        "expected the number of key/value heads (2) to be a multiple of tp "
        "under " +
            std::string(name(framework)) +
            ", which does not replicate heads, but got tp = 4; nearest legal: "
            "tp = 1, tp = 2");
  }
  // Without a pipeline all but native shard all.
  const Plan flat = planFor(program, 1, 4, 1, false, 3, 1, 4);
  for (Framework framework : {Framework::DeepSpeed, Framework::MegatronCore})
    CHECK(checkPlan(program, flat, ModelCheck::NameOnly, framework).empty());
}

TEST_CASE("torchtitan makes equal groups of interleaved microbatches") {
  const Program program = smallLlama({16, 24, 4, 2, 3, 40, 1000, 8, false});
  const struct {
    int64_t microbatches, group;
    const char *message; ///< empty: it is accepted
  } cases[] = {
      {8, 0, ""},
      {5, 0, "schedule_fits"},
      {7, 7, "expected the number of microbatches to be a multiple of 3, its "
             "groups of pp or more, under torchtitan, but got 7"},
      {3, 3, ""},
      {8, 4, "expected the 8 microbatches in 4 equal groups under torchtitan, "
             "but got microbatch_group = 4; legal here: microbatch_group = 2"},
  };
  for (const auto &c : cases) {
    CAPTURE(c.microbatches, c.group);
    Plan plan = planFor(program, 2, 1, 1, false, 0, 1, c.microbatches);
    plan.schedule = ScheduleKind::Interleaved;
    plan.chunks = 2;
    plan.group = c.group == 2 ? 0 : c.group;
    plan.stages = evenStages(program, 4, Recompute::None);
    const std::vector<Violation> found =
        checkPlan(program, plan, ModelCheck::NameOnly, Framework::TorchTitan);
    const std::optional<Violation> group = find(found, "groups_of_framework");
    if (std::string(c.message).empty())
      CHECK(found.empty());
    else
      CHECK((find(found, c.message) || (group && group->message == c.message)));
    // Megatron Core takes any that fill the pipeline.
    CHECK_FALSE(find(checkPlan(program, plan, ModelCheck::NameOnly,
                               Framework::MegatronCore),
                     "groups_of_framework"));
  }
}

TEST_CASE("experts are split as a framework splits them") {
  Program program = smallLlama({16, 24, 4, 2, 3, 40, 1000, 8, false});
  program.experts = 8;
  const struct {
    Framework framework;
    int64_t ep, etp;
    std::vector<std::string> legal; ///< empty: it is accepted
  } cases[] = {
      {Framework::Native, 2, 2, {}},
      {Framework::MegatronCore, 2, 2, {}},
      {Framework::MegatronCore, 1, 1, {}},
      {Framework::TorchTitan, 2, 1, {}},
      {Framework::TorchTitan, 2, 4, {}},
      {Framework::TorchTitan, 1, 4, {}},
      {Framework::TorchTitan, 2, 2, {"etp = 1", "etp = 4"}},
      {Framework::TorchTitan, 1, 1, {"etp = 4"}},
      {Framework::DeepSpeed, 1, 1, {}},
      {Framework::DeepSpeed, 2, 4, {}},
      {Framework::DeepSpeed, 2, 2, {"etp = 1", "etp = 4"}},
  };
  for (const auto &c : cases) {
    CAPTURE(name(c.framework), c.ep, c.etp);
    Plan plan = planFor(program, 1, 2, 4, true, 0, 1, 4);
    plan.ep = c.ep;
    plan.etp = c.etp;
    setMesh(plan);
    const std::vector<Violation> violations =
        checkPlan(program, plan, ModelCheck::NameOnly, priced(c.framework));
    const std::optional<Violation> violation =
        find(violations, "etp_of_framework");
    REQUIRE(violation.has_value() == !c.legal.empty());
    if (violation)
      CHECK(violation->legal == c.legal);
  }
  // A model without experts has nothing to split.
  program.experts = 0;
  const Plan plan = planFor(program, 1, 2, 4, true, 0, 1, 4);
  CHECK(!find(checkPlan(program, plan, ModelCheck::NameOnly,
                        Framework::TorchTitan),
              "etp_of_framework"));
}

TEST_CASE("parts, copies, hosts, orders and types are those of a framework") {
  const Program program = smallLlama({16, 24, 4, 2, 3, 40, 1000, 8, false});
  const struct {
    const char *rule;
    Framework accepts, rejects;
    int zero;
    std::function<void(Plan &)> change;
  } cases[] = {
      {"cp_of_framework", Framework::MegatronCore, Framework::TorchTitan, 0,
       [](Plan &p) {
         p.cp = 2;
         p.cpKind = CpKind::AllToAll;
       }},
      {"cp_of_framework", Framework::TorchTitan, Framework::DeepSpeed, 0,
       [](Plan &p) { p.cp = 2; }},
      {"copies_of_framework", Framework::TorchTitan, Framework::DeepSpeed, 2,
       [](Plan &p) { p.zeroRanks = 2; }},
      {"copies_of_framework", Framework::DeepSpeed, Framework::MegatronCore, 3,
       [](Plan &p) { p.zeroRanks = 2; }},
      {"offload_of_framework", Framework::DeepSpeed, Framework::TorchTitan, 3,
       [](Plan &p) { p.offloadOptimizer = true; }},
      {"activations_of_framework", Framework::MegatronCore,
       Framework::TorchTitan, 0,
       [](Plan &p) { p.offloadActivations = true; }},
      {"order_of_framework", Framework::MegatronCore, Framework::TorchTitan, 0,
       [](Plan &p) { p.order = MeshOrder::DpPp; }},
      {"gradients_of_framework", Framework::DeepSpeed, Framework::TorchTitan, 0,
       [](Plan &p) { p.dtypes.grad = p.dtypes.reduce = DType::BF16; }},
      {"products_of_framework", Framework::TorchTitan, Framework::DeepSpeed, 0,
       [](Plan &p) { p.dtypes.products = Narrow::Fp8; }},
  };
  std::set<std::string> seen;
  for (const auto &c : cases) {
    CAPTURE(c.rule, name(c.accepts), name(c.rejects));
    Plan plan = planFor(program, 1, 4, 1, false, c.zero, 1, 4);
    c.change(plan);
    setMesh(plan);
    for (Framework framework : {Framework::Native, c.accepts})
      CHECK(!find(checkPlan(program, plan, ModelCheck::NameOnly,
                            priced(framework)),
                  c.rule));
    const std::vector<Violation> violations =
        checkPlan(program, plan, ModelCheck::NameOnly, c.rejects);
    const std::optional<Violation> violation = find(violations, c.rule);
    REQUIRE(violation);
    CHECK_FALSE(violation->legal.empty());
    seen.insert(c.rule);
  }
  CHECK(seen.size() == 7);
  // One number of layers is for all stages.
  for (Framework framework : frameworks) {
    CAPTURE(name(framework));
    Plan plan = planFor(program, 2, 2, 1, false, 0, 1, 4);
    const auto isBroken = [&](const std::vector<int64_t> &full) {
      plan.stages = stagesWith(program, {2, 1}, Recompute::Full, full);
      const std::optional<Violation> violation =
          find(checkPlan(program, plan, ModelCheck::NameOnly, framework),
               "recompute_of_framework");
      CHECK((!violation || violation->legal.size() == 2));
      return violation.has_value();
    };
    CHECK_FALSE(isBroken({1, 1}));
    CHECK_FALSE(isBroken({2, 1})); // it has no more
    CHECK_FALSE(isBroken({}));
    CHECK(isBroken({1, 0}) == (framework != Framework::Native));
    CHECK(isBroken({0, 1}) == (framework != Framework::Native));
    // And one way to recompute, said once whatever the numbers are.
    for (const std::vector<int64_t> &full :
         std::vector<std::vector<int64_t>>{{1, 1}, {1, 0}}) {
      plan.stages = stagesWith(program, {2, 1}, Recompute::Full, full);
      for (Stage &stage : plan.stages)
        for (StageRun &run : stage.runs)
          if (run.kind == "dense" && run.recompute == Recompute::None)
            run.recompute = Recompute::Selective;
      const std::vector<Violation> violations =
          checkPlan(program, plan, ModelCheck::NameOnly, framework);
      CHECK(std::count_if(violations.begin(), violations.end(),
                          [](const Violation &violation) {
                            return violation.rule == "recompute_of_framework";
                          }) == (framework == Framework::Native ? 0 : 1));
    }
  }
  // Megatron moves what layers save without a pipeline and recomputation alone,
  // DeepSpeed what layers that run again start from.
  const auto brokenRules = [&](int64_t pp, Recompute policy,
                               Framework framework) {
    Plan plan = planFor(program, pp, 2, 1, false, 0, 1, 4, policy);
    plan.offloadActivations = true;
    return checkPlan(program, plan, ModelCheck::NameOnly, priced(framework))
        .size();
  };
  CHECK(brokenRules(1, Recompute::None, Framework::MegatronCore) == 0);
  CHECK(brokenRules(2, Recompute::None, Framework::MegatronCore) == 1);
  CHECK(brokenRules(1, Recompute::Full, Framework::MegatronCore) == 1);
  CHECK(brokenRules(2, Recompute::Full, Framework::DeepSpeed) == 0);
  CHECK(brokenRules(1, Recompute::None, Framework::DeepSpeed) == 1);
  CHECK(brokenRules(2, Recompute::Selective, Framework::Native) == 0);
  // DeepSpeed's pipeline has no axis for parts of a sequence.
  Plan both = planFor(program, 2, 2, 1, false, 0, 1, 4);
  both.cp = 2;
  both.cpKind = CpKind::AllToAll;
  setMesh(both);
  CHECK(checkPlan(program, both, ModelCheck::NameOnly, Framework::DeepSpeed)
            .size() == 1);
  // DeepSpeed repeats key/value heads, which is not priced; Megatron does not.
  const Program grouped = smallLlama({.kvHeads = 2, .group = 4});
  Plan ulysses = planFor(grouped, 1, 1, 1, false, 0, 1, 4);
  ulysses.cpKind = CpKind::AllToAll;
  const auto broken = [&](int64_t tp, int64_t cp, Framework framework) {
    ulysses.tp = tp;
    ulysses.cp = cp;
    setMesh(ulysses);
    const std::vector<Violation> violations =
        checkPlan(grouped, ulysses, ModelCheck::NameOnly, priced(framework));
    REQUIRE(violations.size() <= 1);
    return violations.empty() ? std::string() : violations[0].rule;
  };
  for (Framework framework : {Framework::Native, Framework::DeepSpeed}) {
    CHECK(broken(1, 2, framework).empty());
    CHECK(broken(1, 4, framework) == "heads_repeated_for_cp");
    CHECK(worstKind(checkPlan(grouped, ulysses, ModelCheck::NameOnly,
                              priced(framework))) == FailureKind::Unsupported);
  }
  CHECK(broken(1, 4, Framework::MegatronCore) == "heads_divisible_by_cp");
  CHECK(broken(2, 2, Framework::Native) == "heads_repeated_for_cp");
  CHECK(broken(2, 2, Framework::DeepSpeed) == "heads_divisible_by_cp");
  // Its parts of a sequence are one piece each.
  Program odd = smallLlama({.sequence = 18, .kvHeads = 6, .group = 1});
  Plan thirds = planFor(odd, 1, 1, 1, false, 0, 1, 4);
  thirds.cp = 6;
  thirds.cpKind = CpKind::AllToAll;
  setMesh(thirds);
  CHECK(checkPlan(odd, thirds, ModelCheck::NameOnly, Framework::DeepSpeed)
            .empty());
  CHECK(find(checkPlan(odd, thirds, ModelCheck::NameOnly,
                       Framework::MegatronCore),
             "sequence_divisible_by_cp"));
  // torchtitan wants 2 cp * tp.
  Plan titan = planFor(program, 1, 1, 4, true, 0, 1, 4);
  titan.cp = 4;
  titan.cpKind = CpKind::AllGather;
  setMesh(titan);
  CHECK(checkPlan(program, titan, ModelCheck::NameOnly,
                  Framework::MegatronCore)
            .empty());
  CHECK(checkPlan(program, titan, ModelCheck::NameOnly, Framework::TorchTitan)
            .size() == 1);
}
