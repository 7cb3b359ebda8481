//===- shardwright-import.cpp - A config as model IR ----------------------===//
//
// For tests and compiler work: prints the IR of phase `imported`, which
// shardwright-opt takes further.
//
//===----------------------------------------------------------------------===//
#include "compiler/Driver/Limits.h"
#include "compiler/Files/OutputFile.h"
#include "compiler/Import/BuildModel.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace {

int report(const shardwright::cost::Failure &failure) {
  for (const std::string &line : shardwright::cost::lines(failure))
    std::cerr << "shardwright-import: " << line << "\n";
  return static_cast<int>(failure.kind);
}

} // namespace

int main(int argc, char **argv) {
  shardwright::heedLimits("shardwright-import");
  std::string model;
  int64_t sequence = 0;
  bool locations = false;
  CLI::App app("Print a model description as model IR");
  app.add_option("model", model, "config.json or its folder")->required();
  app.add_option("--sequence", sequence,
                 "Tokens per sequence; 0 takes the config's longest");
  app.add_flag("--locations", locations, "Print where each op comes from");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0
               ? 0
               : static_cast<int>(shardwright::cost::FailureKind::Usage);
  }

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  shardwright::cost::Failure failure;
  if (!shardwright::importModel(model, sequence, context, module, failure))
    return report(failure);
  module->print(llvm::outs(),
                mlir::OpPrintingFlags().enableDebugInfo(locations));
  llvm::outs() << "\n";
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return 0;
  shardwright::refuseOutput("stdout", llvm::outs().error().message(), failure);
  llvm::outs().clear_error();
  return report(failure);
}
