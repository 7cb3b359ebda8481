//===- FunctionEmitter.cpp - rt.func to LLVM IR ---------------------------===//
#include "compiler/Codegen/FunctionEmitter.h"

#include "compiler/Codegen/AttentionShapes.h"

#include "runtime/include/shardwright_program.h"

using namespace llvm;

namespace shardwright::codegen {

static_assert(static_cast<int>(rt::Base::Loss) == SW_RT_BASE_LOSS &&
                  static_cast<int>(rt::Base::Loss) + 1 == SW_RT_BASES,
              "bases of the dialect are those of the runtime");
static_assert(static_cast<int>(rt::ReduceKind::Max) == SW_RT_MAX,
              "reductions of the dialect are those of the runtime");

FunctionEmitter::FunctionEmitter(rt::FuncOp source, plan::MeshAttr mesh,
                                 const EmittedKernels &kernels, Module &module)
    : source(source), mesh(mesh), kernels(kernels), module(module),
      builder(module.getContext()) {
  function = Function::Create(
      FunctionType::get(builder.getInt32Ty(), {builder.getPtrTy()}, false),
      GlobalValue::InternalLinkage, source.getSymName(), module);
  builder.SetInsertPoint(
      BasicBlock::Create(module.getContext(), "entry", function));
}

/// Fields of sw_rt_frame: the context, then the bases.
mlir::LogicalResult FunctionEmitter::run() {
  auto field = [&](size_t offset, const char *name) {
    return builder.CreateLoad(
        builder.getPtrTy(),
        builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(),
                                           function->getArg(0), offset),
        name);
  };
  context = field(offsetof(sw_rt_frame, context), "context");
  // Unused ones vanish in the optimizer.
  for (int base = 0; base < SW_RT_BASES; ++base)
    bases.push_back(field(
        offsetof(sw_rt_frame, base) + base * sizeof(char *),
        rt::stringifyBase(static_cast<rt::Base>(base)).str().c_str()));
  for (mlir::Operation &op : source.getBody().front())
    if (mlir::failed(emit(&op)))
      return mlir::failure();
  builder.CreateRet(builder.getInt32(SW_RT_OK));
  return mlir::success();
}

mlir::LogicalResult FunctionEmitter::emit(mlir::Operation *op) {
  using mlir::dyn_cast;
  if (auto matmul = dyn_cast<rt::MatmulOp>(op))
    return emitMatmul(matmul), mlir::success();
  if (auto attention = dyn_cast<rt::AttentionFwdOp>(op))
    return emitAttention(attention), mlir::success();
  if (auto attention = dyn_cast<rt::AttentionBwdOp>(op))
    return emitAttentionGrad(attention), mlir::success();
  if (auto embedding = dyn_cast<rt::EmbeddingFwdOp>(op))
    return emitEmbedding(embedding), mlir::success();
  if (auto embedding = dyn_cast<rt::EmbeddingBwdOp>(op))
    return emitEmbeddingGrad(embedding), mlir::success();
  if (auto reduce = dyn_cast<rt::AllReduceOp>(op))
    return emitAllReduce(reduce), mlir::success();
  if (auto gather = dyn_cast<rt::AllGatherOp>(op))
    return emitAllGather(gather), mlir::success();
  if (auto scatter = dyn_cast<rt::ReduceScatterOp>(op))
    return emitReduceScatter(scatter), mlir::success();
  if (auto slice = dyn_cast<rt::SliceOp>(op))
    return emitSlice(slice), mlir::success();
  if (auto launch = dyn_cast<rt::LaunchOp>(op))
    return emitLaunch(launch);
  return op->emitOpError("is no call of the runtime");
}

Value *FunctionEmitter::address(rt::AddrAttr attribute) {
  return builder.CreateConstInBoundsGEP1_64(
      builder.getInt8Ty(), bases[static_cast<int>(attribute.getBase())],
      attribute.getOffset());
}

Value *FunctionEmitter::dtype(mlir::Type type) {
  return builder.getInt32(dtypeCode(type));
}

Value *FunctionEmitter::mask(mlir::ArrayAttr axes) {
  return builder.getInt32(axesMask(mesh, axes));
}

Value *FunctionEmitter::origin(mlir::ArrayAttr axes, int64_t extent) {
  if (!axes || axes.empty())
    return number(0);
  FunctionCallee coordinate = module.getOrInsertFunction(
      "sw_rt_coordinate", builder.getInt64Ty(), builder.getPtrTy(),
      builder.getInt32Ty());
  return builder.CreateMul(
      builder.CreateCall(coordinate, {context, mask(axes)}), number(extent));
}

static FunctionType *typeFor(Type *result, ArrayRef<Value *> arguments) {
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  return FunctionType::get(result, types, false);
}

void FunctionEmitter::call(StringRef name, ArrayRef<Value *> arguments) {
  builder.CreateCall(module.getOrInsertFunction(
                         name, typeFor(builder.getVoidTy(), arguments)),
                     arguments);
}

void FunctionEmitter::callChecked(StringRef name, ArrayRef<Value *> arguments) {
  LLVMContext &llvmContext = module.getContext();
  Value *status =
      builder.CreateCall(module.getOrInsertFunction(
                             name, typeFor(builder.getInt32Ty(), arguments)),
                         arguments);
  BasicBlock *failed = BasicBlock::Create(llvmContext, "failed", function);
  BasicBlock *next = BasicBlock::Create(llvmContext, "next", function);
  builder.CreateCondBr(
      builder.CreateICmpEQ(status, builder.getInt32(SW_RT_OK)), next, failed);
  builder.SetInsertPoint(failed);
  builder.CreateRet(status);
  builder.SetInsertPoint(next);
}

void FunctionEmitter::emitMatmul(rt::MatmulOp op) {
  auto flag = [&](bool value) { return builder.getInt32(value); };
  call("sw_rt_matmul",
       {context, dtype(op.getDtype()),
        dtype(op.getResultDtype().value_or(op.getDtype())),
        flag(op.getTransposeA()), flag(op.getTransposeB()), number(op.getM()),
        number(op.getN()), number(op.getK()), address(op.getA()),
        address(op.getB()), address(op.getC()), flag(op.getAccumulate())});
}

void FunctionEmitter::emitAttention(rt::AttentionFwdOp op) {
  call("sw_rt_attention_fwd",
       {context, dtype(op.getDtype()),
        emitAttentionShape(op, mesh, module),
        address(op.getQ()), address(op.getK()), address(op.getV()),
        address(op.getO()), address(op.getLse())});
}

void FunctionEmitter::emitAttentionGrad(rt::AttentionBwdOp op) {
  call("sw_rt_attention_bwd",
       {context, dtype(op.getDtype()),
        emitAttentionShape(op, mesh, module),
        address(op.getDO()), address(op.getQ()), address(op.getK()),
        address(op.getV()), address(op.getO()), address(op.getLse()),
        address(op.getDq()), address(op.getDk()), address(op.getDv())});
}

void FunctionEmitter::emitEmbedding(rt::EmbeddingFwdOp op) {
  call("sw_rt_embedding_fwd",
       {context, dtype(op.getDtype()), address(op.getIds()),
        number(op.getTokens()), address(op.getTable()),
        origin(op.getAxes(), op.getRows()), number(op.getRows()),
        number(op.getWidth()), address(op.getOutput())});
}

void FunctionEmitter::emitEmbeddingGrad(rt::EmbeddingBwdOp op) {
  call("sw_rt_embedding_bwd",
       {context, dtype(op.getDtype()),
        dtype(op.getTableDtype().value_or(op.getDtype())),
        address(op.getIds()),
        number(op.getTokens()), address(op.getDOutput()),
        origin(op.getAxes(), op.getRows()), number(op.getRows()),
        number(op.getWidth()), address(op.getDTable())});
}

void FunctionEmitter::emitAllReduce(rt::AllReduceOp op) {
  callChecked("sw_rt_all_reduce",
              {context, mask(op.getAxes()), dtype(op.getDtype()),
               builder.getInt32(static_cast<uint32_t>(op.getReduce())),
               address(op.getInput()), address(op.getOutput()),
               number(op.getCount())});
}

void FunctionEmitter::emitAllGather(rt::AllGatherOp op) {
  callChecked("sw_rt_all_gather",
              {context, mask(op.getAxes()), dtype(op.getDtype()),
               address(op.getInput()), address(op.getOutput()),
               number(op.getCount())});
}

void FunctionEmitter::emitReduceScatter(rt::ReduceScatterOp op) {
  callChecked("sw_rt_reduce_scatter",
              {context, mask(op.getAxes()), dtype(op.getDtype()),
               builder.getInt32(static_cast<uint32_t>(op.getReduce())),
               address(op.getInput()), address(op.getOutput()),
               number(op.getCount())});
}

/// Copies part `coordinate` of each row. The copies may coincide with their
/// source, never overlap it otherwise.
void FunctionEmitter::emitSlice(rt::SliceOp op) {
  Value *first = builder.CreateInBoundsGEP(
      builder.getInt8Ty(), address(op.getInput()),
      origin(op.getAxes(), op.getPartBytes()));
  callChecked("sw_rt_copy_rows",
              {context, first, number(op.getStrideBytes()),
               address(op.getOutput()), number(op.getPartBytes()),
               number(op.getPartBytes()), number(op.getRows())});
}

Value *FunctionEmitter::list(ArrayRef<Value *> arguments) {
  IRBuilder<> entry(&function->getEntryBlock(),
                    function->getEntryBlock().begin());
  Value *list = entry.CreateAlloca(
      ArrayType::get(builder.getPtrTy(), arguments.size()));
  for (auto [index, argument] : llvm::enumerate(arguments))
    builder.CreateStore(argument,
                        builder.CreateConstInBoundsGEP1_64(builder.getPtrTy(),
                                                           list, index));
  return list;
}

mlir::LogicalResult FunctionEmitter::emitLaunch(rt::LaunchOp op) {
  auto kernel = kernels.find(op.getKernel().str());
  if (kernel == kernels.end())
    return op.emitOpError() << "expected a kernel, but got '@"
                            << op.getKernel() << "'";
  SmallVector<Value *> arguments;
  for (mlir::ArrayAttr list : {op.getInputs(), op.getOutputs()})
    for (auto attribute : list.getAsRange<rt::AddrAttr>())
      arguments.push_back(address(attribute));
  const Origin &position = kernel->second.position;
  const Origin &column = kernel->second.column;
  arguments.push_back(origin(position.axes, position.extent));
  arguments.push_back(origin(column.axes, column.extent));
  if (arguments.size() != kernel->second.buffers + 2)
    return op.emitOpError() << "expected the addresses of '@" << op.getKernel()
                            << "', but got " << arguments.size() - 2;
  if (kernel->second.device) {
    callChecked("sw_rt_launch",
                {context, kernel->second.device, list(arguments)});
    return mlir::success();
  }
  const RowUnits &units = kernel->second.units;
  if (!units.areWorthThreads()) {
    builder.CreateCall(kernel->second.function, arguments);
    return mlir::success();
  }
  call("sw_rt_parallel",
       {context, kernel->second.function, list(arguments),
        number(units.extent), number(units.grain)});
  return mlir::success();
}

} // namespace shardwright::codegen
