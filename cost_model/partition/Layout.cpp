#include "cost_model/partition/Layout.h"
#include "cost_model/partition/LayerTable.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace shardwright::cost {

namespace {

Bytes aligned(Bytes bytes) {
  return Bytes(roundUp(bytes.count(), arenaAlignment));
}

/// Elements of this rank's part of a parameter.
int64_t localElements(const Plan &plan, const Parameter &parameter) {
  int64_t elements = 1;
  for (const Dim &dim : parameter.dims) {
    int64_t size = plannedSize(plan, dim.role, dim.size);
    int64_t shards = degree(plan, axesOf(plan, parameter.segment, dim.role));
    assert(size % shards == 0 && "a legal plan divides every dim evenly");
    elements = checkedMul(elements, size / shards);
  }
  return elements;
}

/// A parameter that a block has to hold.
struct Member {
  bool expert;
  std::vector<Axis> dataAxes, shardAxes, extraReduceAxes;
  bool decay;
  int index;
  int64_t elements;
};

Member memberOf(const Plan &plan, const Parameter &parameter,
                std::vector<Axis> extraReduceAxes, int index) {
  return {parameter.segment == Segment::Experts,
          dataAxes(plan, parameter.segment),
          plan.zero >= 1 ? shardAxes(plan, parameter.segment)
                         : std::vector<Axis>{},
          std::move(extraReduceAxes),
          parameter.decay,
          index,
          localElements(plan, parameter)};
}

ParameterBlock makeBlock(const Plan &plan, std::vector<Member> members) {
  std::stable_sort(members.begin(), members.end(),
                   [](const Member &a, const Member &b) {
                     if (a.expert != b.expert)
                       return b.expert;
                     if (a.extraReduceAxes != b.extraReduceAxes)
                       return a.extraReduceAxes < b.extraReduceAxes;
                     return a.decay && !b.decay;
                   });
  ParameterBlock block;
  for (const Member &member : members) {
    if (block.buckets.empty() ||
        block.buckets.back().dataAxes != member.dataAxes ||
        block.buckets.back().extraReduceAxes != member.extraReduceAxes ||
        block.buckets.back().decay != member.decay) {
      Bucket &bucket = block.buckets.emplace_back();
      bucket.dataAxes = member.dataAxes;
      bucket.extraReduceAxes = member.extraReduceAxes;
      bucket.decay = member.decay;
      bucket.shardAxes = member.shardAxes;
      bucket.shards = degree(plan, bucket.shardAxes);
    }
    Bucket &bucket = block.buckets.back();
    bucket.parameters.push_back(member.index);
    bucket.offsets.push_back(bucket.elements);
    bucket.elements = checkedAdd(bucket.elements, member.elements);
  }
  for (Bucket &bucket : block.buckets) {
    bucket.elements = roundUp(bucket.elements, checkedMul(bucket.shards, 128));
    bucket.offset = block.elements;
    block.elements = checkedAdd(block.elements, bucket.elements);
    block.stateElements =
        checkedAdd(block.stateElements, bucket.elements / bucket.shards);
  }
  return block;
}

} // namespace

std::vector<std::vector<Axis>>
extraReduceAxesOf(const Plan &plan, const Kind &kind,
                  const KindVariant &variant, const PlannedVariant &planned) {
  std::vector<std::vector<Axis>> axes(kind.parameters.size());
  const Function &function = variant.weightGrad;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const Result &result = function.results[i];
    if (result.kind != ResultKind::ParameterGrad)
      continue;
    axes[result.index] = planned.weightGrad.results[i].partialAxes;
    for (Axis data :
         dataAxes(plan, kind.parameters[result.index].segment))
      std::erase(axes[result.index], data);
  }
  return axes;
}

ParameterBlock blockOf(const Plan &plan, const Kind &kind,
                       const std::vector<std::vector<Axis>> &extraAxes) {
  std::vector<Member> members;
  for (size_t i = 0; i < kind.parameters.size(); ++i) {
    const Parameter &parameter = kind.parameters[i];
    if (parameter.shared.empty())
      members.push_back(
          memberOf(plan, parameter, extraAxes[i], static_cast<int>(i)));
  }
  return makeBlock(plan, std::move(members));
}

int64_t zeroDegree(const Plan &plan) {
  const int64_t ranks = plan.zeroRanks > 0 ? plan.zeroRanks : plan.dp;
  return plan.zero == 0 ? 1 : checkedMul(ranks, plan.cp);
}

std::vector<SharedParameter> sharedParameters(const Program &program) {
  std::vector<SharedParameter> shared;
  for (size_t kind = 0; kind < program.kinds.size(); ++kind) {
    const std::vector<Parameter> &parameters = program.kinds[kind].parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string &name = parameters[i].shared;
      if (!name.empty() &&
          std::none_of(
              shared.begin(), shared.end(),
              [&](const SharedParameter &s) { return s.name == name; }))
        shared.push_back(
            {name, static_cast<int>(kind), static_cast<int>(i)});
    }
  }
  return shared;
}

std::vector<int64_t> ownerStages(const Program &program, const Plan &plan,
                                 std::string_view name) {
  std::vector<int64_t> owners;
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    bool owns = false;
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      int kind = kindIndex(program, run.kind);
      assert(kind >= 0 && "a legal plan runs kinds of its program");
      for (const Parameter &parameter : program.kinds[kind].parameters)
        owns = owns || parameter.shared == name;
    });
    if (owns)
      owners.push_back(stage);
  }
  return owners;
}

ParameterBlock parameterBlock(const Plan &plan, const Kind &kind) {
  const KindVariant &variant = kind.variants.front();
  return blockOf(plan, kind,
                 extraReduceAxesOf(plan, kind, variant,
                                   plannedVariant(plan, kind, variant)));
}

ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           const LayerTable &table, int64_t stage) {
  std::vector<Member> members;
  const std::vector<SharedParameter> shared = sharedParameters(program);
  for (size_t i = 0; i < shared.size(); ++i) {
    const StageRun *user = nullptr;
    int parameterIndex = -1;
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      const Kind &kind = program.kinds[kindIndex(program, run.kind)];
      for (size_t p = 0; p < kind.parameters.size() && !user; ++p)
        if (kind.parameters[p].shared == shared[i].name) {
          user = &run;
          parameterIndex = static_cast<int>(p);
        }
    });
    if (!user)
      continue;
    const Parameter &parameter =
        program.kinds[kindIndex(program, user->kind)]
            .parameters[parameterIndex];
    members.push_back(
        memberOf(plan, parameter,
                 table.of(*user).extraReduceAxes[parameterIndex],
                 static_cast<int>(i)));
  }
  return makeBlock(plan, std::move(members));
}

ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           int64_t stage) {
  if (sharedParameters(program).empty())
    return {};
  return sharedBlock(plan, program, LayerTable(program, plan, stage), stage);
}

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
  facts.extraReduceAxes = extraReduceAxesOf(plan, kind, variant, planned);
  facts.block = blockOf(plan, kind, facts.extraReduceAxes);
  addFunction(plan, Phase::Forward, variant.forward, planned.forward, facts);
  addFunction(plan, Phase::DataGrad, variant.dataGrad, planned.dataGrad, facts);
  addFunction(plan, Phase::WeightGrad, variant.weightGrad, planned.weightGrad,
              facts);
  facts.memory = layerMemory(plan, kind, variant, planned);
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
                        const PlannedVariant &planned) {
  return {savedBytesPerLayer(plan, kind, variant, planned),
          keptBytes(plan, variant, planned),
          workspaceBytes(plan, variant, planned),
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
                       plan.chunks);
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

MemoryParts memoryOf(const Program &program, const Plan &plan,
                     const LayerTable &table, int64_t stage,
                     const ScheduleFacts *facts) {
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
  for (const InFlight &moment : schedule.inFlight[static_cast<size_t>(stage)]) {
    Bytes held(0);
    for (size_t chunk = 0; chunk < saved.size(); ++chunk)
      held += moment.saved[chunk] * saved[chunk] +
              moment.kept[chunk] * kept[chunk];
    memory.saved = std::max(memory.saved, held);
  }
  const Bytes stream = aligned(streamBytes(program, plan));
  const BorderBuffers &borders = schedule.borders[static_cast<size_t>(stage)];
  memory.p2p = (borders.streamsLeaving + borders.gradientsArriving +
                borders.gradientsLeaving) *
               stream;
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
