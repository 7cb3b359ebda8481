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

static Value *pairsOf(RowContext &context, const RowOp &op) {
  return context.count(static_cast<int64_t>(op.inverseFrequencies.size()));
}

static GlobalVariable *frequencyTable(RowContext &context, const RowOp &op) {
  Module &module = *context.function->getParent();
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
  emitLoop(b, pairsOf(context, op), [&, cosines = cosines,
                                              sines = sines](Value *pair) {
    Value *frequency = b.CreateLoad(
        b.getDoubleTy(),
        b.CreateInBoundsGEP(b.getDoubleTy(), frequencies, pair));
    Value *angle = b.CreateFMul(position, frequency);
    Value *cosine = context.call(Intrinsic::cos, angle);
    Value *sine = context.call(Intrinsic::sin, angle);
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
    b.CreateStore(cosine, context.at(cosines, pair));
    b.CreateStore(sine, context.at(sines, pair));
  });
}

void emitRope(RowContext &context, size_t number) {
  IRBuilder<> &b = context.builder;
  const RowOp &op = context.program.ops[number];
  auto [cosines, sines] = context.ropeTables[number];
  Value *x = context.rowOf(op.operands[0], op.width);
  Value *y = context.rowOf(op.results[0], op.width);
  Value *half = pairsOf(context, op);
  const int64_t rotated = 2 * op.inverseFrequencies.size();
  emitLoop(
      b, context.count(op.width / op.headDim),
      [&, cosines = cosines, sines = sines](Value *head) {
        Value *start = b.CreateMul(head, context.count(op.headDim));
        Value *lowX = context.at(x, start), *lowY = context.at(y, start);
        Value *apart = op.interleaved ? context.count(1) : half;
        Value *highX = context.at(lowX, apart);
        Value *highY = context.at(lowY, apart);
        emitLoop(b, half, [&](Value *pair) {
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
        if (rotated < op.headDim)
          emitLoop(b, context.count(rotated), context.count(op.headDim),
                   [&](Value *column) {
                     context.store(op, context.load(lowX, column), lowY,
                                   column);
                   });
      });
}

} // namespace shardwright::codegen
