//===- PlannedModule.h - Plan and program of a module -----------*- C++ -*-===//
//
// A module from phase `planned` on carries its plan (`plan.text`) and the
// program that the plan was applied to (`plan.program`), so that each later
// pass can be run alone. Decisions are never stored twice: passes that need
// one expand the plan again with cost_model, which is a pure function.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_PASSES_PLAN_PLANNEDMODULE_H
#define SHARDWRIGHT_PASSES_PLAN_PLANNEDMODULE_H

#include "cost_model/base/Failure.h"
#include "cost_model/partition/Assignment.h"
#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanOps.h"

#include <map>
#include <string>
#include <utility>

namespace shardwright {

/// Module attribute: canonical program.json text.
constexpr llvm::StringLiteral kProgramTextAttr("plan.program");

/// Plan and program, as text on the module and as values.
struct PlannedModule {
  cost::Program program;
  cost::Plan plan;
  /// Expansions by kind index and policy, of the variants that stages use.
  std::map<std::pair<int, cost::Recompute>, cost::PlannedVariant> variants;
};

/// Result attribute from `partitioned` on: axes over which the result is still
/// a partial sum.
constexpr llvm::StringLiteral kPartialAttr("plan.partial");

/// One function of a kind with what the plan decided about it.
struct PlannedKindFunction {
  const cost::Kind *kind = nullptr;
  const cost::Function *function = nullptr;
  const cost::PlannedFunction *planned = nullptr;
};

/// Emits the messages of a refusal on the module.
mlir::LogicalResult report(mlir::ModuleOp module, const cost::Failure &refusal);

/// Reads `plan.text`. Emits an error on the module if it is absent or wrong.
mlir::LogicalResult readPlanText(mlir::ModuleOp module, cost::Plan &plan);

/// Reads `plan.text` and `plan.program` and expands the plan. Emits an error
/// on the module if a text is absent or wrong, or the functions are not those
/// of the program.
mlir::LogicalResult readPlannedModule(mlir::ModuleOp module,
                                      PlannedModule &planned);

/// Emits an error for every rule that `planned.plan` breaks.
mlir::LogicalResult checkRules(mlir::ModuleOp module,
                               const PlannedModule &planned);

/// Expands `planned.plan` over every variant that its stages use.
mlir::LogicalResult expandPlan(mlir::ModuleOp module, PlannedModule &planned);

/// What the plan decided about `op`; false if it stands in no stage.
bool lookUp(const PlannedModule &planned, model::KindOp op,
            PlannedKindFunction &found);

/// Compute ops of a function in the order of cost::Function::ops: everything
/// but reshards, collectives and the terminator.
llvm::SmallVector<mlir::Operation *> computeOps(model::KindOp op);
/// Values of a function in the order of cost::Function::values: arguments,
/// then the results of the compute ops.
llvm::SmallVector<mlir::Value> programValues(model::KindOp op);

/// "dense.full": prefix of the names of a variant's functions.
std::string variantName(const cost::Kind &kind, cost::Recompute policy);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PLAN_PLANNEDMODULE_H
