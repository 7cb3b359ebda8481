//===- Encodings.h - Plan values as attributes and types --------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PLAN_ENCODINGS_H
#define SHARDWRIGHT_PASSES_PLAN_ENCODINGS_H

#include "cost_model/partition/Assignment.h"
#include "dialects/Plan/IR/PlanDialect.h"

namespace shardwright {

/// Element type of a dtype.
mlir::Type elementType(mlir::MLIRContext *context, cost::DType dtype);

/// Names of mesh axes, in the order given.
mlir::ArrayAttr axisNames(mlir::MLIRContext *context, const cost::Plan &plan,
                          const cost::Axes &axes);

plan::MeshAttr meshAttr(mlir::MLIRContext *context, const cost::Plan &plan);

plan::ShardingAttr shardingAttr(mlir::MLIRContext *context,
                                const cost::Plan &plan,
                                const cost::Encoding &encoding);

/// Planned type of a value: its global shape and dtype under the plan, with
/// `encoding` as the encoding of the tensor.
mlir::RankedTensorType plannedType(mlir::MLIRContext *context,
                                   const cost::Plan &plan,
                                   const std::vector<cost::Dim> &dims,
                                   cost::Precision precision,
                                   const cost::Encoding &encoding);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PLAN_ENCODINGS_H
