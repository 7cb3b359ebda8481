//===- RowContext.h - What the emission of one row op works with *- C++ -*-===//
//
// Private to compiler/Codegen/Row*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H

#include "compiler/Codegen/LoopBuilder.h"
#include "compiler/Codegen/RowProgram.h"

#include "llvm/IR/Module.h"

namespace shardwright::codegen {

struct RowContext {
  llvm::IRBuilder<> &builder;
  const RowProgram &program;
  llvm::Function *function;
  llvm::Type *type; ///< of an element
  llvm::Value *positionOrigin, *columnOrigin;
  llvm::Value *first, *last; ///< units to do (RowUnits); null: all
  llvm::Value *outer = nullptr; ///< index of the position, in a row loop
  llvm::Value *row = nullptr;   ///< index of the row, in a row loop
  /// Per op of the program: cos and sin tables of the position (Rope only).
  std::vector<std::pair<llvm::Value *, llvm::Value *>> ropeTables;

  llvm::Value *count(int64_t number) { return builder.getInt64(number); }
  llvm::Value *real(double number) {
    return llvm::ConstantFP::get(type, number);
  }
  llvm::Value *buffer(int number) { return function->getArg(number); }
  /// Element `index` (i64) of `buffer`.
  llvm::Value *at(llvm::Value *base, llvm::Value *index) {
    return builder.CreateInBoundsGEP(type, base, index);
  }
  llvm::Value *load(llvm::Value *base, llvm::Value *index) {
    return builder.CreateLoad(type, at(base, index));
  }
  void store(const RowOp &op, llvm::Value *value, llvm::Value *base,
             llvm::Value *index) {
    if (op.accumulate)
      value = builder.CreateFAdd(load(base, index), value);
    builder.CreateStore(value, at(base, index));
  }
  /// Start of the current row of a buffer whose rows have `width` elements.
  llvm::Value *rowOf(int number, int64_t width) {
    return at(buffer(number), builder.CreateMul(row, count(width)));
  }
  /// i32 label of the current row, as i64.
  llvm::Value *label(int number) {
    llvm::Value *address = builder.CreateInBoundsGEP(builder.getInt32Ty(),
                                                     buffer(number), row);
    return builder.CreateSExt(
        builder.CreateLoad(builder.getInt32Ty(), address),
        builder.getInt64Ty());
  }

  /// a + b where the order of a sum may change.
  llvm::Value *sum(llvm::Value *a, llvm::Value *b) {
    llvm::FastMathFlags flags = builder.getFastMathFlags();
    flags.setAllowReassoc();
    return builder.CreateFAddFMF(a, b, flags);
  }
  llvm::Value *call(llvm::Intrinsic::ID intrinsic, llvm::Value *operand) {
    return builder.CreateUnaryIntrinsic(intrinsic, operand);
  }
  llvm::Value *exp(llvm::Value *x) { return call(llvm::Intrinsic::exp, x); }
  /// 1 / (1 + exp(-x)); exact limits at both ends.
  llvm::Value *sigmoid(llvm::Value *x) {
    return builder.CreateFDiv(
        real(1), builder.CreateFAdd(real(1), exp(builder.CreateFNeg(x))));
  }
  int64_t rows() const { return program.outer * program.inner; }
};

/// A loop over the units to do, of which there are `extent`.
inline void emitUnits(RowContext &context, int64_t extent,
                      llvm::function_ref<void(llvm::Value *unit)> body) {
  emitLoop(context.builder, context.first ? context.first : context.count(0),
           context.last ? context.last : context.count(extent), body);
}

// One function per family of ops; each emits the code of one row, or of all
// rows for the sums over rows.
void emitMap(RowContext &context, const RowOp &op);
void emitNorm(RowContext &context, const RowOp &op);
/// Fills the cos and sin tables of the current position.
void emitRopeTables(RowContext &context, size_t op);
void emitRope(RowContext &context, size_t op);
void emitCrossEntropy(RowContext &context, const RowOp &op);
void emitRowSum(RowContext &context, const RowOp &op);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H
