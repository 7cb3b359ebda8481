#include "ToySpace.h"

#include <catch2/catch.hpp>

#include <random>

using namespace shardwright::cost;

namespace {

bool sameCandidates(const SearchResult &a, const SearchResult &b) {
  if (a.plans.size() != b.plans.size() || !(a.counters == b.counters))
    return false;
  for (size_t i = 0; i < a.plans.size(); ++i)
    if (a.plans[i].text != b.plans[i].text)
      return false;
  return true;
}

} // namespace

TEST_CASE("search equals brute force on random small spaces") {
  std::mt19937 random(20240601);
  int answers = 0, refusals = 0;
  for (int round = 0; round < 400; ++round) {
    ToyModel model = drawModel(random);
    int64_t gpus = 1 + static_cast<int64_t>(random() % 12);
    int64_t limit = 1 + static_cast<int64_t>(random() % 120);
    int64_t top = 1 + static_cast<int64_t>(random() % 5);
    ToyEstimator toy(model);
    CAPTURE(round, gpus, limit, top);

    std::vector<RankedPlan> expected;
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<Candidate> all = everyLeaf(toy, model, gpus);
    for (const Candidate &leaf : all) {
      // Of all choices that fit one is the fastest and recomputes least.
      std::optional<RankedPlan> best;
      for (const Candidate &candidate : everyPoint(leaf, model)) {
        RankedPlan ranked;
        ranked.candidate = candidate;
        ranked.memory = toy.memory(candidate);
        least = std::min(least, ranked.memory.count());
        if (ranked.memory.count() >= limit)
          continue;
        ranked.estimate = toy.estimate(candidate);
        if (best && best->estimate.stepTime <= ranked.estimate.stepTime) {
          REQUIRE(best->estimate.stepTime < ranked.estimate.stepTime);
          continue;
        }
        ranked.plan = toy.plan(candidate);
        ranked.text = canonicalText(ranked.plan);
        best = ranked;
      }
      if (best)
        expected.push_back(*best);
    }
    std::sort(expected.begin(), expected.end(),
              [](const auto &a, const auto &b) { return a.before(b); });

    SearchOptions options = question(model, gpus, limit, top);
    SearchResult result = search(toy, options);
    REQUIRE(result.counters.considered == static_cast<int64_t>(all.size()));
    REQUIRE(result.counters.considered == result.counters.pruned +
                                              result.counters.unfit +
                                              result.counters.evaluated);
    REQUIRE(result.plans.size() ==
            std::min<size_t>(expected.size(), static_cast<size_t>(top)));
    for (size_t i = 0; i < result.plans.size(); ++i) {
      REQUIRE(result.plans[i].text == expected[i].text);
      REQUIRE(result.plans[i].candidate == expected[i].candidate);
    }
    (result.plans.empty() ? refusals : answers) += 1;
    options.threads = 3;
    REQUIRE(sameCandidates(search(toy, options), result));
    options.threads = 1;

    // Distinct: the first of each group that shares all but recomputation and
    // split.
    auto group = [](Candidate candidate) {
      candidate.recompute = Recompute::None;
      candidate.full.clear();
      candidate.firstLayers = candidate.lastLayers = 0;
      return candidate;
    };
    std::vector<RankedPlan> firsts;
    for (const RankedPlan &plan : expected)
      if (std::none_of(firsts.begin(), firsts.end(), [&](const auto &other) {
            return group(other.candidate) == group(plan.candidate);
          }))
        firsts.push_back(plan);
    options.distinct = true;
    result = search(toy, options);
    REQUIRE(result.plans.size() ==
            std::min<size_t>(firsts.size(), static_cast<size_t>(top)));
    for (size_t i = 0; i < result.plans.size(); ++i)
      REQUIRE(result.plans[i].text == firsts[i].text);
    options.distinct = false;

    std::optional<RankedPlan> tiny = smallest(toy, options);
    REQUIRE(tiny.has_value() == !all.empty());
    if (tiny)
      REQUIRE(tiny->memory.count() == least);
  }
  // The draw must exercise both outcomes.
  CHECK(answers > 100);
  CHECK(refusals > 50);
}

TEST_CASE("plans of different candidates are different texts") {
  ToyModel model;
  model.layers = 5;
  ToyEstimator toy(model);
  std::vector<std::string> texts;
  for (const Candidate &leaf : everyLeaf(toy, model, 4))
    for (const Candidate &candidate : everyPoint(leaf, model))
      texts.push_back(canonicalText(toy.plan(candidate)));
  std::sort(texts.begin(), texts.end());
  CHECK(std::adjacent_find(texts.begin(), texts.end()) == texts.end());
}

TEST_CASE("a looser bound changes the work and not the answer") {
  ToyModel model;
  model.layers = 6;
  model.globalBatch = 16;
  SearchOptions options = question(model, 8, 60, 3);
  model.tightness = 1;
  SearchResult tight = search(ToyEstimator(model), options);
  model.tightness = 0;
  SearchResult loose = search(ToyEstimator(model), options);
  REQUIRE(tight.plans.size() == 3);
  for (size_t i = 0; i < tight.plans.size(); ++i)
    CHECK(tight.plans[i].text == loose.plans[i].text);
  CHECK(tight.counters.evaluated < loose.counters.evaluated);
  CHECK(tight.counters.considered == loose.counters.considered);
}

TEST_CASE("the same question has the same answer") {
  ToyModel model;
  ToyEstimator toy(model);
  SearchOptions options = question(model, 8, 100, 5);
  CHECK(sameCandidates(search(toy, options), search(toy, options)));
}

TEST_CASE("a search that is stopped says how far it may be from the best") {
  ToyModel model;
  model.layers = 7;
  model.globalBatch = 60;
  model.heads = 60;
  model.tightness = 0.5;
  ToyEstimator toy(model);
  SearchOptions options = question(model, 60, 1000, 1);
  const SearchResult whole = search(toy, options);
  REQUIRE(whole.counters.proven);
  int stopped = 0, counting = 0, proven = 0;
  for (int asked = 0; asked < 1024; asked += 1 + asked / 16) {
    int left = asked;
    options.stop = [&] { return left-- <= 0; };
    const SearchResult part = search(toy, options);
    const SearchCounters &counters = part.counters;
    CHECK(counters.considered == counters.pruned + counters.unfit +
                                     counters.evaluated + counters.open);
    CHECK(counters.considered <= whole.counters.considered);
    if (counters.uncounted == 0)
      CHECK(counters.considered == whole.counters.considered);
    if (counters.proven) {
      CHECK(counters == whole.counters);
      ++proven;
      continue;
    }
    ++stopped;
    counting += counters.uncounted > 0;
    CHECK(part.openBound <= whole.plans[0].estimate.stepTime);
    // Whenever it is stopped but at once, it goes down to a plan.
    CHECK(part.plans.size() == (asked == 0 ? 0 : 1));
    for (const RankedPlan &plan : part.plans) {
      CHECK(plan.memory < options.memoryLimit);
      CHECK(plan.estimate.stepTime >= whole.plans[0].estimate.stepTime);
    }
  }
  CHECK(counting > 3);
  CHECK(stopped > counting);
  CHECK(proven > 0);
}

TEST_CASE("a stopped search finds a plan where few fit") {
  std::mt19937 random(11);
  int stopped = 0, found = 0;
  for (int draw = 0; draw < 200; ++draw) {
    const ToyModel model = drawModel(random);
    const int64_t gpus = 1 + static_cast<int64_t>(random() % 16);
    ToyEstimator toy(model);
    SearchOptions options = question(model, gpus, 0, 1);
    const std::optional<RankedPlan> least = smallest(toy, options);
    if (!least)
      continue;
    options.memoryLimit = 2 * least->memory + Bytes(1);
    int left = 1 + static_cast<int>(random() % 8);
    options.stop = [&] { return left-- <= 0; };
    const SearchResult part = search(toy, options);
    if (part.counters.proven)
      continue;
    ++stopped;
    found += part.plans.empty() ? 0 : 1;
  }
  CHECK(stopped > 50);
  CHECK(found > 0.97 * stopped);
}

TEST_CASE("a longer search shows no worse plan than where it began") {
  std::mt19937 random(12);
  int compared = 0;
  for (int draw = 0; draw < 60; ++draw) {
    const ToyModel model = drawModel(random);
    const int64_t gpus = 4 + static_cast<int64_t>(random() % 13);
    ToyEstimator toy(model);
    SearchOptions options = question(model, gpus, 1000, 1);
    std::optional<Seconds> first;
    for (int asked = 1; asked < 60; ++asked) {
      int left = asked;
      options.stop = [&] { return left-- <= 0; };
      const SearchResult part = search(toy, options);
      if (part.counters.proven)
        break;
      // Before, not all of it was in the queue.
      if (part.counters.uncounted > 0 || part.plans.empty())
        continue;
      const Seconds time = part.plans.front().estimate.stepTime;
      if (first) {
        CHECK(time <= *first);
        ++compared;
      } else {
        first = time;
      }
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("fixed and limited fields hold in every plan") {
  ToyModel model;
  model.layers = 6;
  ToyEstimator toy(model);
  SearchOptions options = question(model, 8, 1000, 50);
  options.ranges[static_cast<int>(Field::Tp)] = {2, 2};
  options.ranges[static_cast<int>(Field::Pp)].most = 2;
  options.ranges[static_cast<int>(Field::MicroBatch)].most = 2;
  options.ranges[static_cast<int>(Field::Zero)] = {1, 1};
  SearchResult result = search(toy, options);
  REQUIRE(!result.plans.empty());
  for (const RankedPlan &ranked : result.plans) {
    CHECK(ranked.plan.tp == 2);
    CHECK(ranked.plan.pp <= 2);
    CHECK(ranked.plan.microBatch <= 2);
    CHECK(ranked.plan.zero == 1);
  }
}

TEST_CASE("every mesh is listed or rejected for a reason") {
  ToyModel model;
  model.heads = 4;
  model.layers = 4;
  model.globalBatch = 8;
  ToyEstimator toy(model);
  SearchResult result = search(toy, question(model, 8, 30, 1));
  REQUIRE(result.plans.size() == 1);
  // Meshes of 8 = 2^3: (tp, pp) with tp * pp | 8 are 4 + 3 + 2 + 1.
  CHECK(result.rejected.size() == 9);
  for (const RejectedFamily &family : result.rejected) {
    CAPTURE(family.dp, family.tp, family.pp, name(family.reject));
    CHECK(family.dp * family.tp * family.pp == 8);
    if (family.tp == 8 || family.pp == 8) {
      CHECK(family.reject == Reject::Rule);
      REQUIRE(family.violations.size() == 1);
      CHECK(family.violations[0].rule == (family.tp == 8 ? "heads" : "layers"));
      CHECK(family.plans == 0);
    } else {
      CHECK(family.reject != Reject::Rule);
      CHECK(family.plans > 0);
    }
    if (family.reject == Reject::Slower)
      CHECK(family.bound >= result.plans[0].estimate.stepTime);
  }
}

TEST_CASE("layers are split with free ends and even interiors") {
  Candidate candidate;
  candidate.pp = 4;
  candidate.firstLayers = 1;
  candidate.lastLayers = 2;
  CHECK(layersPerStage(candidate, 10) == std::vector<int64_t>{1, 4, 3, 2});
  candidate.firstLayers = candidate.lastLayers = 0; // even
  CHECK(layersPerStage(candidate, 10) == std::vector<int64_t>{2, 3, 3, 2});
  CHECK(layersPerStage(candidate, 11) == std::vector<int64_t>{3, 3, 3, 2});
  candidate.pp = 1;
  CHECK(layersPerStage(candidate, 7) == std::vector<int64_t>{7});
}

TEST_CASE("a split names the layers of its largest stage") {
  // 5 layers over 3 stages: first and last from 1, the middle at least 1.
  std::vector<Split> all = splits(5, 3, Ranges());
  REQUIRE(all.size() == 6);
  for (const Split &split : all) {
    Candidate candidate;
    candidate.pp = 3;
    candidate.firstLayers = split.first;
    candidate.lastLayers = split.last;
    std::vector<int64_t> counts = layersPerStage(candidate, 5);
    CHECK(*std::max_element(counts.begin(), counts.end()) == split.largest);
    CHECK(counts[1] >= 1);
  }
  CHECK(splits(3, 4, Ranges()).empty());
  CHECK(splits(4, 1, Ranges()).size() == 1);
  CHECK(splits(7, 2, Ranges()).size() == 6);
}

TEST_CASE("a stage recomputes its first layers and saves the others") {
  Program program;
  for (const char *kind : {"embed", "dense", "head"})
    program.kinds.push_back({kind, {}, {}});
  program.layers = 7;
  program.stack = {{0, 1}, {1, 7}, {2, 1}};
  std::vector<Stage> stages = stagesWith(program, {4, 3}, Recompute::Full, {3, 3});
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].runs == std::vector<StageRun>{
                              {"embed", 1, Recompute::None},
                              {"dense", 3, Recompute::Full},
                              {"dense", 1, Recompute::None}});
  CHECK(stages[1].runs == std::vector<StageRun>{
                              {"dense", 3, Recompute::Full},
                              {"head", 1, Recompute::None}});
}

TEST_CASE("divisors are complete and ascending") {
  CHECK(divisors(1) == std::vector<int64_t>{1});
  CHECK(divisors(36) == std::vector<int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36});
  CHECK(divisors(13) == std::vector<int64_t>{1, 13});
}
