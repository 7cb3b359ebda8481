//===- LayerTable.h - Facts of the layers of a plan's stages ----*- C++ -*-===//
//
// Shared by Layout and Ledger: every kind is planned once per question.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_LAYERTABLE_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_LAYERTABLE_H

#include "cost_model/partition/Layout.h"

#include <functional>

namespace shardwright::cost {

/// LayerFacts of every (kind, policy) that the stages of a plan run.
class LayerTable {
public:
  /// Of all stages, or of one rank of the pipeline.
  LayerTable(const Program &program, const Plan &plan);
  LayerTable(const Program &program, const Plan &plan, int64_t stage);
  /// Of every kind under None and its layers under `policies`, as `factsOf`
  /// knows them already.
  LayerTable(const Program &program, const std::vector<Recompute> &policies,
             const std::function<LayerFacts(int kind, Recompute)> &factsOf);
  const LayerFacts &of(const StageRun &run) const;

private:
  void add(const Program &program, const Plan &plan, const Stage &stage);

  struct Entry {
    std::string kind;
    Recompute policy;
    LayerFacts facts;
  };
  std::vector<Entry> entries;
};

/// Elements of the largest block of a rank: of a layer, or what it shares.
int64_t largestBlock(const Program &program, const Plan &plan,
                     const LayerTable &table, int64_t stage);
/// Master weights and moments of a rank, wherever they live.
Bytes optimizerStateBytes(const Program &program, const Plan &plan,
                          const LayerTable &table, int64_t stage);
/// Where values are saved for the backward pass.
enum class SavedIn {
  Slots, ///< of a static arena: MemoryParts
  Blocks ///< that are allocated as they are needed: what is held at once
};
/// `facts` of the plan's schedule may be null; they are made then.
MemoryParts memoryOf(const Program &program, const Plan &plan,
                     const LayerTable &table, int64_t stage,
                     const ScheduleFacts *facts = nullptr,
                     SavedIn where = SavedIn::Slots);
ScheduleFacts scheduleFacts(const Plan &plan);
ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           const LayerTable &table, int64_t stage);
/// Pipeline ranks that own the shared block of `stage` (1 if it has none).
int64_t sharedOwners(const Program &program, const Plan &plan, int64_t stage);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_LAYERTABLE_H
