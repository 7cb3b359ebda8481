//===- RowNorms.cpp - RMS norm and layer norm -----------------------------===//
#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

/// sum over the row of term(column).
static Value *emitRowTotal(RowContext &context, int64_t width,
                           function_ref<Value *(Value *)> term) {
  Values sums = context.target.fold(
      context, context.count(width), {Fold::Sum},
      [&](Value *column) -> Values { return {term(column)}; });
  return sums[0];
}

/// The same, times 1 / width.
static Value *emitRowMean(RowContext &context, int64_t width,
                          function_ref<Value *(Value *)> term) {
  return context.builder.CreateFDiv(
      emitRowTotal(context, width, term),
      context.real(static_cast<double>(width)));
}

/// Mean of a row of op.count columns on all ranks, of its sum in a buffer.
static Value *emitSummedMean(RowContext &context, const RowOp &op, int sum) {
  return context.builder.CreateFDiv(
      context.load(context.buffer(sum), context.row),
      context.real(static_cast<double>(op.count)));
}

/// Approximate where a GPU has it, as in RowContext::sigmoid.
static Value *emitInverseRoot(RowContext &context, Value *mean, double eps) {
  IRBuilder<> &b = context.builder;
  FastMathFlags flags = b.getFastMathFlags();
  flags.setApproxFunc();
  Value *root = b.CreateUnaryIntrinsic(
      Intrinsic::sqrt, b.CreateFAdd(mean, context.real(eps)), flags);
  return b.CreateFDivFMF(context.real(1), root, flags);
}

/// Weight of a column: w, or 1 + w.
static Value *emitWeight(RowContext &context, const RowOp &op, Place weights,
                         Value *column) {
  Value *weight = context.load(weights, column);
  return op.unitOffset ? context.builder.CreateFAdd(context.real(1), weight)
                       : weight;
}

/// Writes the sum over the row of term(column) as the row's result.
static void emitRowResult(RowContext &context, const RowOp &op,
                          function_ref<Value *(Value *)> term) {
  Value *total = emitRowTotal(context, op.width, term);
  context.target.once(context, [&] {
    context.store(op, total, context.buffer(op.results[0]), context.row);
  });
}

/// rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * w. SquareSum is the sum in
/// that mean, and RmsApply takes it from all ranks.
static void emitRmsNorm(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place x = context.rowOf(op.operands[0], op.width);
  auto squareOf = [&](Value *column) {
    Value *element = context.load(x, column);
    return b.CreateFMul(element, element);
  };
  if (op.kind == RowOpKind::SquareSum)
    return emitRowResult(context, op, squareOf);
  Place weight = context.buffer(op.operands[1]);
  Place y = context.rowOf(op.results[0], op.width);
  Value *square = op.kind == RowOpKind::RmsApply
                      ? emitSummedMean(context, op, op.operands[2])
                      : emitRowMean(context, op.width, squareOf);
  Value *rstd = emitInverseRoot(context, square, op.eps);
  context.target.once(context, [&] {
    context.store(op, rstd, context.buffer(op.results[1]), context.row);
  });
  context.columns(op.width, [&](Value *column) {
    Value *normal = b.CreateFMul(context.load(x, column), rstd);
    context.store(
        op, b.CreateFMul(normal, emitWeight(context, op, weight, column)), y,
        column);
  });
}

/// dx = rstd * (dy * w - x * rstd^2 * mean(dy * w * x)). RowDot is the sum in
/// that mean, and RmsApplyGrad takes it from all ranks.
static void emitRmsNormGrad(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place dy = context.rowOf(op.operands[0], op.width);
  Place x = context.rowOf(op.operands[1], op.width);
  Place weight = context.buffer(op.operands[2]);
  auto weighted = [&](Value *column) {
    return b.CreateFMul(context.load(dy, column),
                        emitWeight(context, op, weight, column));
  };
  auto productOf = [&](Value *column) {
    return b.CreateFMul(weighted(column), context.load(x, column));
  };
  if (op.kind == RowOpKind::RowDot)
    return emitRowResult(context, op, productOf);
  Value *rstd = context.load(context.buffer(op.operands[3]), context.row);
  Place dx = context.rowOf(op.results[0], op.width);
  Value *mean = op.kind == RowOpKind::RmsApplyGrad
                    ? emitSummedMean(context, op, op.operands[4])
                    : emitRowMean(context, op.width, productOf);
  Value *factor = b.CreateFMul(b.CreateFMul(rstd, rstd), mean);
  context.columns(op.width, [&](Value *column) {
    Value *along = b.CreateFMul(context.load(x, column), factor);
    context.store(op,
                  b.CreateFMul(rstd, b.CreateFSub(weighted(column), along)),
                  dx, column);
  });
}

/// mean and biased variance in two passes; y = (x - mean) * rstd * w + bias.
static void emitLayerNorm(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place x = context.rowOf(op.operands[0], op.width);
  Place weight = context.buffer(op.operands[1]);
  Place bias = context.buffer(op.operands[2]);
  Place y = context.rowOf(op.results[0], op.width);
  Value *mean = emitRowMean(context, op.width, [&](Value *column) {
    return context.load(x, column);
  });
  Value *variance = emitRowMean(context, op.width, [&](Value *column) {
    Value *centred = b.CreateFSub(context.load(x, column), mean);
    return b.CreateFMul(centred, centred);
  });
  Value *rstd = emitInverseRoot(context, variance, op.eps);
  context.target.once(context, [&] {
    context.store(op, mean, context.buffer(op.results[1]), context.row);
    context.store(op, rstd, context.buffer(op.results[2]), context.row);
  });
  context.columns(op.width, [&](Value *column) {
    Value *normal =
        b.CreateFMul(b.CreateFSub(context.load(x, column), mean), rstd);
    Value *scaled = b.CreateFMul(normal, context.load(weight, column));
    context.store(op, b.CreateFAdd(scaled, context.load(bias, column)), y,
                  column);
  });
}

/// With n = (x - mean) * rstd and g = dy * w:
/// dx = rstd * (g - mean(g) - n * mean(g * n)).
static void emitLayerNormGrad(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place dy = context.rowOf(op.operands[0], op.width);
  Place x = context.rowOf(op.operands[1], op.width);
  Place weight = context.buffer(op.operands[2]);
  Value *mean = context.load(context.buffer(op.operands[3]), context.row);
  Value *rstd = context.load(context.buffer(op.operands[4]), context.row);
  Place dx = context.rowOf(op.results[0], op.width);
  auto weighted = [&](Value *column) {
    return b.CreateFMul(context.load(dy, column),
                        context.load(weight, column));
  };
  auto normal = [&](Value *column) {
    return b.CreateFMul(b.CreateFSub(context.load(x, column), mean), rstd);
  };
  Values sums = context.target.fold(
      context, context.count(op.width), {Fold::Sum, Fold::Sum},
      [&](Value *column) -> Values {
        Value *g = weighted(column);
        return {g, b.CreateFMul(g, normal(column))};
      });
  Value *width = context.real(static_cast<double>(op.width));
  Value *meanOfG = b.CreateFDiv(sums[0], width);
  Value *meanOfGn = b.CreateFDiv(sums[1], width);
  context.columns(op.width, [&](Value *column) {
    Value *centred = b.CreateFSub(weighted(column), meanOfG);
    Value *along = b.CreateFMul(normal(column), meanOfGn);
    context.store(op, b.CreateFMul(rstd, b.CreateFSub(centred, along)), dx,
                  column);
  });
}

void emitNorm(RowContext &context, const RowOp &op) {
  switch (op.kind) {
  case RowOpKind::RmsNorm:
  case RowOpKind::SquareSum:
  case RowOpKind::RmsApply:
    return emitRmsNorm(context, op);
  case RowOpKind::RmsNormGrad:
  case RowOpKind::RowDot:
  case RowOpKind::RmsApplyGrad:
    return emitRmsNormGrad(context, op);
  case RowOpKind::LayerNorm:
    return emitLayerNorm(context, op);
  case RowOpKind::LayerNormGrad:
    return emitLayerNormGrad(context, op);
  default:
    assert(false && "not a norm");
  }
}

} // namespace shardwright::codegen
