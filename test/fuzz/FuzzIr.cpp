//===- FuzzIr.cpp - Text of our dialects ----------------------------------===//
//
// Parses and verifies; what is right is printed and parsed again, and runs
// through each pass alone. A pass refuses what breaks the contract of the phase
// that it reads, so seeds are modules that the compiler makes (seeds.py).
//
//===----------------------------------------------------------------------===//
#include "compiler/Files/IrText.h"
#include "dialects/Model/IR/ModelDialect.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "passes/Passes.h"
#include "test/fuzz/FuzzTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <fcntl.h>
#include <unistd.h>

using namespace shardwright;
using namespace shardwright::fuzz;

namespace {

/// Every pass of ours, which reads one phase or several.
constexpr const char *passes[] = {
    "sw-differentiate",   "sw-apply-plan",        "sw-extract-program",
    "sw-insert-reshards", "sw-partition",         "sw-order-microbatches",
    "sw-group-row-ops",   "sw-allocate",          "sw-spmd-to-rt",
    "sw-verify-phase",    "sw-verify-allocation", "sw-verify-ledger",
    "sw-count-ledger"};

/// Some passes print what they find.
void dropOutput() {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  require(nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0,
          "output can be dropped");
  close(nowhere);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool prepared = (registerPasses(), dropOutput(), true);
  (void)prepared;
  if (!irTrap(textOf(data, size)).empty())
    return 0;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::func::FuncDialect, model::ModelDialect,
                      plan::PlanDialect, rt::RtDialect, spmd::SpmdDialect>();
  int errors = 0;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
        return mlir::success();
      });
  const std::string text(textOf(data, size));
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    require(errors > 0, "a refusal has a message");
    return 0;
  }
  std::string printed;
  llvm::raw_string_ostream(printed) << *module;
  // MLIR takes an empty symbol and has no text for one. Not ours to mend.
  if (printed.find("<<INVALID EMPTY SYMBOL>>") != std::string::npos)
    return 0;
  mlir::OwningOpRef<mlir::ModuleOp> again =
      mlir::parseSourceString<mlir::ModuleOp>(printed, &context);
  require(static_cast<bool>(again), "what is printed can be parsed");
  for (const char *pass : passes) {
    errors = 0;
    mlir::OwningOpRef<mlir::ModuleOp> copy = module->clone();
    mlir::PassManager manager(&context);
    require(mlir::succeeded(mlir::parsePassPipeline(pass, manager)),
            "every pass is known by its flag");
    if (mlir::failed(manager.run(*copy)))
      require(errors > 0, "a failed pass has a message");
  }
  return 0;
}
