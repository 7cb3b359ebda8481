//===- RowTarget.h - How row programs run on a target -----------*- C++ -*-===//
//
// The formulas of the row ops (Row*.cpp) are written once. What differs between
// a core of the host, which walks a row, and a block of threads of a GPU, which
// share it, stands behind this interface.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ROWTARGET_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ROWTARGET_H

#include "compiler/Codegen/LoopBuilder.h"
#include "compiler/Codegen/RowProgram.h"

namespace shardwright::codegen {

struct Place;
struct RowContext;

/// How the terms of a reduction meet.
enum class Fold { Sum, Max };

class RowTarget {
public:
  virtual ~RowTarget() = default;

  /// Runs `body` for the columns [first, last) of a row, in any order.
  virtual void columns(RowContext &context, llvm::Value *first,
                       llvm::Value *last,
                       llvm::function_ref<void(llvm::Value *column)> body) = 0;
  /// Runs `body` for columns [first, last) of each head, in any order.
  virtual void
  headColumns(RowContext &context, int64_t heads, int64_t first, int64_t last,
              llvm::function_ref<void(llvm::Value *head, llvm::Value *column)>
                  body) = 0;
  /// Folds what `terms` gives for each of `count` columns; one value per entry
  /// of `folds`, the same wherever it is used. A sum may run in any order.
  virtual Values fold(RowContext &context, llvm::Value *count,
                      llvm::ArrayRef<Fold> folds,
                      llvm::function_ref<Values(llvm::Value *column)> terms) = 0;
  /// Runs `body` once a row.
  virtual void once(RowContext &context, llvm::function_ref<void()> body) = 0;
  /// Behind it, all that was stored for this row can be loaded.
  virtual void meet(RowContext &context) = 0;
  /// Memory for `elements` of the arithmetic type, for the current rows.
  virtual Place table(RowContext &context, int64_t elements) = 0;

  virtual llvm::Value *exp(llvm::IRBuilder<> &builder, llvm::Value *x) = 0;
  virtual llvm::Value *log(llvm::IRBuilder<> &builder, llvm::Value *x) = 0;
  virtual llvm::Value *erf(llvm::IRBuilder<> &builder, llvm::Value *x) = 0;
  /// Cosine and sine of an f64 angle.
  virtual std::pair<llvm::Value *, llvm::Value *>
  cosSin(llvm::IRBuilder<> &builder, llvm::Value *angle) = 0;
  /// f32 to bf16 as i16, to nearest, ties to even; NaN stays NaN.
  virtual llvm::Value *roundToBf16(llvm::IRBuilder<> &builder,
                                   llvm::Value *value) = 0;
};

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ROWTARGET_H
