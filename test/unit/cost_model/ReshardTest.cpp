#include "cost_model/partition/Reshard.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

namespace {
constexpr Axis DP = 1, TP = 2;
using Dims = std::vector<Axes>;

Encoding full(Dims dims) { return {std::move(dims), Partial::None, {}}; }
Encoding sum(Dims dims, Axes axes) {
  return {std::move(dims), Partial::Sum, std::move(axes)};
}
ReshardPlan planned(const Encoding &produced,
                    const std::vector<Encoding> &wanted) {
  ReshardPlan plan;
  std::string why;
  INFO(why);
  REQUIRE(planReshards(produced, wanted, plan, why));
  return plan;
}
} // namespace

TEST_CASE("a value that is wanted as it is needs no step") {
  Encoding e = full({{TP}, {DP}, {}});
  ReshardPlan plan = planned(e, {e, e});
  CHECK(plan.steps.empty());
  CHECK(plan.served == std::vector<int>{0, 0});
  CHECK(planned(sum({{}, {}}, {TP}), {}).steps.empty());
}

TEST_CASE("a partial sum that is wanted whole is all-reduced once") {
  Encoding whole = full({{}, {DP}, {}});
  ReshardPlan plan = planned(sum({{}, {DP}, {}}, {TP}), {whole, whole});
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps[0].collective == Collective::AllReduce);
  CHECK(plan.steps[0].axes == Axes{TP});
  CHECK(plan.steps[0].source == 0);
  CHECK(plan.served == std::vector<int>{1, 1});
}

TEST_CASE("a partial sum is reduce-scattered into the most sharded encoding and "
          "gathered from there") {
  Encoding whole = full({{}, {DP}, {}}), sharded = full({{TP}, {DP}, {}});
  ReshardPlan plan =
      planned(sum({{}, {DP}, {}}, {TP}), {whole, sharded, whole});
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].collective == Collective::ReduceScatter);
  CHECK(plan.steps[0].dim == 0);
  CHECK(plan.steps[0].result == sharded);
  CHECK(plan.steps[1].collective == Collective::AllGather);
  CHECK(plan.steps[1].dim == 0);
  CHECK(plan.steps[1].source == 1);
  CHECK(plan.served == std::vector<int>{2, 1, 2});
}

TEST_CASE("axes that no scatter finishes are all-reduced after it") {
  ReshardPlan plan = planned(sum({{}, {}}, {DP, TP}), {full({{TP}, {}})});
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].collective == Collective::ReduceScatter);
  CHECK(plan.steps[0].result == sum({{TP}, {}}, {DP}));
  CHECK(plan.steps[1].collective == Collective::AllReduce);
  CHECK(plan.steps[1].axes == Axes{DP});
  CHECK(plan.steps[1].source == 1);
  CHECK(plan.served == std::vector<int>{2});
}

TEST_CASE("a scatter may shard a dim further, behind its outer axes") {
  ReshardPlan plan = planned(sum({{DP}}, {TP}), {full({{DP, TP}})});
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps[0].collective == Collective::ReduceScatter);
  CHECK(plan.steps[0].axes == Axes{TP});
}

TEST_CASE("a maximum is all-reduced even where a shard is wanted, then sliced") {
  Encoding produced{{{}, {}}, Partial::Max, {TP}};
  ReshardPlan plan = planned(produced, {full({{TP}, {}})});
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].collective == Collective::AllReduce);
  CHECK(plan.steps[1].collective == Collective::Slice);
}

TEST_CASE("a use that carries the partial on is served by the produced value") {
  Encoding produced = sum({{}, {}}, {TP});
  ReshardPlan plan = planned(produced, {produced, full({{}, {}})});
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.served == std::vector<int>{0, 1});
}

TEST_CASE("several dims are sliced first and gathered last") {
  ReshardPlan plan = planned(full({{TP}, {}}), {full({{}, {DP}})});
  REQUIRE(plan.steps.size() == 2);
  CHECK(plan.steps[0].collective == Collective::Slice);
  CHECK(plan.steps[0].dim == 1);
  CHECK(plan.steps[1].collective == Collective::AllGather);
  CHECK(plan.steps[1].source == 1);
  CHECK(plan.steps[1].result == full({{}, {DP}}));
}

TEST_CASE("each distinct wanted encoding is served once") {
  Encoding whole = full({{}, {}}), sharded = full({{TP}, {}});
  ReshardPlan plan = planned(sharded, {whole, whole, sharded});
  CHECK(plan.steps.size() == 1);
  CHECK(plan.served == std::vector<int>{1, 1, 0});
}

TEST_CASE("changes without a collective are refused with a reason") {
  ReshardPlan plan;
  std::string why;
  CHECK_FALSE(
      planReshards(full({{TP}, {}}), {full({{}, {TP, DP}})}, plan, why));
  CHECK(why.find("which does not give it up alone") != std::string::npos);
  CHECK_FALSE(planReshards(full({{TP}}), {full({{DP}})}, plan, why));
  CHECK(why.find("moves from mesh axes [2] to [1]") != std::string::npos);
  CHECK_FALSE(planReshards(full({{}}), {sum({{}}, {TP})}, plan, why));
}

TEST_CASE("an axis that one dim gives up and another takes is one all-to-all") {
  constexpr Axis CP = 3;
  const Encoding positions = full({{CP}, {DP}, {TP}, {}}),
                 heads = full({{}, {DP}, {TP, CP}, {}});
  ReshardPlan there = planned(positions, {heads});
  REQUIRE(there.steps.size() == 1);
  CHECK(there.steps[0].collective == Collective::AllToAll);
  CHECK(there.steps[0].axes == Axes{CP});
  CHECK(there.steps[0].dim == 2);
  CHECK(there.steps[0].result == heads);
  ReshardPlan back = planned(heads, {positions});
  REQUIRE(back.steps.size() == 1);
  CHECK(back.steps[0].collective == Collective::AllToAll);
  CHECK(back.steps[0].dim == 0);
  CHECK(back.steps[0].result == positions);
  // What no other dim gives up alone cannot move.
  ReshardPlan plan;
  std::string why;
  CHECK_FALSE(planReshards(full({{CP, TP}, {}}), {full({{CP}, {TP, CP}})}, plan,
                           why));
}
