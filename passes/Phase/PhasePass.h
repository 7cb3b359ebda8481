//===- PhasePass.h - Passes that read a phase -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PHASE_PHASEPASS_H
#define SHARDWRIGHT_PASSES_PHASE_PHASEPASS_H

#include "passes/Phase/Phase.h"

#include "mlir/Pass/Pass.h"

namespace shardwright {

/// A pass over modules in one of `phases`. The contract of the phase is checked
/// before the pass sees the module, so a pass may rely on it, run in a pipeline
/// or alone on IR that somebody has edited.
template <IrPhase... phases>
class PhasePass : public mlir::OperationPass<mlir::ModuleOp> {
public:
  void runOnOperation() final {
    if (failed(checkContract(getOperation(), {phases...})) ||
        failed(run(getOperation())))
      signalPassFailure();
  }

protected:
  using OperationPass::OperationPass;

  /// The pass itself; a failure has been reported.
  virtual llvm::LogicalResult run(mlir::ModuleOp module) = 0;
};

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PHASE_PHASEPASS_H
