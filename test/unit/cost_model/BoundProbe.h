//===- BoundProbe.h - Random plans against their bounds ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_BOUNDPROBE_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_BOUNDPROBE_H

#include "cost_model/search/Family.h"
#include "cost_model/search/ProgramEstimator.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <random>
#include <string>

namespace shardwright::cost {

/// Plans that a test draws: `usual`, or as many as the environment asks for
/// (SHARDWRIGHT_RANDOM_PLANS=100000000 runs for hours).
inline int64_t randomPlans(int64_t usual) {
  const char *asked = std::getenv("SHARDWRIGHT_RANDOM_PLANS");
  return asked ? std::atoll(asked) : usual;
}

/// Draws complete plans of a question's family and holds the bounds of all
/// their parts against price and memory: every draw is five partial plans.
class BoundProbe {
public:
  BoundProbe(const Program &program, const Hardware &hardware,
             const Profile &profile, const Plan &base,
             const SearchOptions &options)
      : program(program), hardware(hardware), profile(profile),
        estimator(program, hardware, profile, base, Framework::Native, options),
        options(options),
        family(this->options) {
    for (const Candidate &mesh : family.meshes())
      if (estimator.check(mesh, Depth::Mesh).empty())
        for (const Candidate &batch : family.batches(mesh))
          if (estimator.check(batch, Depth::Batch).empty())
            batches.push_back(batch);
  }
  bool empty() const { return batches.empty(); }

  /// Several plans under one drawn batch. Gives how many partial plans it saw.
  int64_t draw(std::mt19937 &random) {
    const auto any = [&](const auto &list) { return list[random() % list.size()]; };
    const Candidate batch = any(batches);
    int64_t seen = 0;
    for (int i = 0; i < 4; ++i) { // of few splits none are left unseen
      const Part state = any(family.children({batch, Depth::Batch}));
      const std::vector<Part> splits =
          family.children(any(family.children(state)));
      for (int k = 0; k < 3; ++k, seen += 5)
        probe(any(splits).candidate, random);
    }
    return seen;
  }

private:
  /// Any choice of layers, not only the least that fit.
  Candidate pointOf(const Candidate &leaf, std::mt19937 &random) const {
    Candidate point = leaf;
    if (leaf.recompute != Recompute::Full || random() % 4 == 0)
      return point;
    for (int64_t count : layersPerStage(leaf, options.layers))
      point.full.push_back(
          static_cast<int64_t>(random() % static_cast<uint64_t>(count + 1)));
    return point;
  }

  void probe(const Candidate &leaf, std::mt19937 &random) {
    const Candidate c = pointOf(leaf, random);
    const Seconds time = estimator.time(c);
    const Bytes memory = estimator.memory(c);
    FullRule rule;
    rule.limit = memory + Bytes(1);
    CAPTURE(canonicalText(estimator.plan(c)), time.count(), memory.count());
    if (probes % 8 == 0) { // what the search remembers changes nothing
      const Estimate fresh =
          estimate(program, hardware, profile, estimator.plan(c));
      REQUIRE(fresh.stepTime == time);
      Bytes most(0);
      for (const StageEstimate &stage : fresh.stages)
        most = std::max(most, stage.total());
      REQUIRE(most.count() == memory.count());
    }
    for (Depth depth : {Depth::Mesh, Depth::Batch, Depth::State, Depth::Policy,
                        Depth::Complete}) {
      CAPTURE(static_cast<int>(depth));
      const double bound = estimator.lowerBound(leaf, depth, rule).count();
      REQUIRE(bound > 0);
      REQUIRE(bound <= time.count() * (1 + 1e-9));
      tightness += bound / time.count();
      REQUIRE(estimator.mayFit(c, depth, memory + Bytes(1)));
    }
    for (Rough how : roughs) {
      CAPTURE(static_cast<int>(how));
      const double rough = estimator.roughBound(c, how).count();
      REQUIRE(rough > 0);
      REQUIRE(rough <= time.count() * (1 + 1e-9));
      roughness += rough / time.count();
    }
    ++probes;
    if (c.pp > 1)
      REQUIRE(estimator
                  .within(leaf, {{leaf.firstLayers, leaf.lastLayers, 0}}, rule,
                          (1 + 1e-9) * time)
                  .size() == 1);
    if (c.chunks > 1)
      return;
    // No step gets faster by recomputing more than the memory asks for; but where
    // transfers wait for ranks, one that comes late may spare another a wait.
    const std::optional<Candidate> point = estimator.settle(leaf, rule);
    REQUIRE(point);
    REQUIRE(estimator.memory(*point) <= memory);
    const bool isPlain = c.schedule == ScheduleKind::OneFOneB ||
                         c.schedule == ScheduleKind::GPipe;
    const Seconds least = estimator.time(*point);
    CAPTURE(canonicalText(estimator.plan(*point)), least.count());
    REQUIRE(least <= (1 + (isPlain ? 1e-9 : 1e-3)) * time);
  }

public:
  /// Sum of bound over time: a bound of nothing would be admissible, too.
  double tightness = 0;
  double roughness = 0; ///< the same of the bound under which a root waits
  int64_t probes = 0;

private:
  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  ProgramEstimator estimator;
  SearchOptions options;
  Family family;
  std::vector<Candidate> batches;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_BOUNDPROBE_H
