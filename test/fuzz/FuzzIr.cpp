//===- FuzzIr.cpp - Text of our dialects ----------------------------------===//
//
// Parses and verifies; what is right is printed and parsed again, and runs
// through sw-verify-phase.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelDialect.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "passes/Verify/Passes.h"
#include "test/fuzz/FuzzTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace shardwright;
using namespace shardwright::fuzz;

namespace {
/// MLIR's own parser descends by recursion, without a limit: the stack ends
/// after some thousand levels of brackets. Not ours to mend.
bool isDeep(std::string_view text) {
  constexpr int limit = 500;
  int depth = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{' || c == '(' || c == '<');
    depth -= (c == ']' || c == '}' || c == ')' || c == '>') && depth > 0;
    if (depth > limit)
      return true;
  }
  return false;
}

/// MLIR 22's parser takes the bit width of a dense array's element type before
/// it asks whether it has one: `array<index`. Not ours to mend either.
bool hasOddArray(std::string_view text) {
  constexpr std::string_view array = "array<";
  for (size_t at = text.find(array); at != std::string_view::npos;
       at = text.find(array, at + 1)) {
    const std::string_view type = text.substr(at + array.size(), 2);
    if (type.size() < 2 || (type[0] != 'i' && type[0] != 'f') ||
        type[1] < '0' || type[1] > '9')
      return true;
  }
  return false;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (isDeep(textOf(data, size)) || hasOddArray(textOf(data, size)))
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
  mlir::OwningOpRef<mlir::ModuleOp> again =
      mlir::parseSourceString<mlir::ModuleOp>(printed, &context);
  require(static_cast<bool>(again), "what is printed can be parsed");
  errors = 0;
  mlir::PassManager manager(&context);
  manager.addPass(createVerifyPhasePass());
  if (mlir::failed(manager.run(*module)))
    require(errors > 0, "a failed pass has a message");
  return 0;
}
