//===- RowSums.cpp - Sums over rows ---------------------------------------===//
//
// A row loop with vectorized columns. Four rows are added before they meet the
// destination, so that it is read and written once per four rows.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

static constexpr int64_t kRowsTogether = 4;

static void emitZeros(RowContext &context, Value *base, Value *elements) {
  IRBuilder<> &b = context.builder;
  b.CreateMemSet(
      base, b.getInt8(0),
      b.CreateMul(elements, b.getInt64(context.type->isDoubleTy() ? 8 : 4)),
      MaybeAlign());
}

/// What a sum needs of one row: pointers and scalars loaded before the loop
/// over its columns.
struct SummedRow {
  SmallVector<Value *, 2> rows;
  SmallVector<Value *, 2> scalars;
};

static SummedRow summedRow(RowContext &context, const RowOp &op, Value *row) {
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

/// The summand of `row` in `column`.
static Value *emitSummand(RowContext &context, const RowOp &op,
                          const SummedRow &row, Value *column) {
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

/// destination[column] += rows [first, first + together) of the op.
static void emitRowsTogether(RowContext &context, const RowOp &op,
                             Value *first, int64_t together,
                             Value *destination) {
  IRBuilder<> &b = context.builder;
  SmallVector<SummedRow> rows;
  for (int64_t i = 0; i < together; ++i)
    rows.push_back(
        summedRow(context, op, b.CreateAdd(first, context.count(i))));
  auto addTo = [&](Value *column) {
    SmallVector<Value *> terms;
    for (const SummedRow &row : rows)
      terms.push_back(emitSummand(context, op, row, column));
    while (terms.size() > 1) {
      SmallVector<Value *> next;
      for (size_t i = 0; i + 1 < terms.size(); i += 2)
        next.push_back(b.CreateFAdd(terms[i], terms[i + 1]));
      if (terms.size() % 2)
        next.push_back(terms.back());
      terms = next;
    }
    b.CreateStore(
        b.CreateFAdd(context.load(destination, column), terms.front()),
        context.at(destination, column));
  };
  if (op.kind == RowOpKind::AddPositionsGrad) // whose units are positions
    emitLoop(b, context.count(op.width), addTo);
  else
    emitUnits(context, op.width, addTo);
}

/// destination += rows [first, first + count).
static void emitColumns(RowContext &context, const RowOp &op, Value *first,
                        int64_t rows, Value *destination) {
  IRBuilder<> &b = context.builder;
  const int64_t blocks = rows / kRowsTogether;
  if (blocks > 0)
    emitLoop(b, context.count(blocks), [&](Value *block) {
      Value *start = b.CreateAdd(
          first, b.CreateMul(block, context.count(kRowsTogether)));
      emitRowsTogether(context, op, start, kRowsTogether, destination);
    });
  if (rows % kRowsTogether > 0)
    emitRowsTogether(
        context, op,
        b.CreateAdd(first, context.count(blocks * kRowsTogether)),
        rows % kRowsTogether, destination);
}

static void emitTokenLoss(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  Value *maximum = context.buffer(op.operands[0]);
  Value *sum = context.buffer(op.operands[1]);
  Value *target = context.buffer(op.operands[2]);
  Values total = emitCarriedLoop(
      b, context.count(context.rows()), {context.real(0)},
      [&](Value *row, ArrayRef<Value *> carried) -> Values {
        Value *log =
            context.call(Intrinsic::log, context.load(sum, row));
        Value *loss = b.CreateFSub(
            b.CreateFAdd(log, context.load(maximum, row)),
            context.load(target, row));
        return {context.sum(carried[0], loss)};
      });
  context.store(op, b.CreateFMul(context.real(op.scale), total[0]),
                context.buffer(op.results[0]), context.count(0));
}

void emitRowSum(RowContext &context, const RowOp &op) {
  IRBuilder<> &b = context.builder;
  if (op.kind == RowOpKind::TokenLoss)
    return emitTokenLoss(context, op);
  Value *destination = context.buffer(op.results[0]);
  if (op.kind != RowOpKind::AddPositionsGrad) {
    if (!op.accumulate) {
      Value *first = context.first ? context.first : context.count(0);
      Value *last = context.last ? context.last : context.count(op.width);
      emitZeros(context, context.at(destination, first),
                b.CreateSub(last, first));
    }
    emitColumns(context, op, context.count(0), context.rows(), destination);
    context.row = nullptr;
    return;
  }
  if (!op.accumulate)
    emitZeros(context, destination,
              context.count(op.tableRows * op.width));
  const int64_t inner = context.program.inner;
  emitUnits(context, context.program.outer, [&](Value *outer) {
    Value *row = b.CreateMul(
        b.CreateAdd(b.CreateAdd(context.positionOrigin, outer),
                    context.count(op.tableOffset)),
        context.count(op.width));
    emitColumns(context, op, b.CreateMul(outer, context.count(inner)), inner,
                context.at(destination, row));
  });
  context.row = nullptr;
}

} // namespace shardwright::codegen
