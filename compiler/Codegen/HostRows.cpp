//===- HostRows.cpp - Row programs as functions of the host ---------------===//
//
// A row loop per group. Sums over rows have vectorized columns; four rows are
// added before they meet the destination, so that it is read and written once
// per four rows.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/HostTarget.h"
#include "compiler/Codegen/RowContext.h"
#include "compiler/Codegen/RowEmitter.h"

#include "llvm/IR/Verifier.h"

using namespace llvm;

namespace shardwright::codegen {

static constexpr int64_t kRowsTogether = 4;

RowUnits rowUnits(const RowProgram &program) {
  constexpr int64_t elementsWorthThread = 1 << 15; // some 10 us of one core
  constexpr int64_t columns = 32; // keeps vectors whole
  int64_t elements = 0;           // of a unit
  RowUnits units;
  for (const RowOp &op : program.ops) {
    if (reducesRows(op.kind) &&
        (program.ops.size() > 1 || op.kind == RowOpKind::TokenLoss ||
         (op.kind == RowOpKind::AddPositionsGrad && !op.accumulate)))
      return {};
    elements += program.inner * op.width;
  }
  units.extent = program.outer;
  const RowOpKind kind = program.ops.front().kind;
  const bool sumsColumns =
      reducesRows(kind) && kind != RowOpKind::AddPositionsGrad;
  if (sumsColumns) {
    units.extent = program.ops.front().width;
    elements = program.outer * program.inner;
  }
  units.grain = std::max<int64_t>(1, elementsWorthThread / elements);
  if (sumsColumns)
    units.grain = (units.grain + columns - 1) / columns * columns;
  return units;
}

namespace {

/// Emits a program as one function of the host.
class HostRows {
public:
  HostRows(const RowProgram &program, Module &module, bool ranged);
  Function *emit();

private:
  void emitGroup(const RowGroup &group);
  void emitRowSum(const RowOp &op);
  /// Columns [first, last) of what starts at `place`, or at `offset` of it.
  struct Columns {
    Place place;
    Value *first, *last;
    Value *offset = nullptr;
  };
  void emitRowsTogether(const RowOp &op, Value *start, int64_t together,
                        const Columns &to);
  void emitSums(const RowOp &op, Value *start, int64_t rows, const Columns &to);
  void emitColumns(const RowOp &op, Value *start, int64_t rows,
                   const Columns &to);
  void emitZeros(Place place, Value *elements);
  /// A loop over the units to do, of which there are `extent`.
  void emitUnits(int64_t extent, function_ref<void(Value *)> body);

  const RowProgram &program;
  Module &module;
  bool ranged;
  IRBuilder<> builder;
  Function *function = nullptr;
  HostTarget target;
  Value *first = nullptr, *last = nullptr; ///< units to do; null: all
};

} // namespace

HostRows::HostRows(const RowProgram &program, Module &module, bool ranged)
    : program(program), module(module), ranged(ranged),
      builder(module.getContext()) {}

void HostRows::emitUnits(int64_t extent, function_ref<void(Value *)> body) {
  emitLoop(builder, first ? first : builder.getInt64(0),
           last ? last : builder.getInt64(extent), body);
}

Function *HostRows::emit() {
  allowContraction(builder);
  SmallVector<Type *> parameters(program.buffers, builder.getPtrTy());
  parameters.append(ranged ? 4 : 2, builder.getInt64Ty());
  function = Function::Create(
      FunctionType::get(builder.getVoidTy(), parameters, false),
      GlobalValue::InternalLinkage, program.name, module);
  function->setDoesNotThrow();
  for (int number = 0; number < program.buffers; ++number)
    function->addParamAttr(number, Attribute::NoAlias);
  if (ranged) {
    first = function->getArg(program.buffers + 2);
    last = function->getArg(program.buffers + 3);
  }
  builder.SetInsertPoint(
      BasicBlock::Create(module.getContext(), "entry", function));
  for (const RowGroup &group : rowGroups(program))
    emitGroup(group);
  builder.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the emitter made invalid IR");
  return function;
}

static RowContext contextOf(IRBuilder<> &builder, RowTarget &target,
                            const RowProgram &program, Function *function) {
  return {builder,
          target,
          program,
          function,
          program.element == Element::F64 ? builder.getDoubleTy()
                                          : builder.getFloatTy(),
          function->getArg(program.buffers),
          function->getArg(program.buffers + 1)};
}

/// One loop over rows, or a sum over rows.
void HostRows::emitGroup(const RowGroup &group) {
  if (group.sumsRows)
    return emitRowSum(program.ops[group.first]);
  RowContext context = contextOf(builder, target, program, function);
  makeRopeTables(context, group.first, group.last);
  emitUnits(program.outer, [&](Value *outer) {
    context.outer = outer;
    for (size_t op = group.first; op < group.last; ++op)
      if (program.ops[op].kind == RowOpKind::Rope)
        emitRopeTables(context, op);
    emitLoop(builder, context.count(program.inner), [&](Value *inner) {
      context.row = builder.CreateAdd(
          builder.CreateMul(outer, context.count(program.inner)), inner, "row");
      for (size_t op = group.first; op < group.last; ++op)
        emitRowOp(context, op);
    });
  });
}

void HostRows::emitZeros(Place place, Value *elements) {
  builder.CreateMemSet(
      place.base, builder.getInt8(0),
      builder.CreateMul(elements, builder.getInt64(bytesOf(place.element))),
      MaybeAlign());
}

/// to[column] += rows [start, start + together) of the op.
void HostRows::emitRowsTogether(const RowOp &op, Value *start,
                                int64_t together, const Columns &to) {
  RowContext context = contextOf(builder, target, program, function);
  SmallVector<SummedRow> rows;
  for (int64_t i = 0; i < together; ++i)
    rows.push_back(
        summedRow(context, op, builder.CreateAdd(start, context.count(i))));
  emitLoop(builder, to.first, to.last, [&](Value *column) {
    SmallVector<Value *> terms;
    for (const SummedRow &row : rows)
      terms.push_back(emitSummand(context, op, row, column));
    Value *sum = emitTree(terms, [&](Value *x, Value *y) {
      return builder.CreateFAdd(x, y);
    });
    Place place = context.at(
        to.place, to.offset ? builder.CreateSub(column, to.offset) : column);
    context.store(builder.CreateFAdd(context.load(place), sum), place);
  });
}

/// to[column] += rows [start, start + rows).
void HostRows::emitSums(const RowOp &op, Value *start, int64_t rows,
                        const Columns &to) {
  const int64_t blocks = rows / kRowsTogether;
  auto number = [&](int64_t value) { return builder.getInt64(value); };
  if (blocks > 0)
    emitLoop(builder, number(blocks), [&](Value *block) {
      emitRowsTogether(
          op,
          builder.CreateAdd(start,
                            builder.CreateMul(block, number(kRowsTogether))),
          kRowsTogether, to);
    });
  if (rows % kRowsTogether > 0)
    emitRowsTogether(op,
                     builder.CreateAdd(start, number(blocks * kRowsTogether)),
                     rows % kRowsTogether, to);
}

/// As emitSums. What is stored as bf16 is summed in f32, some columns at a
/// time, so that it is rounded once.
void HostRows::emitColumns(const RowOp &op, Value *start, int64_t rows,
                           const Columns &to) {
  if (to.place.element != Element::BF16)
    return emitSums(op, start, rows, to);
  constexpr int64_t together = 256;
  RowContext context = contextOf(builder, target, program, function);
  Place sums = target.table(context, together);
  emitStridedLoop(
      builder, to.first, to.last, together, {},
      [&](Value *tile, ArrayRef<Value *>) {
        Value *end = builder.CreateBinaryIntrinsic(
            Intrinsic::smin, to.last,
            builder.CreateAdd(tile, context.count(together)));
        auto sum = [&](Value *column) {
          return context.at(sums, builder.CreateSub(column, tile));
        };
        emitLoop(builder, tile, end, [&](Value *column) {
          context.store(context.load(to.place, column), sum(column));
        });
        emitSums(op, start, rows, {sums, tile, end, tile});
        emitLoop(builder, tile, end, [&](Value *column) {
          context.store(context.load(sum(column)),
                        context.at(to.place, column));
        });
        return Values();
      });
}

void HostRows::emitRowSum(const RowOp &op) {
  RowContext context = contextOf(builder, target, program, function);
  if (op.kind == RowOpKind::TokenLoss)
    return emitTokenLoss(context, op);
  Place destination = context.buffer(op.results[0]);
  if (op.kind != RowOpKind::AddPositionsGrad) {
    const Columns columns{destination, first ? first : context.count(0),
                          last ? last : context.count(op.width)};
    if (!op.accumulate)
      emitZeros(context.at(destination, columns.first),
                builder.CreateSub(columns.last, columns.first));
    return emitColumns(op, context.count(0), context.rows(), columns);
  }
  if (!op.accumulate)
    emitZeros(destination, context.count(op.tableRows * op.width));
  emitUnits(program.outer, [&](Value *outer) {
    context.outer = outer;
    emitColumns(op, builder.CreateMul(outer, context.count(program.inner)),
                program.inner,
                {context.at(destination, emitTableRow(context, op)),
                 context.count(0), context.count(op.width)});
  });
}

Function *emitRowProgram(const RowProgram &program, Module &module) {
  return HostRows(program, module, /*ranged=*/false).emit();
}

Function *emitRowRange(const RowProgram &program, Module &module) {
  Function *callee = HostRows(program, module, /*ranged=*/true).emit();
  IRBuilder<> b(module.getContext());
  auto *function = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false),
      GlobalValue::InternalLinkage, program.name + ".units", module);
  function->setDoesNotThrow();
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", function));
  SmallVector<Value *> arguments;
  for (int number = 0; number < program.buffers + 2; ++number) {
    Type *type = callee->getFunctionType()->getParamType(number);
    arguments.push_back(b.CreateLoad(
        type, b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0),
                                           number)));
  }
  arguments.append({function->getArg(1), function->getArg(2)});
  b.CreateCall(callee, arguments);
  b.CreateRetVoid();
  return function;
}

} // namespace shardwright::codegen
