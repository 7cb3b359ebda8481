//===- MakeSpace.h - What the files of the dialect share --------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MAKESPACE_H
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MAKESPACE_H

#include "dialects/Model/IR/ModelOps.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace shardwright::model {

/// The space of an op: factors in order of first appearance, operands first.
/// `linear` empty: in no operand.
cost::IterationSpace
makeIterationSpace(mlir::Operation *op, cost::KernelClass kernel,
                   const DimLetters &letters,
                   llvm::function_ref<cost::FactorKind(char)> kindOf,
                   std::vector<cost::Precision> resultPrecision,
                   std::vector<bool> linear = {});

/// space_c1 to space_c3.
mlir::LogicalResult verifyDimLetters(mlir::Operation *op,
                                     const DimLetters &letters);

} // namespace shardwright::model

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MAKESPACE_H
