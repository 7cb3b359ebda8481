//===- host_kernels.cpp - The device code of a program for the fake GPU ---===//
//
//   host_kernels LOWERED OUTPUT
//
// Reads a module of phase `lowered` (compile --emit rt) and writes an object
// with its device code, as the emitter made it for the GPU, compiled for the
// host: per entry a function `run.NAME` and how many parameters it takes,
// `parameters.NAME`. The fake driver (runtime/cts/cuda/FakeDriver.cpp) runs it
// thread by thread.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/ModuleEmitter.h"
#include "compiler/Codegen/Object.h"
#include "dialects/Model/IR/ModelDialect.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "test/unit/compiler/DeviceAsHost.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

using namespace shardwright;

static int fail(const std::string &text) {
  llvm::errs() << "host_kernels: " << text << "\n";
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("usage: host_kernels LOWERED OUTPUT");
  mlir::DialectRegistry registry;
  registry.insert<model::ModelDialect, plan::PlanDialect, rt::RtDialect,
                  spmd::SpmdDialect>();
  mlir::MLIRContext mlirContext(registry);
  auto source = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &mlirContext);
  if (!source)
    return fail("expected a module");

  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  mlir::FailureOr<codegen::DeviceCodeTable> table =
      codegen::emitDeviceEntries(*source, module);
  if (mlir::failed(table))
    return fail("expected device code");
  codegen::replaceDeviceIntrinsics(module);
  for (const codegen::DeviceKernel &kernel : table->kernels)
    for (const codegen::DeviceStep &step : kernel.steps)
      codegen::emitCountedEntry(module, step.entry);
  codegen::emitCountedEntry(module, table->update.entry);

  cost::Failure failure;
  auto machine = codegen::makeTargetMachine(codegen::kDefaultCpu, failure);
  llvm::SmallVector<char, 0> object;
  if (machine) {
    codegen::setTarget(module, *machine);
    codegen::optimize(module, *machine);
  }
  if (!machine || !codegen::emitObject(module, *machine, object, failure))
    return fail(failure.messages.front().text);
  std::error_code error;
  llvm::raw_fd_ostream file(argv[2], error);
  if (error)
    return fail("expected to write '" + std::string(argv[2]) + "'");
  file.write(object.data(), object.size());
  return 0;
}
