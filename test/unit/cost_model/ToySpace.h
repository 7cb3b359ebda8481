//===- ToySpace.h - Every plan of a toy, without the search -----*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYSPACE_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYSPACE_H

#include "ToyEstimator.h"

#include <random>

namespace shardwright::cost {

/// Every legal candidate but for the layers that recompute, by loops that share
/// nothing with the search.
inline std::vector<Candidate> everyLeaf(const ToyEstimator &toy,
                                      const ToyModel &model, int64_t gpus) {
  std::vector<Candidate> all;
  auto layouts = [&](Candidate c) {
    if (c.pp == 1) {
      c.firstLayers = c.lastLayers = model.layers;
      all.push_back(c);
      return;
    }
    for (int64_t first = 1; first < model.layers; ++first)
      for (int64_t last = 1; last < model.layers; ++last) {
        int64_t left = model.layers - first - last;
        if (c.pp == 2 ? left != 0 : left < c.pp - 2)
          continue;
        c.firstLayers = first;
        c.lastLayers = last;
        all.push_back(c);
      }
  };
  for (int64_t dp = 1; dp <= gpus; ++dp)
    for (int64_t tp = 1; tp <= gpus; ++tp)
      for (int64_t pp = 1; pp <= gpus; ++pp)
        for (int64_t micro = 1; micro <= model.globalBatch; ++micro)
          for (int sp = 0; sp < 2; ++sp)
            for (int zero = 0; zero < 2; ++zero)
              for (ScheduleKind schedule :
                   {ScheduleKind::GPipe, ScheduleKind::OneFOneB}) {
                if (dp * tp * pp != gpus || (sp == 1 && tp == 1) ||
                    (zero == 1 && dp == 1) ||
                    (schedule == ScheduleKind::GPipe && pp == 1))
                  continue;
                Candidate c;
                c.dp = dp;
                c.tp = tp;
                c.pp = pp;
                c.sp = sp == 1;
                c.microBatch = micro;
                c.zero = zero;
                c.schedule = schedule;
                if (!toy.check(c, Depth::Batch).empty())
                  continue;
                c.recompute = Recompute::Full; // of none or more
                layouts(c);
              }
  return all;
}

/// Every choice of layers of each stage of a leaf.
inline std::vector<Candidate> everyPoint(const Candidate &leaf,
                                         const ToyModel &model) {
  const std::vector<int64_t> counts = layersPerStage(leaf, model.layers);
  std::vector<Candidate> points;
  Candidate point = leaf;
  point.full.assign(counts.size(), 0);
  for (size_t stage = 0; stage < counts.size();) {
    points.push_back(point);
    // The next in the order of numbers whose digits they are.
    for (stage = 0; stage < counts.size() && point.full[stage] == counts[stage];
         ++stage)
      point.full[stage] = 0;
    if (stage < counts.size())
      ++point.full[stage];
  }
  return points;
}

inline ToyModel drawModel(std::mt19937 &random) {
  auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  };
  ToyModel model;
  model.layers = draw(1, 7);
  model.heads = draw(1, 8);
  model.globalBatch = draw(1, 12);
  model.layerTime = draw(1, 30);
  model.headTime = draw(0, 20);
  model.shardTime = draw(0, 4);
  model.dataTime = draw(0, 6);
  model.stateBytes = draw(1, 40);
  model.savedBytes = draw(0, 10);
  model.tightness = static_cast<double>(draw(0, 4)) / 4;
  return model;
}

inline SearchOptions question(const ToyModel &model, int64_t gpus, int64_t limit,
                       int64_t top) {
  SearchOptions options;
  options.gpus = gpus;
  options.globalBatch = model.globalBatch;
  options.layers = model.layers;
  options.policies = {Recompute::None, Recompute::Full};
  options.memoryLimit = Bytes(limit);
  options.top = top;
  return options;
}

} // namespace shardwright::cost

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_TOYSPACE_H
