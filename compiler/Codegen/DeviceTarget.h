//===- DeviceTarget.h - Row programs on a block of a GPU --------*- C++ -*-===//
//
// The threads of a block share a row: thread t does columns t, t + threads, ...
// A fold is a tree: within a thread, by shuffles within a warp, then over the
// warps in shared memory; its shape depends on the block alone. Math functions
// are polynomials (DeviceMath.cpp), so that nothing outside of the kernel is
// called. Arithmetic is f32; angles are f64.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_DEVICETARGET_H
#define SHARDWRIGHT_COMPILER_CODEGEN_DEVICETARGET_H

#include "compiler/Codegen/RowTarget.h"

#include "llvm/IR/Module.h"

namespace shardwright::codegen {

/// Threads that execute together and exchange registers.
inline constexpr int64_t kWarp = 32;

class DeviceTarget final : public RowTarget {
public:
  /// Emits into `builder`, at the entry of a kernel that runs in blocks of
  /// `threads` threads, a multiple of kWarp.
  DeviceTarget(llvm::IRBuilder<> &builder, int64_t threads);

  llvm::Value *thread() const { return threadIndex; } ///< i64
  llvm::Value *block() const { return blockIndex; }   ///< i64
  int64_t threads() const { return threadCount; }

  /// This block does columns [first, first + span) of its row only.
  void setSpan(llvm::Value *first, int64_t span) {
    spanFirst = first;
    spanColumns = span;
  }
  /// What follows runs several times: shared memory is written again.
  void setRepeats() { repeats = true; }
  /// Shared memory of the block, as a generic pointer.
  llvm::Value *shared(llvm::Module &module, llvm::Type *type, int64_t elements);

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

private:
  /// Carries values through the columns of this thread from `start` on, some
  /// columns together, so that their loads are under way at once.
  Values
  walk(llvm::IRBuilder<> &builder, llvm::Value *start, llvm::Value *last,
       llvm::ArrayRef<llvm::Value *> initial,
       llvm::function_ref<Values(llvm::Value *column,
                                 llvm::ArrayRef<llvm::Value *> carried)>
           body);

  int64_t threadCount;
  llvm::Value *threadIndex, *blockIndex;
  llvm::Value *spanFirst = nullptr;
  int64_t spanColumns = 0;
  bool repeats = false;
};

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_DEVICETARGET_H
