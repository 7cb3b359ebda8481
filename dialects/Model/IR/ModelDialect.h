//===- ModelDialect.h - The model dialect, its attributes -------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT_H
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT_H

#include "cost_model/IterationSpace.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include <string>
#include <vector>

#include "dialects/Model/IR/ModelDialect.h.inc"
#include "dialects/Model/IR/ModelEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Model/IR/ModelAttrs.h.inc"

namespace shardwright::model {

/// Letters of the dims of every operand and result of an op.
struct DimLetters {
  std::vector<std::string> operands, results;
};

/// The same segment as the cost model spells it.
inline cost::Segment costSegment(Segment segment) {
  return static_cast<cost::Segment>(segment);
}
inline Segment modelSegment(cost::Segment segment) {
  return static_cast<Segment>(segment);
}

/// Names of discardable attributes.
constexpr llvm::StringLiteral kProgramAttr("model.program");
constexpr llvm::StringLiteral kArgAttr("model.arg");
constexpr llvm::StringLiteral kResAttr("model.res");

} // namespace shardwright::model

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT_H
