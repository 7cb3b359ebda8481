//===- ExtractProgram.h - Model IR to cost::Program -------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PLAN_EXTRACTPROGRAM_H
#define SHARDWRIGHT_PASSES_PLAN_EXTRACTPROGRAM_H

#include "cost_model/program/Program.h"
#include "dialects/Model/IR/ModelOps.h"

#include "mlir/IR/BuiltinOps.h"

namespace shardwright {

/// One function as the cost model sees it. Values are numbered: arguments,
/// then the results of the ops in order. Dims of arguments come from the
/// parameters of `kind`, from the functions of `variant` that produce saved and
/// kept values, and else from the first use; pass empty ones where they are not
/// known. Emits an error and fails on an op without an iteration space.
mlir::LogicalResult extractFunction(model::KindOp op, const cost::Kind &kind,
                                    const cost::KindVariant &variant,
                                    cost::Function &function);

/// The program of a module in phase `differentiated`. On failure an error has
/// been emitted and `program` is not to be used.
bool extractProgram(mlir::ModuleOp module, cost::Program &program);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PLAN_EXTRACTPROGRAM_H
