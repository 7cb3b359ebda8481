//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//
//
// The only place that orders passes.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_PIPELINES_PIPELINES_H
#define SHARDWRIGHT_COMPILER_PIPELINES_PIPELINES_H

#include "cost_model/base/Failure.h"
#include "passes/Phase/Phase.h"

#include "mlir/Pass/PassManager.h"

#include <string>

namespace shardwright {

struct PipelineOptions {
  IrPhase until = IrPhase::Lowered;
  /// Path of plan.json; empty: the module attribute `plan.text` holds the plan.
  std::string planPath;
  /// Folder (which exists) that gets the IR at each phase border as
  /// `<number>-<phase>.mlir`; empty: none.
  std::string dumpDir;
  /// Gets why the IR could not be written, which is nobody's bug; may be null.
  cost::Failure *failure = nullptr;
};

/// imported -> differentiated.
void buildImportPipeline(mlir::OpPassManager &manager,
                         const PipelineOptions &options);
/// differentiated -> options.until.
void buildPlanPipeline(mlir::OpPassManager &manager,
                       const PipelineOptions &options);

/// Registers `sw-import-pipeline` and `sw-plan-pipeline` for shardwright-opt,
/// with the options `until` and `dump-dir`, and of the second `plan`.
void registerPipelines();

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_PIPELINES_PIPELINES_H
