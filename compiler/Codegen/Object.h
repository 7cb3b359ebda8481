//===- Object.h - LLVM IR to an object file ---------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_OBJECT_H
#define SHARDWRIGHT_COMPILER_CODEGEN_OBJECT_H

#include "cost_model/base/Failure.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace shardwright::codegen {

/// The CPU that objects are made for unless told otherwise: fixed, so that the
/// same input gives the same bytes on every machine.
inline constexpr const char *kDefaultCpu = "x86-64-v3";

/// Target machine of the host's architecture, position independent, with
/// multiply-adds fused; null with `failure` set if LLVM does not know it.
std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const std::string &cpu,
                                                       cost::Failure &failure);

/// Gives the module the machine's triple and data layout. Call before anything
/// is emitted that depends on the layout of structs.
void setTarget(llvm::Module &module, const llvm::TargetMachine &machine);

/// Gives each function the machine's CPU and runs LLVM's O3 pipeline, vector
/// math from libmvec.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// Bytes of the object file of `module`.
bool emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                llvm::SmallVectorImpl<char> &object, cost::Failure &failure);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_OBJECT_H
