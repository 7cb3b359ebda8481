//===- FunctionEmitter.h - rt.func to LLVM IR -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_FUNCTIONEMITTER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_FUNCTIONEMITTER_H

#include "compiler/Codegen/KernelRows.h"
#include "compiler/Codegen/RowEmitter.h"

#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtOps.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <string>

namespace shardwright::codegen {

/// A kernel in the LLVM module.
struct EmittedKernel {
  /// The host's: an sw_rt_range if units are worth it.
  llvm::Function *function = nullptr;
  RowUnits units;
  llvm::Constant *device = nullptr; ///< a device's: address of sw_rt_kernel
  size_t buffers = 0;
  Origin position, column;
};
using EmittedKernels = std::map<std::string, EmittedKernel>;

/// Emits one rt.func as `sw_rt_status name(sw_rt_frame *frame)`: one call per
/// op; a status other than SW_RT_OK returns at once.
class FunctionEmitter {
public:
  FunctionEmitter(rt::FuncOp source, plan::MeshAttr mesh,
                  const EmittedKernels &kernels, llvm::Module &module);
  mlir::LogicalResult run();

private:
  mlir::LogicalResult emit(mlir::Operation *op);
  void emitMatmul(rt::MatmulOp op);
  void emitAttention(rt::AttentionFwdOp op);
  void emitAttentionGrad(rt::AttentionBwdOp op);
  void emitEmbedding(rt::EmbeddingFwdOp op);
  void emitEmbeddingGrad(rt::EmbeddingBwdOp op);
  void emitAllReduce(rt::AllReduceOp op);
  void emitAllGather(rt::AllGatherOp op);
  void emitReduceScatter(rt::ReduceScatterOp op);
  void emitSlice(rt::SliceOp op);
  mlir::LogicalResult emitLaunch(rt::LaunchOp op);
  /// Address of a list that holds `arguments`.
  llvm::Value *list(llvm::ArrayRef<llvm::Value *> arguments);

  llvm::Value *address(rt::AddrAttr attribute);
  llvm::Value *dtype(mlir::Type type);
  llvm::Value *mask(mlir::ArrayAttr axes);
  /// Coordinate of this rank on `axes` times `extent`.
  llvm::Value *origin(mlir::ArrayAttr axes, int64_t extent);
  llvm::Value *number(int64_t value) { return builder.getInt64(value); }
  void call(llvm::StringRef name, llvm::ArrayRef<llvm::Value *> arguments);
  void callChecked(llvm::StringRef name,
                   llvm::ArrayRef<llvm::Value *> arguments);

  rt::FuncOp source;
  plan::MeshAttr mesh;
  const EmittedKernels &kernels;
  llvm::Module &module;
  llvm::IRBuilder<> builder;
  llvm::Function *function;
  llvm::Value *context = nullptr;
  llvm::SmallVector<llvm::Value *> bases; ///< loaded in the entry block
};

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_FUNCTIONEMITTER_H
