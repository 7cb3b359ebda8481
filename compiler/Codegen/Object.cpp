//===- Object.cpp - LLVM IR to an object file -----------------------------===//
#include "compiler/Codegen/Object.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

namespace shardwright::codegen {

std::unique_ptr<TargetMachine> makeTargetMachine(const std::string &cpu,
                                                 cost::Failure &failure) {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  const Triple triple(sys::getDefaultTargetTriple());
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    cost::refuse(failure, cost::Diag::unsupported_target,
                 "expected a target that LLVM knows, but got '" + triple.str() +
                     "': " + error);
    return nullptr;
  }
  // Asked before a machine is made for it: LLVM would print a warning and go on.
  std::unique_ptr<MCSubtargetInfo> known(
      target->createMCSubtargetInfo(triple, /*CPU=*/"", /*Features=*/""));
  if (!known || !known->isCPUStringValid(cpu)) {
    cost::refuse(failure, cost::Diag::unknown_cpu,
                 "expected a CPU name of '" + triple.str() + "', but got '" +
                     cpu + "'");
    return nullptr;
  }
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast;
  options.VecLib = VectorLibrary::LIBMVEC;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, cpu, /*Features=*/"", options, Reloc::PIC_, {},
      CodeGenOptLevel::Aggressive));
  if (!machine)
    cost::refuse(failure, cost::Diag::internal_error,
                 "LLVM has no target machine for '" + triple.str() + "'");
  return machine;
}

void setTarget(Module &module, const TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

void optimize(Module &module, TargetMachine &machine) {
  for (Function &function : module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", machine.getTargetCPU());
      // Unwind tables let profilers and debuggers walk through.
      function.setUWTableKind(UWTableKind::Default);
    }
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder passes(&machine, tuning);
  TargetLibraryInfoImpl library(machine.getTargetTriple(),
                                VectorLibrary::LIBMVEC);
  functions.registerPass([&] { return TargetLibraryAnalysis(library); });
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(OptimizationLevel::O3)
      .run(module, modules);
}

bool emitObject(Module &module, TargetMachine &machine,
                SmallVectorImpl<char> &object, cost::Failure &failure) {
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  CodeGenFileType::ObjectFile)) {
    cost::refuse(failure, cost::Diag::internal_error,
                 "the target machine cannot write object files");
    return false;
  }
  passes.run(module);
  return true;
}

} // namespace shardwright::codegen
