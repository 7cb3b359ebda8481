//===- RowSums.cpp - Summands of the sums over rows -----------------------===//
#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

SummedRow summedRow(RowContext &context, const RowOp &op, Value *row) {
  context.row = row;
  SummedRow result;
  const int tensors = op.kind == RowOpKind::ColumnSum ||
                              op.kind == RowOpKind::AddPositionsGrad
                          ? 1
                          : 2;
  for (int number = 0; number < static_cast<int>(op.operands.size()); ++number)
    if (number < tensors)
      result.rows.push_back(context.rowOf(op.operands[number], op.width));
    else
      result.scalars.push_back(
          context.load(context.buffer(op.operands[number]), row));
  return result;
}

Value *emitSummand(RowContext &context, const RowOp &op, const SummedRow &row,
                   Value *column) {
  IRBuilder<> &b = context.builder;
  Value *first = context.load(row.rows[0], column);
  switch (op.kind) {
  case RowOpKind::ColumnSum:
  case RowOpKind::AddPositionsGrad:
    return first;
  case RowOpKind::RmsNormWeightGrad:
    return b.CreateFMul(
        first, b.CreateFMul(context.load(row.rows[1], column), row.scalars[0]));
  case RowOpKind::LayerNormWeightGrad:
    return b.CreateFMul(
        first, b.CreateFMul(b.CreateFSub(context.load(row.rows[1], column),
                                         row.scalars[0]),
                            row.scalars[1]));
  default:
    assert(false && "not a column sum");
    return nullptr;
  }
}

/// The rows stand where columns stand elsewhere.
void emitTokenLoss(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Place maximum = context.buffer(op.operands[0]);
  Place sum = context.buffer(op.operands[1]);
  Place target = context.buffer(op.operands[2]);
  Values total = context.target.fold(
      context, context.count(context.rows()), {Fold::Sum},
      [&](Value *row) -> Values {
        Value *log = context.target.log(b, context.load(sum, row));
        return {b.CreateFSub(b.CreateFAdd(log, context.load(maximum, row)),
                             context.load(target, row))};
      });
  context.target.once(context, [&] {
    context.store(op, b.CreateFMul(context.real(op.scale), total[0]),
                  context.buffer(op.results[0]), context.count(0));
  });
}

Value *emitTableRow(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  return b.CreateMul(
      b.CreateAdd(b.CreateAdd(context.positionOrigin, context.outer),
                  context.count(op.tableOffset)),
      context.count(op.width));
}

} // namespace shardwright::codegen
