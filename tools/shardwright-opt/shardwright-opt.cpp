//===- shardwright-opt.cpp - Pass driver for tests and compiler work ------===//
//
// MLIR's driver, with the exit codes of our tools, and without the inputs that
// would hold or end it.
//
//===----------------------------------------------------------------------===//
#include "compiler/Files/IrText.h"
#include "compiler/Files/ReadText.h"
#include "compiler/Pipelines/Pipelines.h"
#include "dialects/Model/IR/ModelDialect.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "passes/Passes.h"
#include "passes/Phase/Diagnostics.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using shardwright::cost::Diag;
using shardwright::cost::Failure;

namespace {

int report(const Failure &failure) {
  for (const std::string &line : shardwright::cost::lines(failure))
    llvm::errs() << "shardwright-opt: " << line << "\n";
  return static_cast<int>(failure.kind);
}

/// Reads the input and refuses what MLIR's parser would crash on.
bool readIr(const std::string &path, std::string &text, Failure &failure) {
  if (!shardwright::readText(path == "-" ? "/dev/stdin" : path, text, failure))
    return false;
  const std::string trap = shardwright::irTrap(text);
  if (trap.empty())
    return true;
  llvm::errs() << path << ":" << trap << " ["
               << name(shardwright::BreachId::ir_text) << "]\n";
  return false;
}

} // namespace

int main(int argc, char **argv) {
  const int badInput = static_cast<int>(shardwright::cost::FailureKind::Input);
  const int badUsage = static_cast<int>(shardwright::cost::FailureKind::Usage);
  llvm::InitLLVM initialized(argc, argv);
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, shardwright::model::ModelDialect,
                  shardwright::plan::PlanDialect, shardwright::rt::RtDialect,
                  shardwright::spmd::SpmdDialect>();
  shardwright::registerPasses();
  shardwright::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();

  const std::string help =
      mlir::registerCLIOptions("Shardwright pass driver\n", registry);
  llvm::cl::opt<std::string> input(llvm::cl::Positional,
                                   llvm::cl::desc("<input file>"),
                                   llvm::cl::init("-"));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("Output filename"),
                                    llvm::cl::value_desc("filename"),
                                    llvm::cl::init("-"));
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, help, &llvm::errs()))
    return badUsage;
  const mlir::MlirOptMainConfig config =
      mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::failed(
        mlir::MlirOptMain(argc, argv, input, output, registry));
  { // The text of a pipeline is usage; MLIR reads it beside the input.
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    mlir::PassManager manager(&context);
    if (mlir::failed(config.setupPassPipeline(manager)))
      return badUsage;
  }

  Failure failure;
  std::string text;
  if (!readIr(input, text, failure))
    return failure.messages.empty() ? badInput : report(failure);
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> file =
      mlir::openOutputFile(output, &error);
  if (!file) {
    refuse(failure, Diag::output_unwritable, error);
    return report(failure);
  }
  // By the name of the file, which its messages begin with.
  const bool done = mlir::succeeded(mlir::MlirOptMain(
      file->os(),
      llvm::MemoryBuffer::getMemBufferCopy(
          text, input == "-" ? "<stdin>" : llvm::StringRef(input)),
      registry, config));
  file->os().flush();
  if (file->os().has_error()) {
    refuse(failure, Diag::output_unwritable,
           output + ": cannot write: " + file->os().error().message());
    file->os().clear_error();
    return report(failure);
  }
  if (!done)
    return badInput;
  file->keep();
  return 0;
}
