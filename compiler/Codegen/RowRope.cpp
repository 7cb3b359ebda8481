//===- RowRope.cpp - Rotary position embedding ----------------------------===//
//
// Hugging Face's convention: of the r rotated columns of a head, column i turns
// with column i + r / 2 by the angle position * inverse frequency i; or, if
// interleaved, column 2i with column 2i + 1. Turned columns are multiplied by
// `scale`, also on the way back; other columns are copied. The
// angles of a position are shared by its rows and heads; they are formed in f64
// whatever the element type.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/RowContext.h"

#include "llvm/IR/Constants.h"

using namespace llvm;

namespace shardwright::codegen {

static int64_t pairsOf(const RowOp &op) {
  return static_cast<int64_t>(op.inverseFrequencies.size());
}

void makeRopeTables(RowContext &context, size_t first, size_t last) {
  context.ropeTables.resize(context.program.ops.size());
  for (size_t op = first; op < last; ++op)
    if (context.program.ops[op].kind == RowOpKind::Rope) {
      const int64_t pairs = pairsOf(context.program.ops[op]);
      context.ropeTables[op] = {context.target.table(context, pairs),
                                context.target.table(context, pairs)};
    }
}

static GlobalVariable *frequencyTable(RowContext &context, const RowOp &op) {
  Module &module = context.module();
  Constant *table = ConstantDataArray::get(
      module.getContext(), ArrayRef<double>(op.inverseFrequencies));
  auto *global =
      new GlobalVariable(module, table->getType(), /*isConstant=*/true,
                         GlobalValue::PrivateLinkage, table, "frequencies");
  global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  global->setAlignment(Align(32));
  return global;
}

void emitRopeTables(RowContext &context, size_t number) {
  IRBuilder<> &b = context.builder;
  const RowOp &op = context.program.ops[number];
  auto [cosines, sines] = context.ropeTables[number];
  GlobalVariable *frequencies = frequencyTable(context, op);
  Value *position = b.CreateSIToFP(
      b.CreateAdd(context.positionOrigin, context.outer), b.getDoubleTy());
  context.columns(pairsOf(op), [&, cosines = cosines,
                                sines = sines](Value *pair) {
    Value *frequency = b.CreateLoad(
        b.getDoubleTy(),
        b.CreateInBoundsGEP(b.getDoubleTy(), frequencies, pair));
    auto [cosine, sine] =
        context.target.cosSin(b, b.CreateFMul(position, frequency));
    if (op.inverse)
      sine = b.CreateFNeg(sine);
    if (op.scale != 1) {
      Value *scale = ConstantFP::get(b.getDoubleTy(), op.scale);
      cosine = b.CreateFMul(cosine, scale);
      sine = b.CreateFMul(sine, scale);
    }
    if (context.program.element == Element::F32) {
      cosine = b.CreateFPTrunc(cosine, context.type);
      sine = b.CreateFPTrunc(sine, context.type);
    }
    context.store(cosine, context.at(cosines, pair));
    context.store(sine, context.at(sines, pair));
  });
}

void emitRope(RowContext &context, size_t number) {
  IRBuilder<> &b = context.builder;
  const RowOp &op = context.program.ops[number];
  auto [cosines, sines] = context.ropeTables[number];
  Place x = context.rowOf(op.operands[0], op.width);
  Place y = context.rowOf(op.results[0], op.width);
  const int64_t heads = op.width / op.headDim, pairs = pairsOf(op);
  auto start = [&](Value *head) {
    return b.CreateMul(head, context.count(op.headDim));
  };
  context.target.headColumns(
      context, heads, 0, pairs,
      [&, cosines = cosines, sines = sines](Value *head, Value *pair) {
        Place lowX = context.at(x, start(head));
        Place lowY = context.at(y, start(head));
        Value *apart = context.count(op.interleaved ? 1 : pairs);
        Place highX = context.at(lowX, apart);
        Place highY = context.at(lowY, apart);
        Value *column =
            op.interleaved ? b.CreateMul(pair, context.count(2)) : pair;
        Value *low = context.load(lowX, column);
        Value *high = context.load(highX, column);
        Value *cosine = context.load(cosines, pair);
        Value *sine = context.load(sines, pair);
        context.store(op,
                      b.CreateFSub(b.CreateFMul(low, cosine),
                                   b.CreateFMul(high, sine)),
                      lowY, column);
        context.store(op,
                      b.CreateFAdd(b.CreateFMul(high, cosine),
                                   b.CreateFMul(low, sine)),
                      highY, column);
      });
  if (2 * pairs < op.headDim)
    context.target.headColumns(
        context, heads, 2 * pairs, op.headDim,
        [&](Value *head, Value *column) {
          context.store(op, context.load(context.at(x, start(head)), column),
                        context.at(y, start(head)), column);
        });
}

} // namespace shardwright::codegen
