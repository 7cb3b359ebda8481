//===- BuildModel.h - ModelSpec to model IR ---------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_BUILDMODEL_H
#define SHARDWRIGHT_COMPILER_IMPORT_BUILDMODEL_H

#include "compiler/Import/HfConfig.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace shardwright {

/// The forward graph of one training step in phase `imported`: kinds @embed,
/// @dense and @head, their parameters, the stack, and the module attributes
/// `model.program`, `sw.phase` and, if there are any, `model.notes`. `spec` has
/// passed checkSpec, `sequence` comes from chooseSequence.
mlir::OwningOpRef<mlir::ModuleOp>
buildModel(const ModelSpec &spec, int64_t sequence, mlir::MLIRContext &context);

/// Reads the config at `path` (a config.json or its folder) and builds it for
/// `sequence` tokens, 0 for the longest of the config.
bool importModel(const std::string &path, int64_t sequence,
                 mlir::MLIRContext &context,
                 mlir::OwningOpRef<mlir::ModuleOp> &module,
                 cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_BUILDMODEL_H
