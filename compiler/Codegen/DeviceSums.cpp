//===- DeviceSums.cpp - Sums over rows on a GPU ---------------------------===//
#include "compiler/Codegen/DeviceStepBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace shardwright::codegen {

/// Columns of a block of the first step, one per lane of a warp, and its warps,
/// which take rows in turn.
static constexpr int64_t kColumns = kWarp, kRowLanes = 8;
/// Blocks that fill a large GPU some times over.
static constexpr int64_t kEnoughBlocks = 1024;
/// Rows that are worth a block, and parts that one thread adds at most.
static constexpr int64_t kRowsWorthBlock = 64, kMostParts = 64;

namespace {
/// How the rows of a sum are cut into parts, one per block of a column group.
struct Parts {
  int64_t columnGroups, count, rowsOfPart;
};
} // namespace

static Parts partsOf(int64_t rows, int64_t width) {
  Parts parts;
  parts.columnGroups = divideCeil(width, kColumns);
  const int64_t wanted = divideCeil(kEnoughBlocks, parts.columnGroups);
  parts.count = std::min({wanted, kMostParts,
                          static_cast<int64_t>(
                              divideCeil(rows, kRowsWorthBlock))});
  parts.rowsOfPart = divideCeil(rows, parts.count);
  return parts;
}

/// Sums the rows of a part; stores, per column, into the result of the op if it
/// is the only one, else into the scratch memory, [part][column].
static void emitPartialSums(const RowProgram &program, const RowOp &op,
                            const Parts &parts, DeviceKernel &kernel,
                            Module &module) {
  DeviceStepBuilder step(program, kernel, module,
                         parts.columnGroups * parts.count,
                         kColumns * kRowLanes);
  RowContext &context = step.context;
  IRBuilder<> &b = step.b;
  Value *width = context.count(op.width);
  Value *groups = context.count(parts.columnGroups);
  Value *part = b.CreateUDiv(step.target.block(), groups);
  Value *lane = b.CreateURem(step.target.thread(), context.count(kColumns));
  Value *rowLane = b.CreateUDiv(step.target.thread(), context.count(kColumns));
  Value *column = b.CreateAdd(
      b.CreateMul(b.CreateURem(step.target.block(), groups),
                  context.count(kColumns)),
      lane);
  // Lanes past the end read the last column and store nothing.
  Value *readable = b.CreateBinaryIntrinsic(Intrinsic::smin, column,
                                            context.count(op.width - 1));
  Value *first = b.CreateMul(part, context.count(parts.rowsOfPart));
  Value *last = b.CreateBinaryIntrinsic(
      Intrinsic::smin, b.CreateAdd(first, context.count(parts.rowsOfPart)),
      context.count(context.rows()));
  Value *sum =
      emitStridedLoop(b, b.CreateAdd(first, rowLane), last, kRowLanes,
                      {context.real(0)},
                      [&](Value *row, ArrayRef<Value *> carried) -> Values {
                        return {context.sum(
                            carried[0],
                            emitSummand(context, op,
                                        summedRow(context, op, row),
                                        readable))};
                      })[0];
  Place memory{
      step.target.shared(module, context.type, kColumns * kRowLanes),
      program.element};
  context.store(sum, context.at(memory, step.target.thread()));
  step.target.meet(context);
  Value *stores =
      b.CreateAnd(b.CreateICmpEQ(rowLane, context.count(0)),
                  b.CreateICmpSLT(column, width));
  emitIf(b, stores, [&] {
    SmallVector<Value *> terms;
    for (int64_t i = 0; i < kRowLanes; ++i)
      terms.push_back(context.load(
          memory, b.CreateAdd(lane, context.count(i * kColumns))));
    Value *total = emitTree(
        terms, [&](Value *x, Value *y) { return context.sum(x, y); });
    if (parts.count == 1)
      context.store(op, total, context.buffer(op.results[0]), column);
    else
      context.store(total,
                    context.at(step.scratch(),
                               b.CreateAdd(b.CreateMul(part, width), column)));
  });
  step.finish();
}

/// Threads of a block that does one column per thread: few, so that narrow
/// results have several blocks.
static constexpr int64_t kColumnThreads = 128;

static void emitSumOfParts(const RowProgram &program, const RowOp &op,
                           const Parts &parts, DeviceKernel &kernel,
                           Module &module) {
  DeviceStepBuilder step(program, kernel, module,
                         divideCeil(op.width, kColumnThreads), kColumnThreads);
  RowContext &context = step.context;
  IRBuilder<> &b = step.b;
  Value *width = context.count(op.width);
  Value *column = b.CreateAdd(
      b.CreateMul(step.target.block(), context.count(kColumnThreads)),
      step.target.thread());
  emitIf(b, b.CreateICmpSLT(column, width), [&] {
    Values sum = emitCarriedLoop(
        b, context.count(parts.count), {context.real(0)},
        [&](Value *part, ArrayRef<Value *> carried) -> Values {
          return {context.sum(
              carried[0],
              context.load(step.scratch(),
                           b.CreateAdd(b.CreateMul(part, width), column)))};
        });
    context.store(op, sum[0], context.buffer(op.results[0]), column);
  });
  step.finish();
}

/// A table row per position: zeros first, unless it is added to; then a block
/// per position sums its rows.
static void emitPositionSums(const RowProgram &program, const RowOp &op,
                             DeviceKernel &kernel, Module &module) {
  if (!op.accumulate) {
    const int64_t elements = op.tableRows * op.width;
    DeviceStepBuilder step(program, kernel, module,
                           divideCeil(elements, kColumnThreads),
                           kColumnThreads);
    RowContext &context = step.context;
    step.target.setSpan(
        step.b.CreateMul(step.target.block(), context.count(kColumnThreads)),
        kColumnThreads);
    context.columns(elements, [&](Value *element) {
      context.store(context.real(0),
                    context.at(context.buffer(op.results[0]), element));
    });
    step.finish();
  }
  DeviceStepBuilder step(program, kernel, module, program.outer,
                         kColumnThreads);
  RowContext &context = step.context;
  IRBuilder<> &b = step.b;
  context.outer = step.target.block();
  Place table =
      context.at(context.buffer(op.results[0]), emitTableRow(context, op));
  RowOp adding = op;
  adding.accumulate = true;
  context.columns(op.width, [&](Value *column) {
    Values sum = emitCarriedLoop(
        b, context.count(program.inner), {context.real(0)},
        [&](Value *inner, ArrayRef<Value *> carried) -> Values {
          Value *row = b.CreateAdd(
              b.CreateMul(context.outer, context.count(program.inner)), inner);
          return {context.sum(carried[0],
                              emitSummand(context, op,
                                          summedRow(context, op, row),
                                          column))};
        });
    context.store(adding, sum[0], table, column);
  });
  step.finish();
}

void emitDeviceSum(const RowProgram &program, const RowOp &op,
                   DeviceKernel &kernel, Module &module) {
  if (op.kind == RowOpKind::AddPositionsGrad)
    return emitPositionSums(program, op, kernel, module);
  if (op.kind == RowOpKind::TokenLoss) { // a block folds all rows
    DeviceStepBuilder step(program, kernel, module, 1, 512);
    emitTokenLoss(step.context, op);
    return step.finish();
  }
  const Parts parts = partsOf(program.outer * program.inner, op.width);
  emitPartialSums(program, op, parts, kernel, module);
  if (parts.count == 1)
    return;
  emitSumOfParts(program, op, parts, kernel, module);
  kernel.scratchBytes =
      std::max(kernel.scratchBytes,
               parts.count * op.width * bytesOf(program.element));
}

} // namespace shardwright::codegen
