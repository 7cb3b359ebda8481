//===- DeviceCode.h - Device modules to PTX ---------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_DEVICECODE_H
#define SHARDWRIGHT_COMPILER_CODEGEN_DEVICECODE_H

#include "cost_model/base/Failure.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace shardwright::codegen {

/// A GPU that device code is made for.
struct GpuArch {
  const char *name;   ///< as LLVM and ptxas name it
  int32_t capability; ///< 10 * major + minor
};
/// sm_80 (A100), sm_90 (H100, H200) and sm_100 (B200); null if `name` is none.
const GpuArch *gpuArchNamed(const std::string &name);
/// Their names, for messages: "sm_80, sm_90, sm_100".
std::string gpuArchNames();
/// All of them.
llvm::ArrayRef<GpuArch> gpuArchs();

/// Target machine of a GPU; null with `failure` set if LLVM does not know it.
std::unique_ptr<llvm::TargetMachine> makeGpuMachine(const GpuArch &arch,
                                                    cost::Failure &failure);

/// Runs LLVM's O3 pipeline on device code that has the machine's layout.
void optimizeDevice(llvm::Module &module, llvm::TargetMachine &machine);

/// PTX text of `module`. It calls nothing that it does not define: anything
/// else is a failure of kind Bug.
bool emitPtx(llvm::Module &module, llvm::TargetMachine &machine,
             std::string &ptx, cost::Failure &failure);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_DEVICECODE_H
