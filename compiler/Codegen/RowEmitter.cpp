//===- RowEmitter.cpp - Row programs to LLVM IR ---------------------------===//
#include "compiler/Codegen/RowEmitter.h"

#include "compiler/Codegen/RowContext.h"

#include "llvm/IR/Verifier.h"

using namespace llvm;

namespace shardwright::codegen {

static void emitRowOp(RowContext &context, size_t number) {
  const RowOp &op = context.program.ops[number];
  switch (op.kind) {
  case RowOpKind::Add:
  case RowOpKind::BiasAdd:
  case RowOpKind::Swiglu:
  case RowOpKind::SwigluGrad:
  case RowOpKind::Gelu:
  case RowOpKind::GeluGrad:
  case RowOpKind::Relu:
  case RowOpKind::ReluGrad:
  case RowOpKind::Scale:
  case RowOpKind::Softcap:
  case RowOpKind::SoftcapGrad:
  case RowOpKind::Fill:
  case RowOpKind::Clip:
  case RowOpKind::ClipGrad:
  case RowOpKind::AddPositions:
    return emitMap(context, op);
  case RowOpKind::Rope:
    return emitRope(context, number);
  case RowOpKind::RmsNorm:
  case RowOpKind::RmsNormGrad:
  case RowOpKind::LayerNorm:
  case RowOpKind::LayerNormGrad:
    return emitNorm(context, op);
  case RowOpKind::MaxLogit:
  case RowOpKind::SumExp:
  case RowOpKind::TargetLogit:
  case RowOpKind::SoftmaxGrad:
    return emitCrossEntropy(context, op);
  case RowOpKind::TokenLoss:
  case RowOpKind::ColumnSum:
  case RowOpKind::RmsNormWeightGrad:
  case RowOpKind::LayerNormWeightGrad:
  case RowOpKind::AddPositionsGrad:
    return emitRowSum(context, op);
  }
}

/// One loop over rows for ops [first, last).
static void emitRows(RowContext &context, size_t first, size_t last) {
  IRBuilder<> &builder = context.builder;
  const RowProgram &program = context.program;
  emitUnits(context, program.outer, [&](Value *outer) {
    context.outer = outer;
    for (size_t op = first; op < last; ++op)
      if (program.ops[op].kind == RowOpKind::Rope)
        emitRopeTables(context, op);
    emitLoop(builder, context.count(program.inner), [&](Value *inner) {
      context.row = builder.CreateAdd(
          builder.CreateMul(outer, context.count(program.inner)), inner, "row");
      for (size_t op = first; op < last; ++op)
        emitRowOp(context, op);
    });
  });
  context.outer = context.row = nullptr;
}

RowUnits rowUnits(const RowProgram &program) {
  constexpr int64_t elementsWorthThread = 1 << 15; // some 10 us of one core
  constexpr int64_t columns = 32; // keeps vectors whole
  int64_t elements = 0;           // of a unit
  RowUnits units;
  for (const RowOp &op : program.ops) {
    if (reducesRows(op.kind) &&
        (program.ops.size() > 1 || op.kind == RowOpKind::TokenLoss ||
         (op.kind == RowOpKind::AddPositionsGrad && !op.accumulate)))
      return {};
    elements += program.inner * op.width;
  }
  units.extent = program.outer;
  const RowOpKind kind = program.ops.front().kind;
  const bool sumsColumns =
      reducesRows(kind) && kind != RowOpKind::AddPositionsGrad;
  if (sumsColumns) {
    units.extent = program.ops.front().width;
    elements = program.outer * program.inner;
  }
  units.grain = std::max<int64_t>(1, elementsWorthThread / elements);
  if (sumsColumns)
    units.grain = (units.grain + columns - 1) / columns * columns;
  return units;
}

/// As emitRowProgram; if `ranged` with two more parameters, the units to do.
static Function *emitFunction(const RowProgram &program, Module &module,
                              bool ranged) {
  LLVMContext &llvmContext = module.getContext();
  IRBuilder<> builder(llvmContext);
  FastMathFlags flags;
  flags.setAllowContract();
  builder.setFastMathFlags(flags);

  SmallVector<Type *> parameters(program.buffers, builder.getPtrTy());
  parameters.append(ranged ? 4 : 2, builder.getInt64Ty());
  auto *function = Function::Create(
      FunctionType::get(builder.getVoidTy(), parameters, false),
      GlobalValue::InternalLinkage, program.name, module);
  function->setDoesNotThrow();
  for (int number = 0; number < program.buffers; ++number)
    function->addParamAttr(number, Attribute::NoAlias);

  builder.SetInsertPoint(BasicBlock::Create(llvmContext, "entry", function));
  RowContext context{builder,
                     program,
                     function,
                     program.element == Element::F64 ? builder.getDoubleTy()
                                                     : builder.getFloatTy(),
                     function->getArg(program.buffers),
                     function->getArg(program.buffers + 1),
                     ranged ? function->getArg(program.buffers + 2) : nullptr,
                     ranged ? function->getArg(program.buffers + 3) : nullptr,
                     nullptr,
                     nullptr,
                     {}};
  context.ropeTables.resize(program.ops.size());
  for (size_t op = 0; op < program.ops.size(); ++op)
    if (program.ops[op].kind == RowOpKind::Rope) {
      auto *table = ArrayType::get(
          context.type, program.ops[op].inverseFrequencies.size());
      context.ropeTables[op].first = builder.CreateAlloca(table);
      context.ropeTables[op].second = builder.CreateAlloca(table);
    }

  for (size_t first = 0; first < program.ops.size();) {
    if (reducesRows(program.ops[first].kind)) {
      emitRowOp(context, first++);
      continue;
    }
    size_t last = first;
    while (last < program.ops.size() && !reducesRows(program.ops[last].kind))
      ++last;
    emitRows(context, first, last);
    first = last;
  }
  builder.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the emitter made invalid IR");
  return function;
}

Function *emitRowProgram(const RowProgram &program, Module &module) {
  return emitFunction(program, module, /*ranged=*/false);
}

Function *emitRowRange(const RowProgram &program, Module &module) {
  Function *callee = emitFunction(program, module, /*ranged=*/true);
  IRBuilder<> b(module.getContext());
  auto *function = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false),
      GlobalValue::InternalLinkage, program.name + ".units", module);
  function->setDoesNotThrow();
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", function));
  SmallVector<Value *> arguments;
  for (int number = 0; number < program.buffers + 2; ++number) {
    Type *type = callee->getFunctionType()->getParamType(number);
    arguments.push_back(b.CreateLoad(
        type, b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0),
                                           number)));
  }
  arguments.append({function->getArg(1), function->getArg(2)});
  b.CreateCall(callee, arguments);
  b.CreateRetVoid();
  return function;
}

} // namespace shardwright::codegen
