//===- ProgramTables.cpp - The constant tables of a program ---------------===//
#include "compiler/Codegen/ProgramTables.h"

#include "compiler/Codegen/ConstantEmitter.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace shardwright::codegen {

namespace {

class TableEmitter : public ConstantEmitter {
public:
  using ConstantEmitter::ConstantEmitter;

  void emit(const ProgramTable &table);

private:
  Constant *function(StringRef name);

  Constant *dim(const sw_rt_dim &value);
  Constant *parameter(const ParameterTable &value);
  Constant *bucket(const sw_rt_bucket &value);
  Constant *block(const BlockTable &value);
  Constant *kind(const KindTable &value);
  Constant *run(const sw_rt_run &value);
  Constant *action(const sw_rt_action &value);
  Constant *arena(const sw_rt_arena &value);
  Constant *chunk(const ChunkTable &value);
  Constant *stage(const StageTable &value);
  Constant *axis(const std::pair<std::string, int64_t> &value);
};

} // namespace

Constant *TableEmitter::function(StringRef name) {
  if (name.empty())
    return null();
  Function *function = module.getFunction(name);
  assert(function && "the table names a function that was not emitted");
  return function;
}

#define FIELD(type, member, value) SHARDWRIGHT_FIELD(type, member, value)

Constant *TableEmitter::dim(const sw_rt_dim &value) {
  return structure({"sw_rt_dim",
                    sizeof(sw_rt_dim),
                    {FIELD(sw_rt_dim, local, number(value.local)),
                     FIELD(sw_rt_dim, global, number(value.global)),
                     FIELD(sw_rt_dim, hf_stride, number(value.hf_stride)),
                     FIELD(sw_rt_dim, axes, number(value.axes)),
                     FIELD(sw_rt_dim, reserved, number(value.reserved))}});
}

Constant *TableEmitter::parameter(const ParameterTable &table) {
  const sw_rt_parameter &value = table.rest;
  assert(table.dims.size() <= SW_RT_MAX_DIMS && "too many dims");
  SmallVector<Constant *> dims;
  for (size_t i = 0; i < SW_RT_MAX_DIMS; ++i)
    dims.push_back(dim(i < table.dims.size() ? table.dims[i] : sw_rt_dim{}));
  Constant *dimArray = ConstantArray::get(
      ArrayType::get(dims[0]->getType(), dims.size()), dims);
  return structure(
      {"sw_rt_parameter",
       sizeof(sw_rt_parameter),
       {FIELD(sw_rt_parameter, name, text(table.name)),
        FIELD(sw_rt_parameter, bucket, number(value.bucket)),
        FIELD(sw_rt_parameter, ndims,
              number(static_cast<int32_t>(table.dims.size()))),
        FIELD(sw_rt_parameter, dims, dimArray),
        FIELD(sw_rt_parameter, offset, number(value.offset)),
        FIELD(sw_rt_parameter, hf_offset, number(value.hf_offset)),
        FIELD(sw_rt_parameter, hf_shape, numbers(value.hf_shape)),
        FIELD(sw_rt_parameter, init, number(value.init)),
        FIELD(sw_rt_parameter, reserved, number(value.reserved)),
        FIELD(sw_rt_parameter, init_scale, number(value.init_scale))}});
}

Constant *TableEmitter::bucket(const sw_rt_bucket &value) {
  return structure(
      {"sw_rt_bucket",
       sizeof(sw_rt_bucket),
       {FIELD(sw_rt_bucket, offset, number(value.offset)),
        FIELD(sw_rt_bucket, elements, number(value.elements)),
        FIELD(sw_rt_bucket, extra_reduce_axes,
              number(value.extra_reduce_axes)),
        FIELD(sw_rt_bucket, decay, number(value.decay))}});
}

Constant *TableEmitter::block(const BlockTable &value) {
  Constant *parameters =
      arrayOf("parameters", value.parameters,
              [&](const ParameterTable &element) { return parameter(element); });
  Constant *buckets =
      arrayOf("buckets", value.buckets,
              [&](const sw_rt_bucket &element) { return bucket(element); });
  return structure(
      {"sw_rt_block",
       sizeof(sw_rt_block),
       {FIELD(sw_rt_block, elements, number(value.elements)),
        FIELD(sw_rt_block, num_parameters,
              number(static_cast<int32_t>(value.parameters.size()))),
        FIELD(sw_rt_block, num_buckets,
              number(static_cast<int32_t>(value.buckets.size()))),
        FIELD(sw_rt_block, parameters, parameters),
        FIELD(sw_rt_block, buckets, buckets)}});
}

Constant *TableEmitter::kind(const KindTable &value) {
  return structure(
      {"sw_rt_kind",
       sizeof(sw_rt_kind),
       {FIELD(sw_rt_kind, name, text(value.name)),
        FIELD(sw_rt_kind, forward, function(value.forward)),
        FIELD(sw_rt_kind, data_grad, function(value.dataGrad)),
        FIELD(sw_rt_kind, weight_grad, function(value.weightGrad)),
        FIELD(sw_rt_kind, block, block(value.block)),
        FIELD(sw_rt_kind, saved_bytes, number(value.savedBytes))}});
}

Constant *TableEmitter::run(const sw_rt_run &value) {
  return structure({"sw_rt_run",
                    sizeof(sw_rt_run),
                    {FIELD(sw_rt_run, kind, number(value.kind)),
                     FIELD(sw_rt_run, count, number(value.count)),
                     FIELD(sw_rt_run, first_layer, number(value.first_layer))}});
}

Constant *TableEmitter::action(const sw_rt_action &value) {
  return structure({"sw_rt_action",
                    sizeof(sw_rt_action),
                    {FIELD(sw_rt_action, kind, number(value.kind)),
                     FIELD(sw_rt_action, chunk, number(value.chunk)),
                     FIELD(sw_rt_action, microbatch, number(value.microbatch)),
                     FIELD(sw_rt_action, slot, number(value.slot)),
                     FIELD(sw_rt_action, takes, number(value.takes)),
                     FIELD(sw_rt_action, leaves, number(value.leaves)),
                     FIELD(sw_rt_action, peer, number(value.peer)),
                     FIELD(sw_rt_action, reserved, number(value.reserved))}});
}

#define ARENA(member)                                                          \
  { offsetof(sw_rt_arena, member), number(value.member) }

Constant *TableEmitter::arena(const sw_rt_arena &value) {
  return structure(
      {"sw_rt_arena",
       sizeof(sw_rt_arena),
       {ARENA(parameters), ARENA(gradients), ARENA(optimizer), ARENA(slots),
        ARENA(p2p), ARENA(comm), ARENA(workspace), ARENA(total),
        ARENA(parameters_bytes), ARENA(gradients_bytes), ARENA(optimizer_bytes),
        ARENA(slots_bytes), ARENA(p2p_bytes), ARENA(comm_bytes),
        ARENA(workspace_bytes), ARENA(elements), ARENA(optimizer_elements),
        ARENA(gradient_stream)}});
}

#undef ARENA

Constant *TableEmitter::chunk(const ChunkTable &value) {
  Constant *runs =
      arrayOf("runs", value.runs,
              [&](const sw_rt_run &element) { return run(element); });
  const sw_rt_chunk &rest = value.rest;
  return structure({"sw_rt_chunk",
                    sizeof(sw_rt_chunk),
                    {FIELD(sw_rt_chunk, num_runs,
                           number(static_cast<int32_t>(value.runs.size()))),
                     FIELD(sw_rt_chunk, num_slots, number(rest.num_slots)),
                     FIELD(sw_rt_chunk, runs, runs),
                     FIELD(sw_rt_chunk, first_slot, number(rest.first_slot)),
                     FIELD(sw_rt_chunk, slot_bytes, number(rest.slot_bytes)),
                     FIELD(sw_rt_chunk, position, number(rest.position)),
                     FIELD(sw_rt_chunk, reserved, number(rest.reserved))}});
}

Constant *TableEmitter::stage(const StageTable &value) {
  Constant *chunks =
      arrayOf("chunks", value.chunks,
              [&](const ChunkTable &element) { return chunk(element); });
  Constant *actions =
      arrayOf("actions", value.actions,
              [&](const sw_rt_action &element) { return action(element); });
  return structure(
      {"sw_rt_stage",
       sizeof(sw_rt_stage),
       {FIELD(sw_rt_stage, num_chunks,
              number(static_cast<int32_t>(value.chunks.size()))),
        FIELD(sw_rt_stage, num_actions,
              number(static_cast<int32_t>(value.actions.size()))),
        FIELD(sw_rt_stage, chunks, chunks),
        FIELD(sw_rt_stage, actions, actions),
        FIELD(sw_rt_stage, shared, block(value.shared)),
        FIELD(sw_rt_stage, shared_owners, number(value.sharedOwners)),
        FIELD(sw_rt_stage, reserved, number(uint32_t{0})),
        FIELD(sw_rt_stage, arena, arena(value.arena))}});
}

Constant *TableEmitter::axis(const std::pair<std::string, int64_t> &value) {
  return structure({"sw_rt_axis",
                    sizeof(sw_rt_axis),
                    {FIELD(sw_rt_axis, name, text(value.first)),
                     FIELD(sw_rt_axis, size, number(value.second))}});
}

#define SCALAR(member)                                                         \
  { offsetof(sw_rt_program, member), number(value.member) }

void TableEmitter::emit(const ProgramTable &table) {
  const sw_rt_program &value = table.rest;
  auto count = [&](size_t size) { return number(static_cast<int32_t>(size)); };
  Constant *axes = arrayOf(
      "axes", table.axes, [&](const auto &element) { return axis(element); });
  Constant *kinds =
      arrayOf("kinds", table.kinds,
              [&](const KindTable &element) { return kind(element); });
  Constant *stages =
      arrayOf("stages", table.stages,
              [&](const StageTable &element) { return stage(element); });
  Constant *program = structure(
      {"sw_rt_program",
       sizeof(sw_rt_program),
       {FIELD(sw_rt_program, abi_version, number(uint32_t{SW_RT_ABI_VERSION})),
        FIELD(sw_rt_program, struct_bytes,
              number(uint32_t{sizeof(sw_rt_program)})),
        FIELD(sw_rt_program, model, text(table.model)),
        FIELD(sw_rt_program, plan, text(table.plan)),
        FIELD(sw_rt_program, predicted, text(table.predicted)),
        FIELD(sw_rt_program, num_axes, count(table.axes.size())),
        FIELD(sw_rt_program, num_stages, count(table.stages.size())),
        FIELD(sw_rt_program, num_kinds, count(table.kinds.size())),
        SCALAR(pp_axis), SCALAR(dp_axis), SCALAR(zero),
        SCALAR(compute_dtype), SCALAR(param_dtype), SCALAR(grad_dtype),
        SCALAR(master_dtype), SCALAR(stat_dtype), SCALAR(vocab),
        SCALAR(sequence), SCALAR(micro_batch), SCALAR(global_batch),
        SCALAR(microbatches), SCALAR(stream_elements),
        FIELD(sw_rt_program, axes, axes), FIELD(sw_rt_program, kinds, kinds),
        FIELD(sw_rt_program, stages, stages),
        FIELD(sw_rt_program, update, function(table.update)),
        FIELD(sw_rt_program, device_code,
              table.deviceCode ? table.deviceCode : null())}});
  auto *global =
      new GlobalVariable(module, program->getType(), /*isConstant=*/true,
                         GlobalValue::ExternalLinkage, program, "sw_program");

  IRBuilder<> b(context);
  Type *i32 = b.getInt32Ty(), *pointer = b.getPtrTy();
  FunctionCallee run = module.getOrInsertFunction(
      "sw_rt_main", FunctionType::get(i32, {pointer, i32, pointer}, false));
  auto *main = Function::Create(FunctionType::get(i32, {i32, pointer}, false),
                                GlobalValue::ExternalLinkage, "main", module);
  b.SetInsertPoint(BasicBlock::Create(context, "", main));
  b.CreateRet(b.CreateCall(run, {global, main->getArg(0), main->getArg(1)}));
}

#undef SCALAR
#undef FIELD

void emitProgramTables(const ProgramTable &table, Module &module) {
  TableEmitter(module).emit(table);
}

} // namespace shardwright::codegen
