//===- RowMaps.cpp - Elementwise row ops ----------------------------------===//
#include "compiler/Codegen/RowContext.h"

#include <numbers>

using namespace llvm;

namespace shardwright::codegen {

/// 2 * sqrt(2 / pi) * (x + 0.044715 x^3): sigmoid of it is (1 + tanh) / 2.
static constexpr double kTanhFactor =
    2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
static constexpr double kTanhCubic = 0.044715;

static Value *emitGeluGate(RowContext &context, Value *x, bool approximate) {
  IRBuilder<> &b = context.builder;
  if (!approximate) {
    Value *erf = context.target.erf(
        b, b.CreateFMul(x, context.real(std::numbers::sqrt2 / 2)));
    return b.CreateFMul(context.real(0.5),
                        b.CreateFAdd(context.real(1), erf));
  }
  Value *cubic = b.CreateFAdd(
      context.real(1),
      b.CreateFMul(context.real(kTanhCubic), b.CreateFMul(x, x)));
  return context.sigmoid(
      b.CreateFMul(b.CreateFMul(context.real(kTanhFactor), x), cubic));
}

/// d(x * gate(x))/dx = gate + x * gate'.
static Value *emitGeluSlope(RowContext &context, Value *x, bool approximate) {
  IRBuilder<> &b = context.builder;
  Value *gate = emitGeluGate(context, x, approximate);
  Value *square = b.CreateFMul(x, x);
  if (!approximate) {
    // gate' is the normal density exp(-x^2 / 2) / sqrt(2 pi).
    Value *density = b.CreateFMul(
        context.exp(b.CreateFMul(context.real(-0.5), square)),
        context.real(std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2));
    return b.CreateFAdd(gate, b.CreateFMul(x, density));
  }
  // gate' = gate * (1 - gate) * factor * (1 + 3 * cubic * x^2).
  Value *inner = b.CreateFMul(
      context.real(kTanhFactor),
      b.CreateFAdd(context.real(1),
                   b.CreateFMul(context.real(3 * kTanhCubic), square)));
  Value *slope = b.CreateFMul(
      b.CreateFMul(gate, b.CreateFSub(context.real(1), gate)), inner);
  return b.CreateFAdd(gate, b.CreateFMul(x, slope));
}

/// act(x) = x * gate, and its slope.
static Value *emitGate(RowContext &context, GateKind kind, Value *x) {
  if (kind == GateKind::Silu)
    return context.sigmoid(x);
  return emitGeluGate(context, x, kind == GateKind::GeluTanh);
}
static Value *emitGateSlope(RowContext &context, GateKind kind, Value *x) {
  IRBuilder<> &b = context.builder;
  if (kind != GateKind::Silu)
    return emitGeluSlope(context, x, kind == GateKind::GeluTanh);
  // silu' = sigmoid * (1 + x * (1 - sigmoid)).
  Value *sigmoid = context.sigmoid(x);
  return b.CreateFMul(
      sigmoid, b.CreateFAdd(context.real(1),
                            b.CreateFMul(x, b.CreateFSub(context.real(1),
                                                         sigmoid))));
}

/// tanh(x) = 2 sigmoid(2 x) - 1: exact to a rounding of 1.
static Value *emitTanh(RowContext &context, Value *x) {
  IRBuilder<> &b = context.builder;
  Value *sigmoid = context.sigmoid(b.CreateFMul(context.real(2), x));
  return b.CreateFSub(b.CreateFMul(context.real(2), sigmoid), context.real(1));
}

/// Row operand `number` at column `c`; vectors of a whole width have no rows.
static Values emitMapValues(RowContext &context, const RowOp &op,
                            ArrayRef<Value *> x) {
  IRBuilder<> &b = context.builder;
  switch (op.kind) {
  case RowOpKind::Add:
  case RowOpKind::BiasAdd:
  case RowOpKind::AddPositions:
    return {b.CreateFAdd(x[0], x[1])};
  case RowOpKind::Swiglu:
    return {b.CreateFMul(b.CreateFMul(x[0], emitGate(context, op.gate, x[0])),
                         x[1])};
  case RowOpKind::SwigluGrad: {
    Value *dy = x[0], *gate = x[1], *up = x[2];
    return {b.CreateFMul(b.CreateFMul(dy, up),
                         emitGateSlope(context, op.gate, gate)),
            b.CreateFMul(dy, b.CreateFMul(gate,
                                          emitGate(context, op.gate, gate)))};
  }
  case RowOpKind::Relu:
    return {b.CreateSelect(b.CreateFCmpOGT(x[0], context.real(0)), x[0],
                           context.real(0))};
  case RowOpKind::ReluGrad:
    return {b.CreateSelect(b.CreateFCmpOGT(x[1], context.real(0)), x[0],
                           context.real(0))};
  case RowOpKind::Scale:
    return {b.CreateFMul(context.real(op.scale), x[0])};
  case RowOpKind::Softcap:
    return {b.CreateFMul(
        context.real(op.scale),
        emitTanh(context, b.CreateFMul(context.real(1 / op.scale), x[0])))};
  case RowOpKind::SoftcapGrad: {
    Value *bounded = b.CreateFMul(context.real(1 / op.scale), x[1]);
    return {b.CreateFMul(
        x[0], b.CreateFSub(context.real(1), b.CreateFMul(bounded, bounded)))};
  }
  case RowOpKind::Fill:
    return {context.real(op.scale)};
  case RowOpKind::Clip:
    // NaN stays NaN.
    return {b.CreateMaximum(b.CreateMinimum(x[0], context.real(op.scale)),
                            context.real(-op.scale))};
  case RowOpKind::ClipGrad:
    return {b.CreateSelect(
        b.CreateFCmpOLE(context.call(Intrinsic::fabs, x[1]),
                        context.real(op.scale)),
        x[0], context.real(0))};
  case RowOpKind::Gelu:
    return {b.CreateFMul(x[0], emitGeluGate(context, x[0], op.approximate))};
  case RowOpKind::GeluGrad:
    return {b.CreateFMul(x[0], emitGeluSlope(context, x[1], op.approximate))};
  default:
    assert(false && "not a map");
    return {};
  }
}

void emitMap(RowContext &context, const RowOp &op) {
  SmallVector<Place> operands, results;
  for (int number : op.operands)
    operands.push_back(context.rowOf(number, op.width));
  if (op.kind == RowOpKind::BiasAdd)
    operands[1] = context.buffer(op.operands[1]);
  if (op.kind == RowOpKind::AddPositions)
    operands[1] =
        context.at(context.buffer(op.operands[1]), emitTableRow(context, op));
  for (int number : op.results)
    results.push_back(context.rowOf(number, op.width));

  context.columns(op.width, [&](Value *column) {
    Values x;
    for (Place operand : operands)
      x.push_back(context.load(operand, column));
    Values y = emitMapValues(context, op, x);
    for (auto [value, result] : llvm::zip(y, results))
      context.store(op, value, result, column);
  });
}

} // namespace shardwright::codegen
