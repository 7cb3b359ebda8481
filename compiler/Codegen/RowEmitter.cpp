//===- RowEmitter.cpp - One row op on any target --------------------------===//
#include "compiler/Codegen/RowEmitter.h"

#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

void emitRowOp(RowContext &context, size_t number) {
  const RowOp &op = context.program.ops[number];
  switch (op.kind) {
  case RowOpKind::Add:
  case RowOpKind::BiasAdd:
  case RowOpKind::Swiglu:
  case RowOpKind::SwigluGrad:
  case RowOpKind::Gelu:
  case RowOpKind::GeluGrad:
  case RowOpKind::Relu:
  case RowOpKind::ReluGrad:
  case RowOpKind::Scale:
  case RowOpKind::Softcap:
  case RowOpKind::SoftcapGrad:
  case RowOpKind::Fill:
  case RowOpKind::Clip:
  case RowOpKind::ClipGrad:
  case RowOpKind::AddPositions:
    return emitMap(context, op);
  case RowOpKind::Rope:
    return emitRope(context, number);
  case RowOpKind::RmsNorm:
  case RowOpKind::RmsNormGrad:
  case RowOpKind::SquareSum:
  case RowOpKind::RmsApply:
  case RowOpKind::RowDot:
  case RowOpKind::RmsApplyGrad:
  case RowOpKind::LayerNorm:
  case RowOpKind::LayerNormGrad:
    return emitNorm(context, op);
  case RowOpKind::MaxLogit:
  case RowOpKind::SumExp:
  case RowOpKind::TargetLogit:
  case RowOpKind::SoftmaxGrad:
    return emitCrossEntropy(context, op);
  case RowOpKind::TokenLoss:
  case RowOpKind::ColumnSum:
  case RowOpKind::RmsNormWeightGrad:
  case RowOpKind::LayerNormWeightGrad:
  case RowOpKind::AddPositionsGrad:
    assert(false && "sums over rows have loops of their own");
  }
}

} // namespace shardwright::codegen
