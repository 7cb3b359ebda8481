//===- RowContext.h - What the emission of one row op works with *- C++ -*-===//
//
// Private to compiler/Codegen/{Row,Host,Device}*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H

#include "compiler/Codegen/LoopBuilder.h"
#include "compiler/Codegen/RowTarget.h"

#include "llvm/IR/Module.h"

namespace shardwright::codegen {

/// A place in a buffer, and what the elements there are stored as.
struct Place {
  llvm::Value *base = nullptr;
  Element element = Element::F32;
};

struct RowContext {
  llvm::IRBuilder<> &builder;
  RowTarget &target;
  const RowProgram &program;
  llvm::Function *function;
  llvm::Type *type; ///< of arithmetic
  llvm::Value *positionOrigin, *columnOrigin;
  llvm::Value *outer = nullptr; ///< index of the position, in a row loop
  llvm::Value *row = nullptr;   ///< index of the row, in a row loop
  /// Per op of the program: cos and sin tables of the position (Rope only).
  std::vector<std::pair<Place, Place>> ropeTables = {};

  llvm::Module &module() { return *function->getParent(); }
  llvm::Value *count(int64_t number) { return builder.getInt64(number); }
  llvm::Value *real(double number) {
    return llvm::ConstantFP::get(type, number);
  }
  Place buffer(int number) {
    return {function->getArg(number), program.stored(number)};
  }
  /// Element `index` (i64) of what starts at `place`.
  Place at(Place place, llvm::Value *index) {
    return {builder.CreateInBoundsGEP(storageType(place.element), place.base,
                                      index),
            place.element};
  }
  llvm::Value *load(Place place) {
    llvm::Value *stored =
        builder.CreateLoad(storageType(place.element), place.base);
    return place.element == Element::BF16 ? widen(stored) : stored;
  }
  llvm::Value *load(Place place, llvm::Value *index) {
    return load(at(place, index));
  }
  void store(llvm::Value *value, Place place) {
    if (place.element == Element::BF16)
      value = target.roundToBf16(builder, value);
    builder.CreateStore(value, place.base);
  }
  /// Stores a result of `op`, or adds it if the op accumulates.
  void store(const RowOp &op, llvm::Value *value, Place place,
             llvm::Value *index) {
    place = at(place, index);
    if (op.accumulate)
      value = builder.CreateFAdd(load(place), value);
    store(value, place);
  }
  /// Start of the current row of a buffer whose rows have `width` elements.
  Place rowOf(int number, int64_t width) {
    return at(buffer(number), builder.CreateMul(row, count(width)));
  }
  /// i32 label of the current row, as i64.
  llvm::Value *label(int number) {
    llvm::Value *address = builder.CreateInBoundsGEP(
        builder.getInt32Ty(), function->getArg(number), row);
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
  /// What a fold starts from, and one step of it.
  llvm::Value *identity(Fold fold) {
    return fold == Fold::Sum
               ? real(0)
               : llvm::ConstantFP::getInfinity(type, /*Negative=*/true);
  }
  llvm::Value *combine(Fold fold, llvm::Value *x, llvm::Value *y) {
    return fold == Fold::Sum ? sum(x, y) : builder.CreateMaximum(x, y);
  }
  Values identities(llvm::ArrayRef<Fold> folds) {
    Values result;
    for (Fold fold : folds)
      result.push_back(identity(fold));
    return result;
  }
  Values combineAll(llvm::ArrayRef<Fold> folds,
                    llvm::ArrayRef<llvm::Value *> before, const Values &terms) {
    Values result;
    for (auto [fold, x, y] : llvm::zip(folds, before, terms))
      result.push_back(combine(fold, x, y));
    return result;
  }
  llvm::Value *call(llvm::Intrinsic::ID intrinsic, llvm::Value *operand) {
    return builder.CreateUnaryIntrinsic(intrinsic, operand);
  }
  llvm::Value *exp(llvm::Value *x) { return target.exp(builder, x); }
  /// 1 / (1 + exp(-x)); exact limits at both ends. A GPU may take its
  /// approximate reciprocal, good to 1 ulp: the exact one is a call whose
  /// registers are spilled.
  llvm::Value *sigmoid(llvm::Value *x) {
    llvm::FastMathFlags flags = builder.getFastMathFlags();
    flags.setApproxFunc();
    return builder.CreateFDivFMF(
        real(1), builder.CreateFAdd(real(1), exp(builder.CreateFNeg(x))),
        flags);
  }
  /// Runs `body` for every column of a row of `width`.
  void columns(int64_t width, llvm::function_ref<void(llvm::Value *)> body) {
    target.columns(*this, count(0), count(width), body);
  }
  int64_t rows() const { return program.outer * program.inner; }

private:
  llvm::Type *storageType(Element element) {
    switch (element) {
    case Element::F32:
      return builder.getFloatTy();
    case Element::F64:
      return builder.getDoubleTy();
    case Element::BF16:
      return builder.getInt16Ty();
    }
    return nullptr;
  }
  /// bf16 is the upper half of an f32.
  llvm::Value *widen(llvm::Value *half) {
    llvm::Value *bits =
        builder.CreateShl(builder.CreateZExt(half, builder.getInt32Ty()), 16);
    return builder.CreateBitCast(bits, builder.getFloatTy());
  }
};

// One function per family of ops; each emits the code of one row.
void emitMap(RowContext &context, const RowOp &op);
void emitNorm(RowContext &context, const RowOp &op);
/// Fills the cos and sin tables of the current position.
void emitRopeTables(RowContext &context, size_t op);
void emitRope(RowContext &context, size_t op);
void emitCrossEntropy(RowContext &context, const RowOp &op);
/// Op `number` of the program; not one that sums over rows.
void emitRowOp(RowContext &context, size_t number);
/// Makes room for the tables of the Rope ops in [first, last).
void makeRopeTables(RowContext &context, size_t first, size_t last);

// What ops that sum over rows share between targets.

/// What a sum needs of one row: pointers and scalars loaded before the loop
/// over its columns.
struct SummedRow {
  llvm::SmallVector<Place, 2> rows;
  llvm::SmallVector<llvm::Value *, 2> scalars;
};
SummedRow summedRow(RowContext &context, const RowOp &op, llvm::Value *row);
/// The summand of `row` in `column`.
llvm::Value *emitSummand(RowContext &context, const RowOp &op,
                         const SummedRow &row, llvm::Value *column);
void emitTokenLoss(RowContext &context, const RowOp &op);
/// First column of the row of the table that the current position adds to.
llvm::Value *emitTableRow(RowContext &context, const RowOp &op);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ROWCONTEXT_H
