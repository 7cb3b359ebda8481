#include "cost_model/partition/Layout.h"
#include "cost_model/partition/LayerTable.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

namespace shardwright::cost {

namespace {

Bytes aligned(Bytes bytes) {
  return Bytes(roundUp(bytes.count(), arenaAlignment));
}

} // namespace

Bytes stagingBytes(Collective collective, int64_t count, int64_t elementBytes,
                   int64_t ranks) {
  switch (collective) {
  case Collective::AllReduce:
  case Collective::ReduceScatter:
    return Bytes(checkedMul(ceilDiv(count, ranks), elementBytes));
  case Collective::AllGather:
  case Collective::AllToAll:
  case Collective::Send:
  case Collective::Recv:
  case Collective::Slice: break;
  }
  return Bytes(0);
}

int64_t pack(const std::vector<Interval> &intervals,
             std::vector<int64_t> &offsets) {
  const size_t count = intervals.size();
  offsets.assign(count, 0);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return intervals[a].bytes > intervals[b].bytes;
  });
  int64_t total = 0;
  std::vector<size_t> placed; // by offset
  for (size_t index : order) {
    const Interval &interval = intervals[index];
    const int64_t bytes = roundUp(interval.bytes, arenaAlignment);
    if (bytes == 0)
      continue;
    int64_t end = 0; // of what is placed so far, from the bottom up
    int64_t best = -1, bestGap = 0;
    for (size_t other : placed) {
      if (intervals[other].last < interval.first ||
          interval.last < intervals[other].first)
        continue;
      int64_t gap = offsets[other] - end;
      if (gap >= bytes && (best < 0 || gap < bestGap)) {
        best = end;
        bestGap = gap;
      }
      end = std::max(
          end, offsets[other] +
                   roundUp(intervals[other].bytes, arenaAlignment));
    }
    offsets[index] = best >= 0 ? best : end;
    total = std::max(total, offsets[index] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t a, size_t b) {
                                     return offsets[a] < offsets[b];
                                   }),
                  index);
  }
  return total;
}

Bytes savedBytesPerLayer(const Plan &plan, const Kind &kind,
                         const KindVariant &variant,
                         const PlannedVariant &planned) {
  (void)kind;
  Bytes bytes(0);
  const Function &forward = variant.forward;
  for (const Argument &argument : forward.arguments)
    if (argument.kind == ArgKind::StreamIn)
      bytes += aligned(localBytes(plan, forward.values[argument.value],
                                  planned.forward.encodings[argument.value]));
  for (size_t i = 0; i < forward.results.size(); ++i)
    if (forward.results[i].kind == ResultKind::Saved)
      bytes +=
          aligned(localBytes(plan, forward.values[forward.results[i].value],
                             planned.forward.results[i]));
  return bytes;
}

namespace {

Bytes keptBytes(const Plan &plan, const KindVariant &variant,
                const PlannedVariant &planned) {
  Bytes bytes(0);
  const Function &data = variant.dataGrad, &weight = variant.weightGrad;
  for (size_t i = 0; i < data.results.size(); ++i)
    if (data.results[i].kind == ResultKind::Kept)
      bytes += aligned(localBytes(plan, data.values[data.results[i].value],
                                  planned.dataGrad.results[i]));
  for (const Argument &argument : weight.arguments)
    if (argument.kind == ArgKind::StreamGrad)
      bytes += aligned(localBytes(plan, weight.values[argument.value],
                                  planned.weightGrad.encodings[argument.value]));
  return bytes;
}

void addFunction(const Plan &plan, Phase phase, const Function &function,
                 const PlannedFunction &planned, LayerFacts &facts) {
  Flops flops(0);
  for (const PlannedOp &op : planned.ops)
    flops += flopsOf(op.local);
  (phase == Phase::Forward    ? facts.forward
   : phase == Phase::DataGrad ? facts.dataGrad
                              : facts.weightGrad) = flops;
  for (size_t value = 0; value < planned.values.size(); ++value) {
    const std::vector<ReshardStep> &steps =
        planned.values[value].reshards.steps;
    for (const ReshardStep &step : steps) {
      if (step.collective == Collective::Slice)
        continue;
      const Encoding &source = step.source == 0
                                   ? planned.encodings[value]
                                   : steps[step.source - 1].result;
      const Value &type = function.values[value];
      Bytes payload = localBytes(plan, type, source);
      LedgerEntry &entry = facts.collectives[{
          step.collective,
          axisName(plan, step.axes, source.routed != step.result.routed),
          phase}];
      ++entry.calls;
      entry.payload += payload;
    }
  }
  for (size_t i = 0; i < function.ops.size(); ++i) {
    const Op &op = function.ops[i];
    if (!goesRound(plan, op))
      continue;
    // Backward keys and values start alone, and their gradients end alone.
    const bool backward = op.space.kernel == KernelClass::AttentionGrad;
    const Bytes payload =
        (plan.cp - 1) * ringBytes(plan, function, op, planned.ops[i]);
    for (Collective collective : {Collective::Send, Collective::Recv}) {
      LedgerEntry &entry = facts.collectives[{
          collective, axisName(plan, axesOfDegree(plan, Degree::Cp)), phase}];
      entry.calls += plan.cp - (backward ? 0 : 1);
      entry.payload += payload;
    }
  }
}

/// Largest staging of the collectives of a function.
Bytes stagingOf(const Plan &plan, const Function &function,
                const PlannedFunction &planned) {
  Bytes largest(0);
  for (size_t value = 0; value < planned.values.size(); ++value) {
    const std::vector<ReshardStep> &steps =
        planned.values[value].reshards.steps;
    for (const ReshardStep &step : steps) {
      const Value &type = function.values[value];
      const Encoding &source = step.source == 0
                                   ? planned.encodings[value]
                                   : steps[step.source - 1].result;
      const int64_t width = byteWidth(plan.dtypes.of(type.precision));
      largest = std::max(
          largest,
          stagingBytes(step.collective,
                       localBytes(plan, type, source).count() / width, width,
                       degree(plan, step.axes)));
    }
  }
  for (size_t i = 0; i < function.ops.size(); ++i) {
    const Op &op = function.ops[i];
    if (!goesRound(plan, op))
      continue;
    const int64_t parts =
        op.space.kernel == KernelClass::AttentionGrad ? 2 : plan.cp - 1;
    largest = std::max(largest,
                       parts * ringBytes(plan, function, op, planned.ops[i]));
  }
  return largest;
}

} // namespace

LayerFacts layerFacts(const Plan &plan, const Kind &kind,
                      const KindVariant &variant) {
  PlannedVariant planned = plannedVariant(plan, kind, variant);
  LayerFacts facts;
  // Layers of a kind have one layout of parameters, whatever runs again. A
  // parameter without a gradient (the bias that DeepSeek's router corrects
  // itself) may be partial under one policy and not under another.
  const KindVariant &first = kind.variants.front();
  facts.extraReduceAxes =
      &variant == &first
          ? extraReduceAxesOf(plan, kind, variant, planned)
          : extraReduceAxesOf(plan, kind, first,
                              plannedVariant(plan, kind, first));
  facts.block = blockOf(plan, kind, facts.extraReduceAxes);
  addFunction(plan, Phase::Forward, variant.forward, planned.forward, facts);
  addFunction(plan, Phase::DataGrad, variant.dataGrad, planned.dataGrad, facts);
  addFunction(plan, Phase::WeightGrad, variant.weightGrad, planned.weightGrad,
              facts);
  facts.memory = layerMemory(plan, kind, variant, planned,
                             temporariesOf(plan, variant, planned));
  return facts;
}

namespace {

/// Output of the attention core on a rank.
Bytes attentionBytes(const Plan &plan, const Function &forward,
                     const PlannedFunction &planned) {
  Bytes bytes(0);
  for (const Op &op : forward.ops)
    if (op.space.kernel == KernelClass::Attention)
      bytes += aligned(localBytes(plan, forward.values[op.results[0]],
                                  planned.encodings[op.results[0]]));
  return bytes;
}

/// How `function` reads saved value `index`.
struct Readers {
  bool products = false; ///< of layers; head and router stay in 16 bits
  bool others = false;
};
void addReaders(const Function &function, int32_t index, Readers &readers) {
  for (const Argument &argument : function.arguments) {
    if (argument.kind != ArgKind::Saved || argument.index != index)
      continue;
    for (const Op &op : function.ops)
      for (ValueId operand : op.operands)
        if (operand == argument.value)
          (isProduct(op) && mayBeNarrow(op.segment) ? readers.products
                                                          : readers.others) =
              true;
  }
}

std::vector<SavedPart> savedParts(const Plan &plan, const KindVariant &variant,
                                  const PlannedVariant &planned) {
  const Function &forward = variant.forward;
  std::vector<int> producer(forward.values.size(), -1);
  for (size_t op = 0; op < forward.ops.size(); ++op)
    for (ValueId value : forward.ops[op].results)
      producer[value] = static_cast<int>(op);
  std::vector<SavedPart> parts;
  for (size_t i = 0; i < forward.results.size(); ++i) {
    const Result &result = forward.results[i];
    if (result.kind != ResultKind::Saved || producer[result.value] < 0)
      continue;
    const Bytes bytes = aligned(localBytes(plan, forward.values[result.value],
                                           planned.forward.results[i]));
    Readers readers;
    addReaders(variant.dataGrad, result.index, readers);
    addReaders(variant.weightGrad, result.index, readers);
    const Bytes half(bytes.count() / 2);
    const Op &from = forward.ops[static_cast<size_t>(producer[result.value])];
    parts.push_back({from.label, bytes,
                     !readers.products ? Bytes(0)
                     : readers.others  ? half
                                       : Bytes(0) - half,
                     from.segment == Segment::Experts});
  }
  return parts;
}

} // namespace

LayerMemory layerMemory(const Plan &plan, const Kind &kind,
                        const KindVariant &variant,
                        const PlannedVariant &planned,
                        const Temporaries &temporaries) {
  return {savedBytesPerLayer(plan, kind, variant, planned),
          keptBytes(plan, variant, planned),
          workspaceBytes(temporaries),
          std::max({stagingOf(plan, variant.forward, planned.forward),
                    stagingOf(plan, variant.dataGrad, planned.dataGrad),
                    stagingOf(plan, variant.weightGrad, planned.weightGrad)}),
          attentionBytes(plan, variant.forward, planned.forward),
          savedParts(plan, variant, planned)};
}

Bytes streamBytes(const Program &program, const Plan &plan) {
  const Value stream{{{program.sequence, Role::Seq},
                      {1, Role::Batch},
                      {program.hidden, Role::Hidden}},
                     Precision::Compute};
  return localBytes(plan, stream, streamEncoding(plan));
}

namespace {

/// Largest staging of the collectives that reduce `block`; `owners` stages
/// share it.
Bytes reduceStaging(const Plan &plan, const ParameterBlock &block,
                    int64_t owners) {
  const int64_t width = byteWidth(plan.dtypes.grad);
  Bytes largest(0);
  auto add = [&](Collective collective, int64_t elements, int64_t ranks) {
    if (ranks > 1)
      largest = std::max(largest,
                         stagingBytes(collective, elements, width, ranks));
  };
  for (const Bucket &bucket : block.buckets) {
    // Under ZeRO 2 and 3 the sum over data ranks comes first, of shards only.
    const int64_t rest =
        plan.zero >= 2 ? bucket.elements / bucket.shards : bucket.elements;
    add(Collective::AllReduce, rest, degree(plan, bucket.extraReduceAxes));
    add(Collective::AllReduce, rest, owners);
    add(Collective::ReduceScatter, bucket.elements, bucket.shards);
    add(Collective::AllReduce, bucket.elements / bucket.shards,
        degree(plan, bucket.dataAxes) / bucket.shards);
  }
  return largest;
}

} // namespace

ScheduleFacts scheduleFacts(const Plan &plan) {
  return scheduleFacts(plan.schedule, plan.pp, plan.microbatches(),
                       plan.chunks, plan.group);
}

Bytes optimizerStateBytes(const Program &program, const Plan &plan,
                          const LayerTable &table, int64_t stage) {
  int64_t elements = sharedBlock(plan, program, table, stage).stateElements;
  forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
    elements = checkedAdd(
        elements, checkedMul(run.count, table.of(run).block.stateElements));
  });
  return Bytes(checkedMul(elements, optimizerBytesPerElement(plan.dtypes)));
}

/// Of chunks whose slots take `saved` each: those of one size share theirs.
static Bytes slotBytes(const std::vector<Bytes> &saved,
                       const std::vector<InFlight> &moments) {
  std::map<Bytes, int64_t> slots;
  for (const InFlight &moment : moments) {
    std::map<Bytes, int64_t> held;
    for (size_t chunk = 0; chunk < saved.size(); ++chunk)
      held[saved[chunk]] += moment.saved[chunk];
    for (const auto &[bytes, count] : held)
      slots[bytes] = std::max(slots[bytes], count);
  }
  Bytes sum(0);
  for (const auto &[bytes, count] : slots)
    sum += count * bytes;
  return sum;
}

/// Of all chunks together at the fullest of `moments`.
static Bytes mostAtOnce(const std::vector<Bytes> &saved,
                        const std::vector<Bytes> &kept,
                        const std::vector<InFlight> &moments) {
  Bytes most(0);
  for (const InFlight &moment : moments) {
    Bytes held(0);
    for (size_t chunk = 0; chunk < saved.size(); ++chunk)
      held += moment.saved[chunk] * saved[chunk] +
              moment.kept[chunk] * kept[chunk];
    most = std::max(most, held);
  }
  return most;
}

MemoryParts memoryOf(const Program &program, const Plan &plan,
                     const LayerTable &table, int64_t stage,
                     const ScheduleFacts *facts, SavedIn where) {
  MemoryParts memory;
  int64_t elements = 0, stateElements = 0;
  Bytes staging(0), workspace(0);
  std::vector<Bytes> saved(static_cast<size_t>(plan.chunks)), kept(saved);
  forEachRun(plan, stage, [&](const StageRun &run, int64_t chunk) {
    const LayerFacts &layer = table.of(run);
    elements =
        checkedAdd(elements, checkedMul(run.count, layer.block.elements));
    stateElements = checkedAdd(
        stateElements, checkedMul(run.count, layer.block.stateElements));
    saved[static_cast<size_t>(chunk)] += run.count * layer.memory.saved;
    kept[static_cast<size_t>(chunk)] += run.count * layer.memory.kept;
    workspace = std::max(workspace, layer.memory.workspace);
    staging = std::max(
        {staging, layer.memory.staging,
         reduceStaging(plan, layer.block, stageOwners(plan.schedule))});
  });
  const ParameterBlock shared = sharedBlock(plan, program, table, stage);
  elements = checkedAdd(elements, shared.elements);
  stateElements = checkedAdd(stateElements, shared.stateElements);
  if (!shared.buckets.empty())
    staging = std::max(staging,
                       reduceStaging(plan, shared,
                                     sharedOwners(program, plan, stage)));
  if (plan.ranks() > 1)
    staging = std::max(
        staging, stagingBytes(Collective::AllReduce, 2, 8, plan.ranks()));

  const DTypes &dtypes = plan.dtypes;
  const StateBytes<int64_t> state =
      stateBytes(dtypes, plan.zero, elements, stateElements);
  memory.parameters = Bytes(state.parameters);
  memory.gradients = Bytes(state.gradients);
  if (!plan.offloadOptimizer)
    memory.optimizer = Bytes(state.optimizer);
  const ScheduleFacts made = facts ? ScheduleFacts() : scheduleFacts(plan);
  const ScheduleFacts &schedule = facts ? *facts : made;
  const std::vector<InFlight> &moments =
      schedule.inFlight[static_cast<size_t>(stage)];
  memory.saved = splitsBackward(plan.schedule) || where == SavedIn::Blocks
                     ? mostAtOnce(saved, kept, moments)
                     : slotBytes(saved, moments);
  const Bytes stream = aligned(streamBytes(program, plan));
  const BorderBuffers &borders = schedule.borders[static_cast<size_t>(stage)];
  memory.p2p = borders.count() * stream;
  memory.comm = aligned(staging);
  if (plan.zero >= 2) {
    const int64_t largest = largestBlock(program, plan, table, stage);
    memory.comm +=
        aligned(Bytes(checkedMul(largest, byteWidth(dtypes.grad))));
    if (plan.zero >= 3)
      memory.comm +=
          aligned(Bytes(checkedMul(largest, byteWidth(dtypes.param))));
  }
  memory.workspace = workspace + 2 * stream;
  return memory;
}

int64_t largestBlock(const Program &program, const Plan &plan,
                     const LayerTable &table, int64_t stage) {
  int64_t largest = sharedBlock(plan, program, table, stage).elements;
  forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
    largest = std::max(largest, table.of(run).block.elements);
  });
  return largest;
}

int64_t sharedOwners(const Program &program, const Plan &plan, int64_t stage) {
  for (const SharedParameter &shared : sharedParameters(program)) {
    std::vector<int64_t> owners = ownerStages(program, plan, shared.name);
    if (std::find(owners.begin(), owners.end(), stage) != owners.end())
      return static_cast<int64_t>(owners.size());
  }
  return 1;
}

MemoryParts memoryOf(const Program &program, const Plan &plan, int64_t stage) {
  return memoryOf(program, plan, LayerTable(program, plan, stage), stage);
}

std::vector<MemoryParts> memoryOfStages(const Program &program,
                                        const Plan &plan) {
  LayerTable table(program, plan);
  std::vector<MemoryParts> stages;
  const ScheduleFacts facts = scheduleFacts(plan);
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    stages.push_back(memoryOf(program, plan, table, stage, &facts));
  return stages;
}

} // namespace shardwright::cost
