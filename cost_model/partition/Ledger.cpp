#include "cost_model/partition/Ledger.h"
#include "cost_model/partition/BucketTransfers.h"
#include "cost_model/partition/LayerTable.h"

namespace shardwright::cost {

std::string_view name(Phase phase) {
  switch (phase) {
  case Phase::Forward: return "forward";
  case Phase::DataGrad: return "data_grad";
  case Phase::WeightGrad: return "weight_grad";
  case Phase::Reduce: return "reduce";
  case Phase::Update: return "update";
  }
  return "";
}

std::string axisName(const Plan &plan, const Axes &axes,
                     bool expert) {
  if (plan.ep > 1 || plan.etp > 1) {
    constexpr Degree dense[] = {Degree::Dp, Degree::Cp, Degree::Tp, Degree::Ep,
                                Degree::Edp, Degree::Etp};
    constexpr Degree experts[] = {Degree::Ep, Degree::Edp, Degree::Etp};
    if (expert)
      for (Degree degree : experts)
        if (axesOfDegree(plan, degree) == axes)
          return std::string(name(degree));
    for (Degree degree : dense)
      if (axesOfDegree(plan, degree) == axes)
        return std::string(name(degree));
  }
  std::string joined;
  for (Axis axis : axes)
    joined += (joined.empty() ? "" : "+") + plan.mesh[axis].name;
  return joined;
}

Bytes MemoryParts::total() const {
  return parameters + gradients + optimizer + saved + p2p + comm + workspace;
}

namespace {

class LedgerBuilder {
public:
  LedgerBuilder(const Program &program, const Plan &plan,
                const LayerTable &table, int64_t stage)
      : program(program), plan(plan), table(table), stage(stage) {}

  Ledger build() {
    addLayers();
    addBesideLayers();
    ledger.memory = memoryOf(program, plan, table, stage);
    return std::move(ledger);
  }
  std::map<LedgerKey, LedgerEntry> buildBesideLayers() {
    addBesideLayers();
    return std::move(ledger.collectives);
  }

private:
  void addBesideLayers() {
    addTransfers();
    const int64_t owners = sharedOwners(program, plan, stage);
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      addBlock(table.of(run).block, run.count, stageOwners(plan.schedule));
    });
    addBlock(sharedBlock(plan, program, table, stage), 1, owners);
    if (plan.ranks() > 1)
      add(Collective::AllReduce, "world", Phase::Update, 1, Bytes(16));
  }

  /// Books `calls` calls of `payload` bytes each.
  void add(Collective collective, std::string axis, Phase phase, int64_t calls,
           Bytes payload) {
    LedgerEntry &entry =
        ledger.collectives[{collective, std::move(axis), phase}];
    entry.calls = checkedAdd(entry.calls, calls);
    entry.payload += calls * payload;
  }

  void addLayers() {
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      const LayerFacts &facts = table.of(run);
      const int64_t times = checkedMul(
          run.count, chunkMicrobatches(plan.schedule, plan.microbatches()));
      for (const auto &[key, entry] : facts.collectives) {
        LedgerEntry &sum = ledger.collectives[key];
        sum.calls = checkedAdd(sum.calls, checkedMul(times, entry.calls));
        sum.payload += times * entry.payload;
      }
      auto addFlops = [&](Phase phase, Flops flops) {
        if (flops.count() > 0)
          ledger.flops[phase] += times * flops;
      };
      addFlops(Phase::Forward, facts.forward);
      addFlops(Phase::DataGrad, facts.dataGrad);
      addFlops(Phase::WeightGrad, facts.weightGrad);
    });
  }

  void addTransfers() {
    const int64_t times =
        chunkMicrobatches(plan.schedule, plan.microbatches());
    const Bytes stream = streamBytes(program, plan);
    const auto elsewhere = [&](ChunkPlace place) {
      return place.rank >= 0 && place.rank != stage;
    };
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
      const ChunkPlace place{stage, chunk};
      if (elsewhere(placeBehind(plan.schedule, plan.pp, plan.chunks, place))) {
        add(Collective::Send, "pp", Phase::Forward, times, stream);
        add(Collective::Recv, "pp", Phase::DataGrad, times, stream);
      }
      if (elsewhere(placeBefore(plan.schedule, plan.pp, plan.chunks, place))) {
        add(Collective::Recv, "pp", Phase::Forward, times, stream);
        add(Collective::Send, "pp", Phase::DataGrad, times, stream);
      }
    }
  }

  /// Reduction of the gradients of `layers` blocks alike and the gathering of
  /// their updated parameters.
  void addBlock(const ParameterBlock &block, int64_t layers, int64_t owners) {
    const int64_t gradWidth = byteWidth(plan.dtypes.grad);
    const int64_t paramWidth = byteWidth(plan.dtypes.param);
    const int64_t microbatches =
        chunkMicrobatches(plan.schedule, plan.microbatches());
    for (const Bucket &bucket : block.buckets)
      forEachBucketTransfer(plan, bucket, owners, [&](const BucketTransfer &t) {
        const int64_t width =
            t.collective == Collective::AllGather ? paramWidth : gradWidth;
        add(t.collective,
            t.group == BucketTransfer::Owners ? "pp" : axisName(plan, t.axes),
            t.phase,
            t.everyMicrobatch ? checkedMul(layers, microbatches) : layers,
            Bytes(checkedMul(t.elements, width)));
      });
  }

  const Program &program;
  const Plan &plan;
  const LayerTable &table;
  int64_t stage;
  Ledger ledger;
};

} // namespace

Ledger predictLedger(const Program &program, const Plan &plan, int64_t stage) {
  LayerTable table(program, plan, stage);
  return LedgerBuilder(program, plan, table, stage).build();
}

std::map<LedgerKey, LedgerEntry>
transfersBesideLayers(const Program &program, const Plan &plan, int64_t stage) {
  LayerTable table(program, plan, stage);
  return LedgerBuilder(program, plan, table, stage).buildBesideLayers();
}

std::vector<Ledger> predictLedgers(const Program &program, const Plan &plan) {
  LayerTable table(program, plan);
  std::vector<Ledger> ledgers;
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    ledgers.push_back(LedgerBuilder(program, plan, table, stage).build());
  return ledgers;
}

std::string text(const Ledger &ledger) {
  std::string lines;
  for (const auto &[key, entry] : ledger.collectives)
    lines += "collective " + std::string(name(key.collective)) + " " +
             key.axis + " " + std::string(name(key.phase)) + " calls " +
             std::to_string(entry.calls) + " payload_bytes " +
             std::to_string(entry.payload.count()) + "\n";
  for (const auto &[phase, flops] : ledger.flops)
    lines += "flops " + std::string(name(phase)) + " " +
             std::to_string(flops.count()) + "\n";
  const MemoryParts &memory = ledger.memory;
  auto part = [&](const char *label, Bytes bytes) {
    lines += "memory " + std::string(label) + " " +
             std::to_string(bytes.count()) + "\n";
  };
  part("comm", memory.comm);
  part("gradients", memory.gradients);
  part("optimizer", memory.optimizer);
  part("p2p", memory.p2p);
  part("parameters", memory.parameters);
  part("saved", memory.saved);
  part("workspace", memory.workspace);
  return lines;
}

} // namespace shardwright::cost
