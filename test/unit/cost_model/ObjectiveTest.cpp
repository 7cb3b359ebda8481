// Other objectives than time, several questions at once and trade-offs of two:
// the same plans as loops over every plan find.
#include "ToySpace.h"

#include "cost_model/search/Objective.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

namespace {

struct Space {
  std::vector<SizedQuestion> questions;
  std::vector<ChosenPlan> all; ///< that fit
  /// Of those that differ in nothing but recomputation the fastest.
  std::vector<ChosenPlan> fastest;
  size_t legal = 0;
};

/// One to three sizes of job and batch of one toy model.
Space draw(std::mt19937 &random) {
  const ToyModel model = drawModel(random);
  const int64_t limit = 1 + static_cast<int64_t>(random() % 150);
  Space space;
  const size_t count = 1 + random() % 3;
  for (size_t i = 0; i < count; ++i) {
    ToyModel own = model;
    own.globalBatch += static_cast<int64_t>(i % 2);
    const int64_t gpus = 1 + static_cast<int64_t>(random() % 8);
    SizedQuestion sized;
    sized.estimator = [own] { return std::make_unique<ToyEstimator>(own); };
    sized.options = question(own, gpus, limit, 1);
    // Powers of two: products do not round, so that equal values are ties.
    sized.timeScale = static_cast<double>(1 << random() % 3);
    sized.goodputScale = static_cast<double>(1 << random() % 3);
    sized.moneyScale = static_cast<double>(1 << random() % 3);
    const ToyEstimator toy(own);
    for (const Candidate &leaf : everyLeaf(toy, own, gpus)) {
      ++space.legal;
      const size_t before = space.all.size();
      for (const Candidate &candidate : everyPoint(leaf, own)) {
        RankedPlan ranked;
        ranked.candidate = candidate;
        ranked.memory = toy.memory(candidate);
        if (ranked.memory.count() >= limit)
          continue;
        ranked.plan = toy.plan(candidate);
        ranked.text = canonicalText(ranked.plan);
        ranked.estimate = toy.estimate(candidate);
        space.all.push_back({ranked, i});
      }
      const auto own = space.all.begin() + static_cast<ptrdiff_t>(before);
      const auto best = std::min_element(
          own, space.all.end(), [](const auto &a, const auto &b) {
            return a.ranked.before(b.ranked);
          });
      if (best != space.all.end())
        space.fastest.push_back(*best);
    }
    space.questions.push_back(std::move(sized));
  }
  return space;
}

double valueOf(const Space &space, const ChosenPlan &plan,
               Objective objective) {
  return plan.value(objective, space.questions[plan.question]);
}

void sortBy(std::vector<ChosenPlan> &plans, const Space &space,
            std::vector<Objective> keys) {
  keys.push_back(Objective::Memory);
  std::sort(plans.begin(), plans.end(),
            [&](const ChosenPlan &a, const ChosenPlan &b) {
              for (Objective key : keys)
                if (valueOf(space, a, key) != valueOf(space, b, key))
                  return valueOf(space, a, key) < valueOf(space, b, key);
              return a.ranked.text < b.ranked.text;
            });
}

} // namespace

TEST_CASE("the best by any objective is what brute force finds") {
  std::mt19937 random(5);
  int several = 0, none = 0;
  for (int round = 0; round < 150; ++round) {
    Space space = draw(random);
    const int64_t top = 1 + static_cast<int64_t>(random() % 4);
    for (SizedQuestion &question : space.questions)
      question.options.top = top;
    CAPTURE(round, top, space.questions.size());
    for (Objective objective : objectives) {
      CAPTURE(name(objective));
      std::vector<ChosenPlan> expected =
          objective == Objective::Memory ? space.all : space.fastest;
      sortBy(expected, space,
             objective == Objective::Memory
                 ? std::vector<Objective>{Objective::Memory, Objective::Time}
                 : std::vector<Objective>{objective});
      const Choice choice = choose(space.questions, objective);
      const size_t wanted = objective == Objective::Memory
                                ? 1
                                : static_cast<size_t>(top);
      REQUIRE(choice.plans.size() == std::min(wanted, expected.size()));
      for (size_t i = 0; i < choice.plans.size(); ++i) {
        REQUIRE(choice.plans[i].ranked.memory == expected[i].ranked.memory);
        REQUIRE(valueOf(space, choice.plans[i], objective) ==
                valueOf(space, expected[i], objective));
        REQUIRE(choice.plans[i].ranked.text == expected[i].ranked.text);
      }
      const SearchCounters &counters = choice.counters;
      REQUIRE(counters.considered == static_cast<int64_t>(space.legal));
      REQUIRE(counters.considered ==
              counters.pruned + counters.unfit + counters.evaluated);
    }
    several += space.questions.size() > 1 ? 1 : 0;
    none += space.all.empty() ? 1 : 0;
  }
  CHECK(several > 60);
  CHECK(none > 5);
}

TEST_CASE("the front is every plan that no other beats in both") {
  std::mt19937 random(6);
  size_t longest = 0;
  for (int round = 0; round < 150; ++round) {
    const Space space = draw(random);
    CAPTURE(round, space.questions.size());
    for (Objective first : objectives)
      for (Objective second : objectives) {
        if (first == second)
          continue;
        CAPTURE(name(first), name(second));
        std::vector<std::pair<double, double>> pairs, expected;
        for (const ChosenPlan &plan : space.all)
          pairs.emplace_back(valueOf(space, plan, first),
                             valueOf(space, plan, second));
        // None before it is better in the second, in the order of the first.
        std::sort(pairs.begin(), pairs.end());
        for (const auto &pair : pairs)
          if (expected.empty() || pair.second < expected.back().second)
            expected.push_back(pair);
        const Front front = paretoFront(space.questions, first, second);
        CHECK(front.proven);
        REQUIRE(front.plans.size() == expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          REQUIRE(valueOf(space, front.plans[i], first) == expected[i].first);
          REQUIRE(valueOf(space, front.plans[i], second) ==
                  expected[i].second);
        }
        if (!expected.empty())
          CHECK(front.considered == static_cast<int64_t>(space.legal));
        longest = std::max(longest, expected.size());
      }
  }
  CHECK(longest >= 5);
}

TEST_CASE("what is forbidden is in no plan, and all else is") {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const ToyModel model = drawModel(random);
    const ToyEstimator toy(model);
    SearchOptions options = question(model, 8, 1000, 1000000);
    const Field fields[] = {Field::Tp, Field::Dp, Field::MicroBatch,
                            Field::Zero, Field::FirstLayers};
    const Field field = fields[random() % 5];
    const auto value = static_cast<int64_t>(random() % 4);
    options.ranges[static_cast<size_t>(field)].without = {value};
    const auto of = [&](const Candidate &c) {
      switch (field) {
      case Field::Tp: return c.tp;
      case Field::Dp: return c.dp;
      case Field::MicroBatch: return c.microBatch;
      case Field::Zero: return static_cast<int64_t>(c.zero);
      default: return c.firstLayers;
      }
    };
    int64_t allowed = 0;
    for (const Candidate &c : everyLeaf(toy, model, 8))
      allowed += of(c) != value ? 1 : 0;
    const SearchResult result = search(toy, options);
    REQUIRE(result.counters.considered == allowed);
    for (const RankedPlan &plan : result.plans)
      REQUIRE(of(plan.candidate) != value);
  }
}

TEST_CASE("a front that is stopped says so") {
  ToyModel model;
  model.layers = 7;
  model.globalBatch = 12;
  SizedQuestion sized;
  sized.estimator = [model] { return std::make_unique<ToyEstimator>(model); };
  sized.options = question(model, 12, 1000, 1);
  int left = 3;
  sized.options.stop = [&] { return left-- <= 0; };
  CHECK_FALSE(
      paretoFront({sized}, Objective::Time, Objective::Memory).proven);
}

TEST_CASE("what was not looked at is counted and bounded in every size") {
  ToyModel model;
  model.layers = 7;
  model.globalBatch = 12;
  model.tightness = 0.5;
  std::vector<SizedQuestion> sizes;
  for (int64_t gpus : {4, 8, 12}) {
    SizedQuestion sized;
    sized.estimator = [model] { return std::make_unique<ToyEstimator>(model); };
    sized.options = question(model, gpus, 1000, 1);
    sizes.push_back(sized);
  }
  const Choice whole = choose(sizes, Objective::Time);
  REQUIRE(whole.counters.proven);
  int stopped = 0;
  for (int rounds = 0; rounds < 12; ++rounds) {
    int left = rounds;
    for (SizedQuestion &sized : sizes)
      sized.options.stop = [&] { return left-- <= 0; };
    const Choice part = choose(sizes, Objective::Time);
    const SearchCounters &counters = part.counters;
    CHECK(counters.considered <= whole.counters.considered);
    if (counters.uncounted == 0)
      CHECK(counters.considered == whole.counters.considered);
    CHECK(counters.considered == counters.pruned + counters.unfit +
                                     counters.evaluated + counters.open);
    if (counters.proven)
      continue;
    ++stopped;
    CHECK(part.openValue <= whole.plans[0].value(
                                Objective::Time, sizes[whole.plans[0].question]));
  }
  CHECK(stopped > 3);
  // The least memory, too, has a plan to show when it is stopped.
  int left = 2;
  for (SizedQuestion &sized : sizes)
    sized.options.stop = [&] { return left-- <= 0; };
  const Choice small = choose(sizes, Objective::Memory);
  CHECK_FALSE(small.counters.proven);
  REQUIRE(small.plans.size() == 1);
  CHECK(small.plans[0].ranked.memory < sizes[0].options.memoryLimit);
}
