//===- Backward.h - Backward ops of a forward function ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_DIFFERENTIATE_BACKWARD_H
#define SHARDWRIGHT_PASSES_DIFFERENTIATE_BACKWARD_H

#include "dialects/Model/IR/ModelOps.h"

namespace shardwright {

/// The backward pass of a kind, built behind its forward ops. Every op named
/// here is needed; the order is an order in which they can run.
struct Backward {
  mlir::Value dy; ///< gradient of the stream that leaves; null for a loss
  mlir::Value dx; ///< of the stream that enters; null if none enters
  llvm::SmallVector<mlir::Value> parameterGrads;   ///< by parameter number
  llvm::SmallVector<mlir::Operation *> dataGrad;   ///< what dx needs
  llvm::SmallVector<mlir::Operation *> weightGrad; ///< what else is needed
};

/// Appends the backward ops to the body of `kind` (and an argument for dy), so
/// that they use forward values directly; `kind` is scratch afterwards. Emits
/// an error and fails if an op has no gradient or a value needs none.
mlir::LogicalResult buildBackward(model::KindOp kind, Backward &backward);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_DIFFERENTIATE_BACKWARD_H
