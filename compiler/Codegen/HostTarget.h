//===- HostTarget.h - Row programs on a core of the host --------*- C++ -*-===//
//
// The loops are plain; LLVM's vectorizer makes them wide. Only sums that run
// along a row or over rows may be reassociated; exp, log, sin, cos and erf come
// from libmvec.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_HOSTTARGET_H
#define SHARDWRIGHT_COMPILER_CODEGEN_HOSTTARGET_H

#include "compiler/Codegen/RowTarget.h"

namespace shardwright::codegen {

class HostTarget final : public RowTarget {
public:
  void columns(RowContext &context, llvm::Value *first, llvm::Value *last,
               llvm::function_ref<void(llvm::Value *)> body) override;
  void headColumns(
      RowContext &context, int64_t heads, int64_t first, int64_t last,
      llvm::function_ref<void(llvm::Value *, llvm::Value *)> body) override;
  Values fold(RowContext &context, llvm::Value *count,
              llvm::ArrayRef<Fold> folds,
              llvm::function_ref<Values(llvm::Value *)> terms) override;
  void once(RowContext &context, llvm::function_ref<void()> body) override;
  void meet(RowContext &context) override;
  Place table(RowContext &context, int64_t elements) override;
  llvm::Value *exp(llvm::IRBuilder<> &builder, llvm::Value *x) override;
  llvm::Value *log(llvm::IRBuilder<> &builder, llvm::Value *x) override;
  llvm::Value *erf(llvm::IRBuilder<> &builder, llvm::Value *x) override;
  std::pair<llvm::Value *, llvm::Value *>
  cosSin(llvm::IRBuilder<> &builder, llvm::Value *angle) override;
  llvm::Value *roundToBf16(llvm::IRBuilder<> &builder,
                           llvm::Value *value) override;
};

/// Rounds f32 to bf16 by integer arithmetic: a conversion would be a call of a
/// function that not every libgcc has.
llvm::Value *emitRoundToBf16(llvm::IRBuilder<> &builder, llvm::Value *value);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_HOSTTARGET_H
