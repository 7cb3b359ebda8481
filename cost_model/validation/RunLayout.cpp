//===- RunLayout.cpp - Layers of a published run over its stages ----------===//
#include "cost_model/validation/RunLayout.h"

#include <algorithm>

namespace shardwright::cost {
namespace {

void addLayer(Stage &stage, const Kind &kind, Recompute policy) {
  if (stage.runs.empty() || stage.runs.back().kind != kind.name)
    stage.runs.push_back(
        {kind.name, 0, isLayer(kind) ? policy : Recompute::None});
  ++stage.runs.back().count;
}

} // namespace

std::vector<Stage> balancedStages(const Program &program, int64_t count,
                                  Recompute policy) {
  struct Layer {
    const Kind *kind;
    double flops;
  };
  std::vector<Layer> layers;
  double most = 0, all = 0;
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
    double flops = 0;
    for (const Op &op : kind.variants.front().forward.ops)
      flops += static_cast<double>(flopsOf(op.space).count());
    layers.insert(layers.end(), static_cast<size_t>(run.count), {&kind, flops});
    most = std::max(most, flops);
    all += flops * static_cast<double>(run.count);
  }
  const size_t stages = static_cast<size_t>(count);
  // Where stages end that hold at most `cap`, but one layer at least.
  const auto fill = [&](double cap) {
    std::vector<size_t> ends;
    size_t next = 0;
    for (size_t stage = 0; stage < stages; ++stage) {
      double held = 0;
      const size_t first = next;
      while (next < layers.size() &&
             (next == first ||
              (held + layers[next].flops <= cap * (1 + 1e-9) &&
               layers.size() - next >= stages - stage)))
        held += layers[next++].flops;
      ends.push_back(next);
    }
    return ends;
  };
  double low = std::max(most, all / static_cast<double>(count)), high = all;
  for (int step = 0; step < 50; ++step) {
    const double cap = (low + high) / 2;
    (fill(cap).back() == layers.size() ? high : low) = cap;
  }
  std::vector<Stage> result;
  size_t next = 0;
  for (size_t end : fill(high)) {
    Stage stage;
    for (; next < end; ++next)
      addLayer(stage, *layers[next].kind, policy);
    result.push_back(std::move(stage));
  }
  return result;
}

std::vector<Stage> stagesByProducts(const Program &program, int64_t count,
                                    Recompute policy) {
  const auto weights = [](const Kind &kind) {
    double sum = 0;
    if (takesStream(kind))
      for (const Parameter &parameter : kind.parameters) {
        double elements = parameter.dims.size() > 1 ? 1 : 0;
        for (const Dim &dim : parameter.dims)
          elements *= static_cast<double>(dim.size);
        sum += elements;
      }
    return sum;
  };
  double total = 0;
  for (const Run &run : program.stack)
    total += static_cast<double>(run.count) * weights(program.kinds[run.kind]);
  std::vector<Stage> stages(static_cast<size_t>(count));
  size_t stage = 0;
  double placed = 0;
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[run.kind];
    for (int64_t layer = 0; layer < run.count; ++layer) {
      addLayer(stages[stage], kind, policy);
      placed += weights(kind);
      if (stage + 1 < stages.size() &&
          placed > total * static_cast<double>(stage + 1) /
                       static_cast<double>(count))
        ++stage;
    }
  }
  return stages;
}

std::vector<Stage> stagesByModules(const Program &program, int64_t count,
                                   Recompute policy) {
  std::vector<const Kind *> modules;
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
    modules.insert(modules.end(), static_cast<size_t>(run.count), &kind);
  }
  // The norm before the head is a module, and part of the head's kind here.
  const int64_t all = static_cast<int64_t>(modules.size()) + 1;
  std::vector<Stage> stages(static_cast<size_t>(count));
  size_t next = 0;
  int64_t end = 0;
  for (int64_t stage = 0; stage < count; ++stage) {
    end += all / count + (stage < all % count ? 1 : 0);
    while (next < modules.size() && static_cast<int64_t>(next) < end)
      addLayer(stages[static_cast<size_t>(stage)], *modules[next++], policy);
  }
  return stages;
}

/// Layers of the plan as the row's framework lays them out and recomputes them.
std::vector<Stage> runStages(const ValidationRow &row, const Program &program,
                            const Profile &profile, const Plan &plan) {
  Recompute policy =
      row.recompute == "full" ? Recompute::Full
      : row.recompute == "selective" && profile.redoneLabels.empty()
          ? Recompute::Selective
          : Recompute::None;
  const int64_t count = stageCount(plan);
  if (policy == Recompute::Selective && profile.selectiveLayerShare > 0)
    return evenStages(program, count, Recompute::Full,
                      static_cast<int64_t>(profile.selectiveLayerShare *
                                           static_cast<double>(program.layers) /
                                           static_cast<double>(count)));
  if (plan.chunks == 1 && profile.stages == StageLayout::Products)
    return stagesByProducts(program, count, policy);
  if (plan.chunks == 1 && profile.stages == StageLayout::Modules)
    return stagesByModules(program, count, policy);
  if (!row.layoutKnown && count > 1)
    return balancedStages(program, count, policy);
  return evenStages(program, count, policy);
}

} // namespace shardwright::cost
