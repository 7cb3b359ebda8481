//===- ModuleEmitter.h - A lowered module to LLVM IR ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H

#include "compiler/Codegen/ProgramTables.h"

#include "llvm/IR/Module.h"
#include "mlir/IR/BuiltinOps.h"

namespace shardwright::codegen {

/// Emits all of a module of phase `lowered` into `target`, which has its data
/// layout: kernels, functions, the update, the tables.
mlir::LogicalResult emitModule(mlir::ModuleOp source, llvm::Module &target);

/// The constant tables of a module of phase `lowered` (plan.text,
/// plan.program, spmd.stage ops and rt.func symbols).
mlir::FailureOr<ProgramTable> readProgramTable(mlir::ModuleOp source);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H
