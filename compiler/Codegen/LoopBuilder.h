//===- LoopBuilder.h - Counted loops in LLVM IR -----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_LOOPBUILDER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_LOOPBUILDER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"

namespace shardwright::codegen {

using Values = llvm::SmallVector<llvm::Value *, 4>;

/// Emits `for (index = 0; index < count; ++index) body(index)` in the form that
/// LLVM's vectorizer takes. `count` is i64; the builder is left behind the
/// loop.
void emitLoop(llvm::IRBuilder<> &builder, llvm::Value *count,
              llvm::function_ref<void(llvm::Value *index)> body);
/// As above from `first` on.
void emitLoop(llvm::IRBuilder<> &builder, llvm::Value *first,
              llvm::Value *count,
              llvm::function_ref<void(llvm::Value *index)> body);

/// A loop that carries values: `body` returns those of the next iteration.
/// Returns the last ones.
Values emitCarriedLoop(
    llvm::IRBuilder<> &builder, llvm::Value *count,
    llvm::ArrayRef<llvm::Value *> initial,
    llvm::function_ref<Values(llvm::Value *index,
                              llvm::ArrayRef<llvm::Value *> carried)>
        body);

/// As above from `first` on, in steps of `step`.
Values emitStridedLoop(
    llvm::IRBuilder<> &builder, llvm::Value *first, llvm::Value *count,
    int64_t step, llvm::ArrayRef<llvm::Value *> initial,
    llvm::function_ref<Values(llvm::Value *index,
                              llvm::ArrayRef<llvm::Value *> carried)>
        body);

/// Folds values in pairs, neighbours first: a tree whose shape depends on their
/// number alone.
llvm::Value *
emitTree(llvm::ArrayRef<llvm::Value *> values,
         llvm::function_ref<llvm::Value *(llvm::Value *, llvm::Value *)>
             combine);

/// Lets everything that the builder makes be contracted to fused multiply-adds.
llvm::IRBuilder<> &allowContraction(llvm::IRBuilder<> &builder);

/// Emits `if (condition) body()`.
void emitIf(llvm::IRBuilder<> &builder, llvm::Value *condition,
            llvm::function_ref<void()> body);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_LOOPBUILDER_H
