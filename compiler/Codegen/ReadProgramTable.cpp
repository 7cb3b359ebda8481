//===- ReadProgramTable.cpp - Tables of a lowered module ------------------===//
#include "compiler/Codegen/ModuleEmitter.h"

#include "cost_model/partition/Layout.h"
#include "cost_model/partition/LedgerJson.h"
#include "cost_model/plan/PlanJson.h"
#include "dialects/Rt/IR/RtOps.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/PlannedModule.h"

using namespace mlir;

namespace shardwright::codegen {

namespace {

static_assert(static_cast<int>(cost::DType::F64) == SW_RT_F64 &&
                  static_cast<int>(cost::DType::I32) == SW_RT_I32,
              "dtypes of the cost model are those of the runtime");
static_assert(static_cast<int>(cost::Init::Zeros) == 0 &&
                  static_cast<int>(cost::Init::Normal) == 2,
              "inits of the cost model are those of the runtime");

uint32_t maskOf(const cost::Axes &axes) {
  uint32_t mask = 0;
  for (cost::Axis axis : axes)
    mask |= uint32_t{1} << axis;
  return mask;
}

class TableReader {
public:
  explicit TableReader(ModuleOp source) : source(source) {}
  FailureOr<ProgramTable> read();

private:
  void readPlan();
  LogicalResult readStage(spmd::StageOp stage);
  /// Number of the kind named by a run ("dense.full"), added when new.
  FailureOr<int32_t> kindNamed(spmd::StageOp stage, StringRef name);
  LogicalResult readArena(spmd::StageOp stage, sw_rt_arena &arena);
  LogicalResult readChunks(spmd::StageOp stage,
                           std::vector<ChunkTable> &chunks);
  BlockTable block(const cost::ParameterBlock &layout,
                   llvm::function_ref<const cost::Parameter &(int)> parameter);
  ParameterTable parameter(const cost::Parameter &parameter);

  ModuleOp source;
  PlannedModule planned;
  ProgramTable table;
};

} // namespace

ParameterTable TableReader::parameter(const cost::Parameter &parameter) {
  ParameterTable result;
  result.name = parameter.hfName;
  const cost::Encoding encoding =
      cost::parameterEncoding(planned.plan, parameter);
  cost::Value value;
  value.dims = parameter.dims;
  value.precision = cost::Precision::Param;
  const std::vector<int64_t> local =
      cost::localShape(planned.plan, value, encoding);
  for (size_t i = 0; i < parameter.dims.size(); ++i)
    result.dims.push_back({local[i], parameter.dims[i].size,
                           parameter.hfStrides[i], maskOf(encoding.dims[i]),
                           0});
  result.rest.hf_offset = parameter.hfOffset;
  assert(parameter.hfShape.size() <= std::size(result.rest.hf_shape));
  llvm::copy(parameter.hfShape, result.rest.hf_shape);
  result.rest.init = static_cast<int32_t>(parameter.init);
  result.rest.init_scale = parameter.initScale;
  return result;
}

BlockTable TableReader::block(
    const cost::ParameterBlock &layout,
    llvm::function_ref<const cost::Parameter &(int)> at) {
  BlockTable result;
  result.elements = layout.elements;
  for (auto [number, bucket] : llvm::enumerate(layout.buckets)) {
    result.buckets.push_back({bucket.offset, bucket.elements,
                              maskOf(bucket.extraReduceAxes),
                              bucket.decay ? 1u : 0u});
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      ParameterTable entry = parameter(at(bucket.parameters[i]));
      entry.rest.bucket = static_cast<int32_t>(number);
      entry.rest.offset = bucket.offset + bucket.offsets[i];
      result.parameters.push_back(std::move(entry));
    }
  }
  return result;
}

/// Kinds and policies are named as PlannedModule's variantName does.
FailureOr<int32_t> TableReader::kindNamed(spmd::StageOp stage,
                                          StringRef name) {
  for (auto [number, kind] : llvm::enumerate(table.kinds))
    if (kind.name == name)
      return static_cast<int32_t>(number);
  const cost::Program &program = planned.program;
  for (auto &[key, variant] : planned.variants) {
    const cost::Kind &kind = program.kinds[key.first];
    if (variantName(kind, key.second) != name)
      continue;
    const cost::KindVariant &functions = kind.variant(key.second);
    KindTable entry;
    entry.name = name.str();
    auto symbol = [&](const char *part) {
      const std::string text = (name + "." + part).str();
      return source.lookupSymbol<rt::FuncOp>(text) ? text : std::string();
    };
    entry.forward = symbol("forward");
    entry.dataGrad = symbol("data_grad");
    entry.weightGrad = symbol("weight_grad");
    entry.block = block(
        cost::parameterBlock(planned.plan, kind),
        [&](int index) -> const cost::Parameter & {
          return kind.parameters[index];
        });
    // The slot of a layer begins with the stream that enters it.
    const bool takesStream = llvm::any_of(
        functions.forward.arguments, [](const cost::Argument &argument) {
          return argument.kind == cost::ArgKind::StreamIn;
        });
    entry.savedBytes =
        cost::savedBytesPerLayer(planned.plan, kind, functions, variant)
            .count() -
        (takesStream
             ? cost::roundUp(
                   cost::streamBytes(program, planned.plan).count(), 256)
             : 0);
    table.kinds.push_back(std::move(entry));
    return static_cast<int32_t>(table.kinds.size() - 1);
  }
  return stage.emitOpError() << "runs '" << name
                             << "', which is no kind of the plan";
}

LogicalResult TableReader::readArena(spmd::StageOp stage, sw_rt_arena &arena) {
  DictionaryAttr values = stage.getArenaAttr();
  if (!values)
    return stage.emitOpError("expected 'arena'");
  LogicalResult result = success();
  auto read = [&](StringRef name) -> int64_t {
    if (auto value = values.getAs<IntegerAttr>(name))
      return value.getInt();
    result = stage.emitOpError() << "expected '" << name << "' in 'arena'";
    return 0;
  };
#define ARENA(member) arena.member = read(#member)
  ARENA(parameters);
  ARENA(gradients);
  ARENA(optimizer);
  ARENA(slots);
  ARENA(p2p);
  ARENA(comm);
  ARENA(workspace);
  ARENA(total);
  ARENA(parameters_bytes);
  ARENA(gradients_bytes);
  ARENA(optimizer_bytes);
  ARENA(slots_bytes);
  ARENA(p2p_bytes);
  ARENA(comm_bytes);
  ARENA(workspace_bytes);
  ARENA(elements);
  ARENA(optimizer_elements);
  ARENA(gradient_stream);
#undef ARENA
  return result;
}

LogicalResult TableReader::readChunks(spmd::StageOp stage,
                                      std::vector<ChunkTable> &chunks) {
  chunks.resize(stage.getNumChunks());
  auto ofChunks = [&](DenseI64ArrayAttr values) {
    return values && values.size() == static_cast<int64_t>(chunks.size());
  };
  DenseI64ArrayAttr slots = stage.getSlotsAttr();
  auto first = stage.getArenaAttr().getAs<DenseI64ArrayAttr>("first_slot");
  auto bytes = stage.getArenaAttr().getAs<DenseI64ArrayAttr>("slot_bytes");
  if (!ofChunks(slots) || !ofChunks(first) || !ofChunks(bytes))
    return stage.emitOpError()
           << "expected 'slots', and 'first_slot' and 'slot_bytes' in 'arena', "
              "of "
           << chunks.size() << " chunks";
  const std::vector<int64_t> positions =
      cost::stagesOfRank(planned.plan, stage.getIndex());
  for (auto [number, chunk] : llvm::enumerate(chunks)) {
    chunk.rest.num_slots = static_cast<int32_t>(slots[number]);
    chunk.rest.first_slot = first[number];
    chunk.rest.slot_bytes = bytes[number];
    chunk.rest.position = static_cast<int32_t>(positions[number]);
  }
  for (auto run : stage.getRuns().getAsRange<ArrayAttr>()) {
    FailureOr<int32_t> kind =
        kindNamed(stage, cast<StringAttr>(run[0]).getValue());
    if (failed(kind))
      return failure();
    chunks[spmd::StageOp::chunkOf(run)].runs.push_back(
        {*kind, static_cast<int32_t>(cast<IntegerAttr>(run[1]).getInt()),
         cast<IntegerAttr>(run[2]).getInt()});
  }
  return success();
}

LogicalResult TableReader::readStage(spmd::StageOp stage) {
  const cost::Program &program = planned.program;
  StageTable entry;
  if (failed(readArena(stage, entry.arena)) ||
      failed(readChunks(stage, entry.chunks)))
    return failure();
  if (!stage.getSchedule())
    return stage.emitOpError("expected 'schedule'");
  for (auto action : stage.getSchedule()->getAsRange<spmd::ActionAttr>())
    entry.actions.push_back({static_cast<int32_t>(action.getKind()),
                             static_cast<int32_t>(action.getChunk()),
                             static_cast<int32_t>(action.getMicrobatch()),
                             static_cast<int32_t>(action.getSlot()),
                             static_cast<int32_t>(action.getTakes()),
                             static_cast<int32_t>(action.getLeaves()),
                             static_cast<int32_t>(action.getPeer()), 0});

  const auto shared = cost::sharedParameters(program);
  const cost::ParameterBlock sharedLayout = cost::sharedBlock(
      planned.plan, program, static_cast<int64_t>(stage.getIndex()));
  entry.shared =
      block(sharedLayout, [&](int index) -> const cost::Parameter & {
        const cost::SharedParameter &place = shared[index];
        return program.kinds[place.kind].parameters[place.parameter];
      });
  for (const cost::Bucket &bucket : sharedLayout.buckets)
    for (int index : bucket.parameters)
      for (int64_t owner : cost::ownerStages(program, planned.plan,
                                             shared[index].name))
        entry.sharedOwners |= uint32_t{1} << owner;
  table.stages.push_back(std::move(entry));
  return success();
}

void TableReader::readPlan() {
  const cost::Program &program = planned.program;
  const cost::Plan &plan = planned.plan;
  table.model = program.name;
  table.plan = cost::canonicalText(plan);
  table.predicted = "[";
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    table.predicted +=
        (stage == 0 ? "" : ",") +
        cost::ledgerJson(cost::predictLedger(program, plan, stage));
  table.predicted += "]";
  for (const cost::MeshAxis &axis : plan.mesh)
    table.axes.push_back({axis.name, axis.size});
  table.update = "update";

  sw_rt_program &rest = table.rest;
  auto dtype = [](cost::DType type) { return static_cast<int32_t>(type); };
  rest.pp_axis = cost::axisNamed(plan, "pp");
  rest.dp_axis = cost::axisNamed(plan, "dp");
  rest.zero = plan.zero;
  rest.compute_dtype = dtype(plan.dtypes.compute);
  rest.param_dtype = dtype(plan.dtypes.param);
  rest.grad_dtype = dtype(plan.dtypes.grad);
  rest.master_dtype = dtype(plan.dtypes.master);
  rest.stat_dtype = dtype(plan.dtypes.of(cost::Precision::Stat));
  rest.vocab = program.vocab;
  rest.sequence = plan.sequence;
  rest.micro_batch = plan.microBatch;
  rest.global_batch = plan.globalBatch;
  rest.microbatches = plan.microbatches();
  rest.stream_elements = cost::streamBytes(program, plan).count() /
                         cost::byteWidth(plan.dtypes.compute);
}

FailureOr<ProgramTable> TableReader::read() {
  if (failed(readPlannedModule(source, planned)))
    return failure();
  readPlan();
  for (auto stage : source.getOps<spmd::StageOp>()) {
    if (stage.getIndex() != static_cast<int64_t>(table.stages.size()))
      return stage.emitOpError() << "expected stages in order, with index "
                                 << table.stages.size();
    if (failed(readStage(stage)))
      return failure();
  }
  return table;
}

FailureOr<ProgramTable> readProgramTable(ModuleOp source) {
  return TableReader(source).read();
}

} // namespace shardwright::codegen
