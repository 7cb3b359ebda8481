#include "cost_model/partition/LayerTable.h"

#include <cassert>

namespace shardwright::cost {

LayerTable::LayerTable(const Program &program, const Plan &plan) {
  for (const Stage &stage : plan.stages)
    add(program, plan, stage);
}

LayerTable::LayerTable(const Program &program, const Plan &plan,
                       int64_t stage) {
  for (int64_t index : stagesOfRank(plan, stage))
    add(program, plan, plan.stages[index]);
}

LayerTable::LayerTable(
    const Program &program, const std::vector<Recompute> &policies,
    const std::function<LayerFacts(int kind, Recompute)> &factsOf) {
  for (size_t i = 0; i < program.kinds.size(); ++i) {
    const Kind &kind = program.kinds[i];
    for (Recompute policy : policies)
      if (policy == Recompute::None || isLayer(kind))
        entries.push_back(
            {kind.name, policy, factsOf(static_cast<int>(i), policy)});
  }
}

void LayerTable::add(const Program &program, const Plan &plan,
                     const Stage &stage) {
  for (const StageRun &run : stage.runs) {
    bool known = false;
    for (const Entry &entry : entries)
      known =
          known || (entry.kind == run.kind && entry.policy == run.recompute);
    if (known)
      continue;
    int index = kindIndex(program, run.kind);
    assert(index >= 0 && "a legal plan runs kinds of its program");
    const Kind &kind = program.kinds[index];
    entries.push_back({run.kind, run.recompute,
                       layerFacts(plan, kind, kind.variant(run.recompute))});
  }
}

const LayerFacts &LayerTable::of(const StageRun &run) const {
  for (const Entry &entry : entries)
    if (entry.kind == run.kind && entry.policy == run.recompute)
      return entry.facts;
  assert(false && "the table was made of the stage that is asked for");
  return entries.front().facts;
}

} // namespace shardwright::cost
