//===- PlanDialect.h - The plan dialect and its attributes ------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT_H
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/TensorEncoding.h"

#include "dialects/Plan/IR/PlanDialect.h.inc"
#include "dialects/Plan/IR/PlanEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/IR/PlanAttrs.h.inc"

namespace shardwright::plan {

/// Names of discardable attributes.
constexpr llvm::StringLiteral kMeshAttr("plan.mesh");
constexpr llvm::StringLiteral kTextAttr("plan.text");
constexpr llvm::StringLiteral kAxesAttr("plan.axes");

} // namespace shardwright::plan

#endif // SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT_H
