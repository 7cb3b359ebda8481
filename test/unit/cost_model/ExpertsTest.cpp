//===- ExpertsTest.cpp - Expert and dense axes, routed rows ---------------===//
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/partition/Assignment.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/rules/Rules.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Plan planOf(int64_t dp, int64_t tp, int64_t ep, int64_t etp, bool sp = true) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.ep = ep;
  plan.etp = etp;
  plan.sp = sp && tp > 1;
  setMesh(plan);
  return plan;
}

std::string meshText(const Plan &plan) {
  std::string text;
  for (const MeshAxis &axis : plan.mesh)
    text +=
        (text.empty() ? "" : " ") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string namesOf(const Plan &plan, const Axes &axes) {
  std::string text;
  for (Axis axis : axes)
    text += (text.empty() ? "" : " ") + plan.mesh[axis].name;
  return text;
}

std::string axes(const Plan &plan, Degree degree) {
  return namesOf(plan, axesOfDegree(plan, degree));
}

std::string stepsText(const ReshardPlan &plan) {
  std::string text;
  for (const ReshardStep &step : plan.steps)
    text += (text.empty() ? "" : " ") + std::string(name(step.collective)) +
            std::to_string(step.axes.size());
  return text;
}

} // namespace

TEST_CASE("the mesh refines the dense and the expert order") {
  Plan plan = planOf(8, 1, 8, 1); // one expert group over the data ranks
  CHECK(meshText(plan) == "pp=1 dp=8 tp=1");
  CHECK(axes(plan, Degree::Ep) == "dp");
  CHECK(axes(plan, Degree::Edp).empty());

  plan = planOf(16, 1, 8, 1); // two of them
  CHECK(meshText(plan) == "pp=1 dp0=2 dp1=8 tp=1");
  CHECK(axes(plan, Degree::Dp) == "dp0 dp1");
  CHECK(axes(plan, Degree::Ep) == "dp1");
  CHECK(axes(plan, Degree::Edp) == "dp0");

  plan = planOf(4, 2, 8, 1); // experts over tensor ranks, too
  CHECK(meshText(plan) == "pp=1 dp=4 tp=2");
  CHECK(axes(plan, Degree::Ep) == "dp tp");

  plan = planOf(2, 4, 2, 2); // boundaries 2 and 4 of the ranks inside
  CHECK(meshText(plan) == "pp=1 dp=2 tp0=2 tp1=2");
  CHECK(axes(plan, Degree::Etp) == "tp1");
  CHECK(axes(plan, Degree::Ep) == "tp0");
  CHECK(axes(plan, Degree::Edp) == "dp");
  CHECK(axes(plan, Degree::Tp) == "tp0 tp1");

  plan = planOf(4, 6, 4, 1); // 4 inside of 6
  CHECK_FALSE(degreesNest(plan));
  CHECK(meshText(plan) == "pp=1 dp=4 tp=6");
  CHECK(degreesNest(planOf(4, 6, 12, 1)));
}

TEST_CASE("groups are named by their degree") {
  const Plan plan = planOf(16, 1, 8, 1);
  CHECK(axisName(plan, axesOfDegree(plan, Degree::Dp)) == "dp");
  CHECK(axisName(plan, axesOfDegree(plan, Degree::Edp)) == "edp");
  CHECK(axisName(plan, axesOfDegree(plan, Degree::Ep)) == "ep");
  const Plan same = planOf(8, 1, 8, 1);
  CHECK(axisName(same, axesOfDegree(same, Degree::Ep)) == "dp");
  CHECK(axisName(same, axesOfDegree(same, Degree::Ep), true) == "ep");
  const Plan none = planOf(2, 4, 1, 1);
  CHECK(axisName(none, axesOf(none, Segment::Router, Role::Rows)) == "dp+tp");
}

TEST_CASE("rows and experts share the axes of the rule table") {
  const Plan plan = planOf(4, 4, 4, 2); // pp dp0=2 dp1=2 tp0=2 tp1=2
  CHECK(meshText(plan) == "pp=1 dp0=2 dp1=2 tp0=2 tp1=2");
  auto of = [&](Segment segment, Role role) {
    return namesOf(plan, axesOf(plan, segment, role));
  };
  CHECK(of(Segment::Router, Role::Rows) == "dp0 dp1 tp0 tp1");
  CHECK(of(Segment::Router, Role::Seq) == "tp0 tp1");
  CHECK(of(Segment::Router, Role::Experts).empty());
  CHECK(of(Segment::Experts, Role::Rows) == "dp0 dp1 tp0");
  CHECK(of(Segment::Experts, Role::Experts) == "dp1 tp0");
  CHECK(of(Segment::Experts, Role::Ffn) == "tp1");
  CHECK(of(Segment::Mlp, Role::Ffn) == "tp0 tp1");
  CHECK(namesOf(plan, dataAxes(plan, Segment::Experts)) == "dp0");
  CHECK(namesOf(plan, dataAxes(plan, Segment::Mlp)) == "dp0 dp1");
  CHECK(plannedSize(plan, Role::Rows, 10) == 40);
}

TEST_CASE("rows travel by an all-to-all, and with etp by a gather behind it") {
  const Plan plan = planOf(4, 4, 4, 2);
  const Encoding token{
      {axesOf(plan, Segment::Router, Role::Rows), {}}, Partial::None, {}, {}};
  Encoding expert{{axesOf(plan, Segment::Experts, Role::Rows), {}},
                  Partial::None,
                  {},
                  routedAxes(plan, Segment::Experts)};
  ReshardPlan there, back;
  std::string why;
  REQUIRE(planReshards(token, {expert}, there, why));
  CHECK(stepsText(there) == "all_to_all2 all_gather1");
  // The last product leaves sums over etp: scattered to whose token it is.
  expert.partial = Partial::Sum;
  expert.partialAxes = axesOfDegree(plan, Degree::Etp);
  REQUIRE(planReshards(expert, {token}, back, why));
  CHECK(stepsText(back) == "reduce_scatter1 all_to_all2");
  CHECK(back.steps[0].result.routed == expert.routed);
  CHECK(back.steps[1].result == token);
}

TEST_CASE("work of grouped products, and of attention with two widths") {
  // 1,024 rows over 8 experts, 16 x 12 matrices.
  IterationSpace space;
  space.kernel = KernelClass::GroupedGemm;
  space.factors = {{'c', Role::Rows, FactorKind::Parallel, 1024},
                   {'h', Role::Hidden, FactorKind::Sum, 16},
                   {'x', Role::Experts, FactorKind::Parallel, 8},
                   {'m', Role::Ffn, FactorKind::Parallel, 12}};
  space.operands = {{0, 1}, {2, 3, 1}, {0}};
  space.results = {{0, 3}};
  CHECK(flopsOf(space) == Flops(2 * 1024 * 16 * 12));
  CHECK(groupedShapeOf(space) == GemmShape{8, 128, 12, 16});
  CHECK(groupedShapeOf(space, 1.5) == GemmShape{8, 192, 12, 16});
  space.factors[0].size = 1000; // 125 rows each
  CHECK(groupedShapeOf(space).m == 125);

  IterationSpace latent;
  latent.kernel = KernelClass::Attention;
  latent.causal = true;
  latent.factors = {{'s', Role::Seq, FactorKind::Parallel, 4},
                    {'t', Role::KvSeq, FactorKind::Full, 4},
                    {'n', Role::Heads, FactorKind::Parallel, 3},
                    {'o', Role::HeadDim, FactorKind::Full, 128},
                    {'r', Role::HeadDim, FactorKind::Full, 64},
                    {'w', Role::ValueDim, FactorKind::Full, 128}};
  // 10 pairs, 3 heads: 2 * (192 + 128) and 2 * (3 * 192 + 2 * 128) each.
  CHECK(flopsOf(latent) == Flops(10 * 3 * 640));
  latent.kernel = KernelClass::AttentionGrad;
  CHECK(flopsOf(latent) == Flops(10 * 3 * 1664));
}

TEST_CASE("an all-to-all of one node, by hand and as measured") {
  const Hardware hardware = shipped("dgx-h100");
  const auto time = [&](double bytes, Placement at) {
    return collectiveTime(hardware, Collective::AllToAll,
                          Bytes(static_cast<int64_t>(bytes)), at)
               .count() *
           1e6;
  };
  // 7/8 of 256 MiB over 0.7 of 450 GB/s, 12 MB more for the ramp; 8 us.
  const double bytes = 268435456;
  const double wire = bytes * 7 / 8 / (450e9 * 0.7) * 1e6;
  CHECK(time(bytes, {8, 8, 1, 1}) ==
        Approx(8 + wire * (1 + 12e6 / (bytes + 12e6))));
  // nccl-tests, 8 H100, half: ai-dynamo/aiconfigurator commit 095f58a.
  CHECK(time(bytes, {8, 8, 1, 1}) == Approx(763.9).epsilon(0.06));
  CHECK(time(67108864, {8, 8, 1, 1}) == Approx(221.3).epsilon(0.08));
  CHECK(time(16777216, {8, 8, 1, 1}) == Approx(75.7).epsilon(0.08));
  // Two nodes: half of it leaves by a NIC of 50 GB/s, of which 0.95 is reached.
  CHECK(time(bytes, {16, 8, 2, 1}) ==
        Approx(22 + bytes / 2 / (50e9 * 0.95) * 1e6));
  // Eight copies of a token over two nodes: 1 - 1/2^8 of the tokens cross once
  // instead of 4 times each. A rank gets a token once, however many of its
  // experts are chosen: of 16 ranks, eight draws hit 16 (1 - (15/16)^8).
  const auto hit = [](double ranks) {
    return ranks / 8 * (1 - std::pow(1 - 1 / ranks, 8));
  };
  CHECK(
      exchangeTime(hardware, Bytes(268435456), {16, 8, 2, 1}, 8, true).count() *
          1e6 ==
      Approx(22 + std::max(hit(16) * wire * (1 + 12e6 / (bytes + 12e6)),
                           bytes / 8 * (1 - 1.0 / 256) / (50e9 * 0.95) * 1e6)));
  CHECK(
      exchangeTime(hardware, Bytes(268435456), {8, 8, 1, 1}, 8, true).count() *
          1e6 ==
      Approx(8 + hit(8) * (time(bytes, {8, 8, 1, 1}) - 8)));
  // More bytes are never faster, and nothing to send takes no time.
  double last = 0;
  for (double size = 1024; size < 1e9; size *= 2) {
    CHECK(time(size, {8, 8, 1, 1}) >= last);
    last = time(size, {8, 8, 1, 1});
  }
  CHECK(time(0, {8, 8, 1, 1}) == 0);
  CHECK(time(1024, {1, 1, 1, 1}) == 0);
}
