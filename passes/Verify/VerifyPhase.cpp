//===- VerifyPhase.cpp - Checks the contract of a phase -------------------===//
#include "passes/Verify/Passes.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_VERIFYPHASEPASS
#include "passes/Verify/Passes.h.inc"

namespace {

/// What every pass does first, and nothing else.
class VerifyPhasePass : public impl::VerifyPhasePassBase<VerifyPhasePass> {
public:
  using VerifyPhasePassBase::VerifyPhasePassBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (phase.empty() || phaseNamed(phase, wanted))
      return success();
    return emitError(UnknownLoc::get(context))
           << "expected the option 'phase' to be " << oneOf(allPhases())
           << ", but got '" << phase << "'";
  }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    ArrayRef<IrPhase> phases = allPhases();
    if (!phase.empty())
      phases = wanted;
    if (failed(checkContract(getOperation(), phases)))
      signalPassFailure();
  }

private:
  IrPhase wanted = {};
};

} // namespace
} // namespace shardwright
