//===- RowCrossEntropy.cpp - Row statistics over the vocabulary -----------===//
#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

/// Columns of this rank that are not padding:
/// clamp(validColumns - origin, 0, width).
static Value *emitValidColumns(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Value *here =
      b.CreateSub(context.count(op.validColumns), context.columnOrigin);
  here = b.CreateBinaryIntrinsic(Intrinsic::smax, here, context.count(0));
  return b.CreateBinaryIntrinsic(Intrinsic::smin, here,
                                 context.count(op.width));
}

/// Column of the row's label on this rank, and whether it lies here.
static std::pair<Value *, Value *>
emitLabelColumn(RowContext &context, const RowOp &op, int labels) {
  IRBuilder<> &b = context.builder;
  Value *column =
      b.CreateSub(context.label(labels), context.columnOrigin);
  // Unsigned: negative columns are large.
  return {column, b.CreateICmpULT(column, context.count(op.width))};
}

/// NaN in a row makes its maximum, and so the loss, NaN.
static void emitMaxLogit(RowContext &context, const RowOp &op) {
  Place logits = context.rowOf(op.operands[0], op.width);
  Values maximum = context.target.fold(
      context, emitValidColumns(context, op), {Fold::Max},
      [&](Value *column) -> Values { return {context.load(logits, column)}; });
  context.target.once(context, [&] {
    context.store(op, maximum[0], context.buffer(op.results[0]), context.row);
  });
}

static void emitSumExp(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place logits = context.rowOf(op.operands[0], op.width);
  Value *maximum = context.load(context.buffer(op.operands[1]), context.row);
  Values sum = context.target.fold(
      context, emitValidColumns(context, op), {Fold::Sum},
      [&](Value *column) -> Values {
        return {context.exp(
            b.CreateFSub(context.load(logits, column), maximum))};
      });
  context.target.once(context, [&] {
    context.store(op, sum[0], context.buffer(op.results[0]), context.row);
  });
}

static void emitTargetLogit(RowContext &context, const RowOp &op) {
  context.target.once(context, [&] {
    IRBuilder<> &b = context.builder;
    Place logits = context.rowOf(op.operands[0], op.width);
    auto [column, here] = emitLabelColumn(context, op, op.operands[1]);
    // Reads column 0 when the label is elsewhere, and drops it.
    Value *safe = b.CreateSelect(here, column, context.count(0));
    Value *target =
        b.CreateSelect(here, context.load(logits, safe), context.real(0));
    context.store(op, target, context.buffer(op.results[0]), context.row);
  });
}

/// scale * (exp(logit - max) / sum - onehot(label)); 0 in the padding.
static void emitSoftmaxGrad(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place logits = context.rowOf(op.operands[0], op.width);
  Value *maximum = context.load(context.buffer(op.operands[1]), context.row);
  Value *sum = context.load(context.buffer(op.operands[2]), context.row);
  Place gradient = context.rowOf(op.results[0], op.width);
  Value *scale = context.real(op.scale);
  Value *factor = b.CreateFDiv(scale, sum);
  Value *valid = emitValidColumns(context, op);
  // In the loop, so that each element is rounded once.
  Value *labelColumn = emitLabelColumn(context, op, op.operands[3]).first;
  context.target.columns(
      context, context.count(0), valid, [&](Value *column) {
        Value *power =
            context.exp(b.CreateFSub(context.load(logits, column), maximum));
        Value *onehot = b.CreateSelect(b.CreateICmpEQ(column, labelColumn),
                                       scale, context.real(0));
        context.store(op, b.CreateFSub(b.CreateFMul(power, factor), onehot),
                      gradient, column);
      });
  if (!op.accumulate)
    context.target.columns(context, valid, context.count(op.width),
                           [&](Value *column) {
                             context.store(op, context.real(0), gradient,
                                           column);
                           });
}

void emitCrossEntropy(RowContext &context, const RowOp &op) {
  switch (op.kind) {
  case RowOpKind::MaxLogit:
    return emitMaxLogit(context, op);
  case RowOpKind::SumExp:
    return emitSumExp(context, op);
  case RowOpKind::TargetLogit:
    return emitTargetLogit(context, op);
  case RowOpKind::SoftmaxGrad:
    return emitSoftmaxGrad(context, op);
  default:
    assert(false && "not a cross entropy op");
  }
}

} // namespace shardwright::codegen
