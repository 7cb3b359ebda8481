//===- HostTarget.cpp - Row programs on a core of the host ----------------===//
#include "compiler/Codegen/HostTarget.h"

#include "compiler/Codegen/RowContext.h"

#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

namespace shardwright::codegen {

void HostTarget::columns(RowContext &context, Value *first, Value *last,
                         function_ref<void(Value *)> body) {
  emitLoop(context.builder, first, last, body);
}

void HostTarget::headColumns(RowContext &context, int64_t heads, int64_t first,
                             int64_t last,
                             function_ref<void(Value *, Value *)> body) {
  emitLoop(context.builder, context.count(heads), [&](Value *head) {
    emitLoop(context.builder, context.count(first), context.count(last),
             [&](Value *column) { body(head, column); });
  });
}

Values HostTarget::fold(RowContext &context, Value *count, ArrayRef<Fold> folds,
                        function_ref<Values(Value *)> terms) {
  return emitCarriedLoop(
      context.builder, count, context.identities(folds),
      [&](Value *column, ArrayRef<Value *> carried) -> Values {
        return context.combineAll(folds, carried, terms(column));
      });
}

void HostTarget::once(RowContext &, function_ref<void()> body) { body(); }

void HostTarget::meet(RowContext &) {}

Place HostTarget::table(RowContext &context, int64_t elements) {
  BasicBlock &entry = context.function->getEntryBlock();
  IRBuilder<> b(&entry, entry.begin());
  return {b.CreateAlloca(ArrayType::get(context.type, elements)),
          context.program.element};
}

Value *HostTarget::exp(IRBuilder<> &builder, Value *x) {
  return builder.CreateUnaryIntrinsic(Intrinsic::exp, x);
}

Value *HostTarget::log(IRBuilder<> &builder, Value *x) {
  return builder.CreateUnaryIntrinsic(Intrinsic::log, x);
}

std::pair<Value *, Value *> HostTarget::cosSin(IRBuilder<> &builder,
                                               Value *angle) {
  Value *cosine = builder.CreateUnaryIntrinsic(Intrinsic::cos, angle);
  return {cosine, builder.CreateUnaryIntrinsic(Intrinsic::sin, angle)};
}

/// glibc's vector library has erf, but LLVM's table of that library does not:
/// the call carries the variants itself.
Value *HostTarget::erf(IRBuilder<> &builder, Value *x) {
  Module &module = *builder.GetInsertBlock()->getModule();
  Type *type = x->getType();
  const bool isDouble = type->isDoubleTy();
  StringRef name = isDouble ? "erf" : "erff";
  FunctionCallee scalar = module.getOrInsertFunction(name, type, type);
  auto *scalarFunction = cast<Function>(scalar.getCallee());
  scalarFunction->setDoesNotThrow();
  scalarFunction->setMemoryEffects(MemoryEffects::none());
  scalarFunction->addFnAttr(Attribute::WillReturn);

  const unsigned lanes = isDouble ? 4 : 8;
  const std::string vectorName =
      ("_ZGVdN" + Twine(lanes) + "v_" + name).str();
  auto *vectorType = FixedVectorType::get(type, lanes);
  FunctionCallee vector =
      module.getOrInsertFunction(vectorName, vectorType, vectorType);
  auto *vectorFunction = cast<Function>(vector.getCallee());
  vectorFunction->setDoesNotThrow();
  vectorFunction->setMemoryEffects(MemoryEffects::none());
  vectorFunction->addFnAttr(Attribute::WillReturn);
  appendToCompilerUsed(module, vectorFunction);

  CallInst *call = builder.CreateCall(scalar, x);
  call->addFnAttr(Attribute::get(
      module.getContext(), "vector-function-abi-variant",
      "_ZGV_LLVM_N" + std::to_string(lanes) + "v_" + name.str() + "(" +
          vectorName + ")"));
  return call;
}

Value *HostTarget::roundToBf16(IRBuilder<> &builder, Value *value) {
  return emitRoundToBf16(builder, value);
}

Value *emitRoundToBf16(IRBuilder<> &b, Value *value) {
  Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  Value *rounded =
      b.CreateAdd(bits, b.CreateAdd(odd, b.getInt32(0x7fff)));
  // Rounding could carry a NaN into infinity: it is made quiet and cut.
  Value *quiet = b.CreateOr(bits, b.getInt32(0x400000));
  Value *chosen =
      b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  return b.CreateTrunc(b.CreateLShr(chosen, 16), b.getInt16Ty());
}

} // namespace shardwright::codegen
