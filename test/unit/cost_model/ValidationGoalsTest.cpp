#include "cost_model/validation/ValidationGoals.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

namespace {

ValidationOutcome outcome(const char *set, const char *configuration,
                          double measured, double predicted,
                          const char *precision = "bf16") {
  ValidationOutcome row;
  row.set = set;
  row.configuration = configuration;
  row.grade = "A";
  row.kind = "dense";
  row.precision = precision;
  row.family = row.precision == "bf16" ? RunFamily::Dense16 : RunFamily::Dense8;
  row.measuredSeconds = measured;
  row.predictedSeconds = predicted;
  return row;
}

const Goal *find(const std::vector<Goal> &goals, std::string_view part) {
  for (const Goal &goal : goals)
    if (goal.name.find(part) != std::string::npos)
      return &goal;
  return nullptr;
}

} // namespace

TEST_CASE("goals count a configuration once and headlines only") {
  std::vector<ValidationOutcome> rows = {
      outcome("a", "1", 1, 1.02), outcome("a", "1", 1, 1.04),
      outcome("a", "2", 1, 0.95), outcome("b", "3", 1, 1.30),
      outcome("b", "4", 1, 1.10, "fp8")};
  rows.push_back(outcome("b", "5", 1, 9));
  rows.back().headline = false;
  const std::vector<Goal> goals = runGoals(rows);
  const Goal *dense = find(goals, "dense in 16 bits");
  REQUIRE(dense != nullptr);
  CHECK(dense->count == 3); // errors 3 %, 5 %, 30 %
  CHECK(dense->figures[0].reached == Approx(0.05));
  CHECK(dense->figures[0].meetsMust());
  CHECK_FALSE(dense->figures[0].meetsAim());
  CHECK(dense->figures[1].reached == Approx(0.05 + 0.8 * 0.25));
  CHECK_FALSE(dense->figures[1].meetsMust());
  const Goal *votes = find(goals, "one vote");
  REQUIRE(votes != nullptr);
  CHECK(votes->count == 2);
  CHECK(votes->figures[0].reached == Approx((0.04 + 0.30) / 2));
  CHECK(votes->figures[1].reached == Approx(0.30));
  const Goal *narrow = find(goals, "8 bits");
  REQUIRE(narrow != nullptr);
  CHECK(narrow->count == 1);
  CHECK(find(goals, "experts") == nullptr);
  CHECK(find(goals, "fits") == nullptr);
}

TEST_CASE("memory of a stated kind and grade A is a goal of its own") {
  std::vector<ValidationOutcome> rows(2);
  for (size_t i = 0; i < 2; ++i) {
    rows[i].configuration = i == 0 ? "1" : "2";
    rows[i].grade = i == 0 ? "A" : "B";
    rows[i].memoryKind = "allocated";
    rows[i].measuredGib = 10;
    rows[i].predictedGib = i == 0 ? 11 : 8;
  }
  const std::vector<Goal> goals = runGoals(rows);
  REQUIRE(find(goals, "stated kind") != nullptr);
  CHECK(find(goals, "stated kind")->figures[0].reached == Approx(0.1));
  REQUIRE(find(goals, "memory, others") != nullptr);
  CHECK(find(goals, "memory, others")->figures[0].reached == Approx(0.2));
}

TEST_CASE("coverage judges a source by the others alone") {
  std::vector<ValidationOutcome> rows;
  for (int i = 0; i <= 10; ++i)
    rows.push_back(outcome("wide", std::to_string(i).c_str(), 1, 0.5 + 0.1 * i));
  rows.push_back(outcome("inside", "x", 1, 1.0));
  int64_t sources = 0;
  // "inside" lies in the range of "wide"; of "wide" only the middle one lies in
  // the range of a single value.
  CHECK(leftOutCoverage(rows, sources) == Approx((1.0 + 1.0 / 11) / 2));
  CHECK(sources == 2);
  rows.resize(11); // one source: nobody to judge it by
  leftOutCoverage(rows, sources);
  CHECK(sources == 0);
}

TEST_CASE("a share that should lie between two ends misses beyond either") {
  GoalFigure figure{"inside", 0.8, 0.75, 0.75, 0.90, true};
  CHECK(figure.meetsMust());
  figure.reached = 0.95;
  CHECK_FALSE(figure.meetsMust());
  figure.reached = 0.70;
  CHECK_FALSE(figure.meetsMust());
}
