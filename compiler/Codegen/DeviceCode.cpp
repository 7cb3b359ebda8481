//===- DeviceCode.cpp - Device modules to PTX -----------------------------===//
#include "compiler/Codegen/DeviceCode.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetOptions.h"

using namespace llvm;

namespace shardwright::codegen {

static constexpr GpuArch kArchs[] = {
    {"sm_80", 80}, {"sm_90", 90}, {"sm_100", 100}};

const GpuArch *gpuArchNamed(const std::string &name) {
  for (const GpuArch &arch : kArchs)
    if (name == arch.name)
      return &arch;
  return nullptr;
}

ArrayRef<GpuArch> gpuArchs() { return kArchs; }

std::string gpuArchNames() {
  std::string names;
  for (const GpuArch &arch : kArchs)
    names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

std::unique_ptr<TargetMachine> makeGpuMachine(const GpuArch &arch,
                                              cost::Failure &failure) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  const Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    cost::refuse(
        failure, cost::Diag::unsupported_target,
        "expected an LLVM with the NVPTX target to compile for CUDA: " + error);
    return nullptr;
  }
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, arch.name, /*Features=*/"", options, Reloc::PIC_, {},
      CodeGenOptLevel::Aggressive));
  if (!machine)
    cost::refuse(failure, cost::Diag::internal_error,
                 "LLVM has no target machine for '" + triple.str() + "'");
  return machine;
}

void optimizeDevice(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
}

bool emitPtx(Module &module, TargetMachine &machine, std::string &ptx,
             cost::Failure &failure) {
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic()) {
      cost::refuse(failure, cost::Diag::internal_error,
                   "device code calls '" + function.getName().str() +
                       "', which it does not define");
      return false;
    }
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  CodeGenFileType::AssemblyFile)) {
    cost::refuse(failure, cost::Diag::internal_error,
                 "the target machine cannot write PTX");
    return false;
  }
  passes.run(module);
  ptx = text.str().str();
  // Instruction selection may turn an operation into a call of a library.
  if (const size_t at = ptx.find(".extern"); at != std::string::npos) {
    cost::refuse(failure, cost::Diag::internal_error,
                 "device code wants '" +
                     ptx.substr(at, ptx.find('\n', at) - at) +
                     "', which it does not define");
    return false;
  }
  return true;
}

} // namespace shardwright::codegen
