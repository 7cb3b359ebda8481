//===- ModuleEmitter.h - A lowered module to LLVM IR ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H

#include "compiler/Codegen/DeviceCode.h"
#include "compiler/Codegen/DeviceTables.h"
#include "compiler/Codegen/ProgramTables.h"

#include "llvm/IR/Module.h"
#include "mlir/IR/BuiltinOps.h"

namespace shardwright::codegen {

/// Emits all of a module of phase `lowered` into `target`, which has its data
/// layout: functions, tables, and kernels and the update, either as functions
/// of the host or, if `archs` names any, as device code that `target` carries.
/// `failure` is set where no op is to blame.
mlir::LogicalResult emitModule(mlir::ModuleOp source, llvm::Module &target,
                               llvm::ArrayRef<GpuArch> archs,
                               cost::Failure &failure);

/// PTX of the kernels and the update of a module of phase `lowered`.
mlir::FailureOr<std::string> emitDevicePtx(mlir::ModuleOp source,
                                           const GpuArch &arch,
                                           cost::Failure &failure);

/// Adds the entries of the kernels and the update to `device`, as LLVM IR.
mlir::FailureOr<DeviceCodeTable> emitDeviceEntries(mlir::ModuleOp source,
                                                   llvm::Module &device);

/// The constant tables of a module of phase `lowered` (plan.text,
/// plan.program, spmd.stage ops and rt.func symbols).
mlir::FailureOr<ProgramTable> readProgramTable(mlir::ModuleOp source);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_MODULEEMITTER_H
