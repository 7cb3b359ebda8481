//===- shardwright-opt.cpp - Pass driver for tests and compiler work ------===//
//
// MLIR's driver, with the exit codes of our tools, and without the inputs that
// would hold or end it.
//
//===----------------------------------------------------------------------===//
#include "compiler/Driver/Limits.h"
#include "compiler/Files/IrText.h"
#include "compiler/Files/OutputFile.h"
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
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

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

/// Of IR that was refused, what was printed before (of other parts of a split
/// file) is for who looks at stdout, not for a file.
bool writeResult(const std::string &text, bool done, const std::string &output,
                 Failure &failure) {
  if (output != "-")
    return !done || shardwright::writeText(output, text, failure);
  llvm::outs() << text;
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return true;
  const std::string why = llvm::outs().error().message();
  llvm::outs().clear_error();
  return shardwright::refuseOutput("stdout", why, failure);
}

} // namespace

int main(int argc, char **argv) {
  const int badInput = static_cast<int>(shardwright::cost::FailureKind::Input);
  const int badUsage = static_cast<int>(shardwright::cost::FailureKind::Usage);
  llvm::InitLLVM initialized(argc, argv);
  shardwright::heedLimits("shardwright-opt");
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
  if (output != "-" && !shardwright::checkWritable(output, failure))
    return report(failure);
  // By the name of the file, which its messages begin with.
  std::string result;
  llvm::raw_string_ostream stream(result);
  const bool done = mlir::succeeded(mlir::MlirOptMain(
      stream,
      llvm::MemoryBuffer::getMemBufferCopy(
          text, input == "-" ? "<stdin>" : llvm::StringRef(input)),
      registry, config));
  if (!writeResult(result, done, output, failure))
    return report(failure);
  if (!done)
    return badInput;
  return 0;
}
