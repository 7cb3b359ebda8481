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
  emitLoop(builder, context.count(program.outer), [&](Value *outer) {
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

Function *emitRowProgram(const RowProgram &program, Module &module) {
  LLVMContext &llvmContext = module.getContext();
  IRBuilder<> builder(llvmContext);
  FastMathFlags flags;
  flags.setAllowContract();
  builder.setFastMathFlags(flags);

  SmallVector<Type *> parameters(program.buffers, builder.getPtrTy());
  parameters.append(2, builder.getInt64Ty());
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
                     nullptr,
                     nullptr,
                     {}};
  context.ropeTables.resize(program.ops.size());
  for (size_t op = 0; op < program.ops.size(); ++op)
    if (program.ops[op].kind == RowOpKind::Rope) {
      auto *table =
          ArrayType::get(context.type, program.ops[op].headDim / 2);
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

} // namespace shardwright::codegen
