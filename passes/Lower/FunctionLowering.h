//===- FunctionLowering.h - One kind to runtime calls -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_FUNCTIONLOWERING_H
#define SHARDWRIGHT_PASSES_LOWER_FUNCTIONLOWERING_H

#include "passes/Lower/KernelTable.h"

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Rt/IR/RtOps.h"
#include "dialects/Spmd/IR/SpmdOps.h"

namespace shardwright {

/// Builds the `rt.func` of one kind, at the builder's insertion point.
class FunctionLowering {
public:
  FunctionLowering(model::KindOp kind, KernelTable &kernels)
      : kind(kind), kernels(kernels), builder(kind.getContext()) {}

  mlir::LogicalResult run(mlir::OpBuilder &moduleBuilder);

private:
  mlir::LogicalResult collectAddresses();
  rt::AddrAttr address(mlir::Value value) { return addresses.lookup(value); }
  /// Whether a result there is added to what is there.
  static bool accumulates(rt::AddrAttr address);
  /// Refuses a result that has to be accumulated by an op that overwrites.
  mlir::LogicalResult overwrites(mlir::Operation *op);

  mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult lowerContract(model::ContractOp op);
  mlir::LogicalResult lowerAttention(model::AttentionOp op);
  mlir::LogicalResult lowerAttentionGrad(model::AttentionGradOp op);
  mlir::LogicalResult lowerEmbedding(model::EmbeddingOp op);
  mlir::LogicalResult lowerEmbeddingGrad(model::EmbeddingGradOp op);
  mlir::LogicalResult lowerAllReduce(spmd::AllReduceOp op);
  mlir::LogicalResult lowerAllGather(spmd::AllGatherOp op);
  mlir::LogicalResult lowerReduceScatter(spmd::ReduceScatterOp op);
  mlir::LogicalResult lowerSlice(spmd::SliceOp op);
  mlir::LogicalResult lowerKernel(llvm::ArrayRef<mlir::Operation *> group);
  /// Copies results that do not lie where the function returns them.
  mlir::LogicalResult lowerReturn(model::ReturnOp op);

  model::KindOp kind;
  KernelTable &kernels;
  mlir::OpBuilder builder; ///< in the rt.func
  llvm::DenseMap<mlir::Value, rt::AddrAttr> addresses;
};

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_LOWER_FUNCTIONLOWERING_H
