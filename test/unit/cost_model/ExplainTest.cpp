//===- ExplainTest.cpp - The collectives of an explanation ----------------===//
#include "cost_model/estimate/Explain.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/rules/Rules.h"
#include "Shipped.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

const ExplainedCollective *find(const Explanation &explanation,
                                const LedgerKey &key) {
  for (const ExplainedCollective &line : explanation.collectives)
    if (line.collective == name(key.collective) && line.axis == key.axis &&
        line.phase == name(key.phase))
      return &line;
  return nullptr;
}

double termOf(const Estimate &estimate, std::string_view name) {
  for (const Term &term : estimate.terms)
    if (term.name == name)
      return term.time.count();
  return -1;
}

/// Time of all calls on `axis` in the phases of layers.
double secondsOn(const Explanation &explanation, const std::string &axis) {
  double seconds = 0;
  for (const ExplainedCollective &line : explanation.collectives)
    if (line.axis == axis &&
        (line.phase == "forward" || line.phase == "data_grad" ||
         line.phase == "weight_grad"))
      seconds += line.seconds;
  return seconds;
}

std::vector<Plan> plansOf(const Program &program) {
  std::vector<Plan> plans;
  for (Recompute policy :
       {Recompute::None, Recompute::Selective, Recompute::Full})
    for (bool sp : {false, true})
      for (CpKind kind : cpKinds)
        for (int64_t cp : {1, 2})
          for (int64_t pp : {1, 2}) {
            Plan plan = planFor(program, pp, 2, 2, sp, 0, 1, 4, policy);
            plan.cp = cp;
            plan.cpKind = kind;
            setMesh(plan);
            if ((cp > 1 || kind == CpKind::P2P) &&
                checkPlan(program, plan).empty())
              plans.push_back(plan);
          }
  return plans;
}

} // namespace

TEST_CASE("what is priced of our own programs is what their ledger counts") {
  const Program program = smallLlama();
  const Hardware hardware = shipped("dgx-h100");
  const Profile native = profileOf("native");
  const std::vector<Plan> plans = plansOf(program);
  CHECK(plans.size() > 20);
  for (const Plan &plan : plans) {
    CAPTURE(plan.cp, name(plan.cpKind), plan.pp, plan.sp);
    Breakdown breakdown;
    const Estimate estimate = estimateTime(program, hardware, native, plan,
                                           nullptr, &breakdown);
    const Explanation explanation = explain(program, hardware, native, plan);
    const Ledger ledger =
        predictLedger(program, plan, static_cast<int64_t>(breakdown.last));
    size_t found = 0;
    for (const auto &[key, entry] : ledger.collectives) {
      CAPTURE(name(key.collective), key.axis, name(key.phase));
      const ExplainedCollective *line = find(explanation, key);
      if (key.axis == "cp" && key.collective == Collective::Recv) {
        CHECK(!line); // the other end of a Send
        continue;
      }
      REQUIRE(line);
      ++found;
      CHECK(line->seconds > 0);
      CHECK(line->payloadBytes * static_cast<double>(line->calls) ==
            Approx(static_cast<double>(entry.payload.count())).epsilon(1e-12));
      // Backward a ring passes its gradients on once more than its keys.
      if (key.axis != "cp" || key.collective != Collective::Send)
        CHECK(line->calls == entry.calls);
    }
    CHECK(found == explanation.collectives.size());
    // Nothing runs beside them but the ring.
    CHECK(secondsOn(explanation, "tp") ==
          Approx(termOf(estimate, "tp_communication")).epsilon(1e-9));
    if (plan.cp > 1 && plan.cpKind != CpKind::P2P)
      CHECK(secondsOn(explanation, "cp") ==
            Approx(termOf(estimate, "cp_communication")).epsilon(1e-9));
  }
}

TEST_CASE("collectives of a framework alone are explained") {
  const Program program = smallLlama({.kvHeads = 2, .group = 2});
  const Hardware hardware = shipped("dgx-h100");
  Plan plan = planFor(program, 1, 1, 4, /*sp=*/true);
  REQUIRE(checkPlan(program, plan).empty());
  Profile megatron = profileOf("megatron-core-no-overlap");
  megatron.gatherLogits = true;
  Profile without = megatron;
  without.framework = Framework::Native;
  without.gatherLogits = false;
  const std::string axis = axisName(plan, axesOfDegree(plan, Degree::Tp));
  for (const Profile *profile : {&megatron, &without}) {
    const Estimate estimate = estimateTime(program, hardware, *profile, plan);
    CHECK(secondsOn(explain(program, hardware, *profile, plan), axis) ==
          Approx(termOf(estimate, "tp_communication")).epsilon(1e-9));
  }
  // 4 layers x 4 microbatches, and 4 times the logits.
  const auto calls = [&](const Profile &profile, Collective collective,
                         Phase phase) {
    const Explanation explanation = explain(program, hardware, profile, plan);
    const ExplainedCollective *line =
        find(explanation, {collective, axis, phase});
    return line ? line->calls : 0;
  };
  CHECK(calls(megatron, Collective::AllGather, Phase::Forward) ==
        calls(without, Collective::AllGather, Phase::Forward) + 16 + 4);
  CHECK(calls(megatron, Collective::ReduceScatter, Phase::DataGrad) ==
        calls(without, Collective::ReduceScatter, Phase::DataGrad) + 16);
}
