//===- ToyEstimator.h - A small cost with known answers ---------*- C++ -*-===//
//
// Times and memory are short integer formulas, so that a test can be sure of
// them, and small numbers, so that plans often tie.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYESTIMATOR_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYESTIMATOR_H

#include "cost_model/search/Search.h"

#include <algorithm>

namespace shardwright::cost {

/// Coefficients of the toy; all that a test draws at random.
struct ToyModel {
  int64_t layers = 4, heads = 4, globalBatch = 8;
  int64_t layerTime = 12;      ///< of one sequence on one rank
  int64_t headTime = 6;        ///< the same, of the head
  int64_t shardTime = 1;       ///< per layer and doubling of tp
  int64_t dataTime = 2;        ///< per data rank beyond the first
  int64_t stateBytes = 16;     ///< of a layer on one rank
  int64_t savedBytes = 4;      ///< of a layer and sequence, nothing recomputed
  double tightness = 1;        ///< of the bounds, 0..1
};

class ToyEstimator : public Estimator {
public:
  explicit ToyEstimator(const ToyModel &model) : model(model) {
    for (const char *kind : {"embed", "dense", "head"})
      program.kinds.push_back({kind, {}, {}});
    program.layers = model.layers;
    program.stack = {{0, 1}, {1, model.layers}, {2, 1}};
    base.globalBatch = model.globalBatch;
  }

  Plan plan(const Candidate &candidate) const override {
    return planAt(program, base, candidate);
  }

  std::vector<Violation> check(const Candidate &c, Depth depth) const override {
    std::vector<Violation> violations;
    auto rule = [&](bool holds, const char *name) {
      if (holds)
        return;
      Violation violation;
      violation.rule = name;
      violations.push_back(violation);
    };
    rule(model.heads % c.tp == 0, "heads");
    rule(c.pp <= model.layers, "layers");
    rule(model.globalBatch % (c.dp * c.microBatch) == 0, "batch");
    rule(depth < Depth::Batch || !c.sp || c.tp != 2, "sp_of_two");
    return violations;
  }

  std::optional<Candidate> settle(const Candidate &c,
                                  const FullRule &rule) const override {
    const std::vector<int64_t> counts = layersPerStage(c, model.layers);
    Candidate point = c;
    point.full.clear();
    if (c.recompute != Recompute::Full)
      return memory(point) < rule.limit ? std::optional(point) : std::nullopt;
    point.full.assign(counts.size(), 0);
    for (size_t stage = 0; stage < counts.size(); ++stage) {
      int64_t &full = point.full[stage];
      while (full <= counts[stage] &&
             !(rule.allows(full, counts[stage]) &&
               stageBytes(point, static_cast<int64_t>(stage), counts[stage]) <
                   rule.limit.count()))
        ++full;
      if (full > counts[stage])
        return std::nullopt;
    }
    return point;
  }

  Bytes memory(const Candidate &c) const override {
    std::vector<int64_t> counts = layersPerStage(c, model.layers);
    int64_t most = 0;
    for (int64_t stage = 0; stage < c.pp; ++stage)
      most = std::max(most, stageBytes(c, stage, counts[stage]));
    return Bytes(most);
  }

  Estimate estimate(const Candidate &c) const override {
    std::vector<int64_t> counts = layersPerStage(c, model.layers);
    const int64_t microbatches = model.globalBatch / (c.dp * c.microBatch);
    int64_t slowest = 0, all = 0;
    for (int64_t stage = 0; stage < c.pp; ++stage) {
      int64_t time = stageTime(c, stage, counts[stage]);
      slowest = std::max(slowest, time);
      all += time;
    }
    Estimate estimate;
    estimate.stepTime = Seconds(static_cast<double>(
        slowest * (microbatches - 1) + all + dataTime(c)));
    return estimate;
  }

  Seconds lowerBound(const Candidate &c, Depth depth, const FullRule &rule,
                     Seconds) const override {
    const double ranks = static_cast<double>(c.dp * c.tp * c.pp);
    double time = static_cast<double>(
                      (model.layers * model.layerTime + model.headTime) *
                      model.globalBatch) /
                  ranks;
    if (depth == Depth::Complete)
      if (const std::optional<Candidate> point =
              c.full.empty() ? settle(c, rule) : c)
        time = estimate(*point).stepTime.count() -
               static_cast<double>(dataTime(*point));
    return Seconds(model.tightness * time);
  }

  std::unique_ptr<Estimator> another() const override {
    return std::make_unique<ToyEstimator>(model);
  }

  bool mayFit(const Candidate &c, Depth depth, Bytes limit) const override {
    // State alone, of the stage with at least the mean of the layers.
    int64_t layers = ceilDiv(model.layers, c.pp);
    int64_t state = depth >= Depth::State && c.zero == 0
                        ? layers * model.stateBytes / c.tp
                        : layers * (model.stateBytes / 4) / c.tp;
    return model.tightness * static_cast<double>(state) <
           static_cast<double>(limit.count());
  }

private:
  int64_t fullLayers(const Candidate &c, int64_t stage, int64_t count) const {
    if (c.recompute != Recompute::Full)
      return 0;
    return c.full.empty() ? count : c.full[static_cast<size_t>(stage)];
  }

  int64_t stageTime(const Candidate &c, int64_t stage, int64_t count) const {
    int64_t doublings = 0;
    while ((int64_t(1) << doublings) < c.tp)
      ++doublings;
    int64_t layer = ceilDiv(model.layerTime * c.microBatch, c.tp) +
                    doublings * model.shardTime * (c.sp ? 1 : 2);
    int64_t time = count * layer +
                   fullLayers(c, stage, count) * ceilDiv(layer, 3);
    if (stage + 1 == c.pp)
      time += ceilDiv(model.headTime * c.microBatch, c.tp);
    return time;
  }

  int64_t dataTime(const Candidate &c) const {
    return model.dataTime * (c.dp - 1) + (c.zero == 1 ? 1 : 0);
  }

  int64_t stageBytes(const Candidate &c, int64_t stage, int64_t count) const {
    const int64_t microbatches = model.globalBatch / (c.dp * c.microBatch);
    int64_t slots = c.schedule == ScheduleKind::GPipe
                        ? microbatches
                        : std::min(microbatches, c.pp - stage);
    int64_t state = count * model.stateBytes / c.tp;
    if (c.zero == 1)
      state = ceilDiv(state, 4) + ceilDiv(3 * state, 4 * c.dp);
    int64_t saved = (count - fullLayers(c, stage, count)) * model.savedBytes;
    return state + slots * c.microBatch * (saved + count) / (c.sp ? c.tp : 1);
  }

  ToyModel model;
  Program program;
  Plan base;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYESTIMATOR_H
