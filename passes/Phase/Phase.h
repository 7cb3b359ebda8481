//===- Phase.h - Phases of the IR -------------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PHASE_PHASE_H
#define SHARDWRIGHT_PASSES_PHASE_PHASE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace shardwright {

/// Phases of the IR, in order; the module attribute `sw.phase` names them. What
/// each holds stands in the description of sw-verify-phase.
enum class IrPhase {
  Imported,
  Differentiated,
  Planned,
  Partitioned,
  Scheduled,
  Allocated,
  Lowered,
};
/// "imported", ..., as in `sw.phase`.
llvm::StringRef name(IrPhase phase);
/// The phase named `text`; false if there is none.
bool phaseNamed(llvm::StringRef text, IrPhase &phase);
/// Says in `module` that it is in `phase`.
void setPhase(mlir::ModuleOp module, IrPhase phase);
/// "'imported', 'differentiated' or 'planned'".
std::string oneOf(llvm::ArrayRef<IrPhase> phases);
/// All of them, in order.
llvm::ArrayRef<IrPhase> allPhases();

/// Holds `module` to the contract of the phase that it says it is in, which has
/// to be one of `wanted`. Reads only; reports all breaches.
llvm::LogicalResult checkContract(mlir::ModuleOp module,
                                  llvm::ArrayRef<IrPhase> wanted);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PHASE_PHASE_H
