//===- RowEmitter.cpp - One row op on any target --------------------------===//
#include "compiler/Codegen/RowEmitter.h"

#include "compiler/Codegen/RowContext.h"

using namespace llvm;

namespace shardwright::codegen {

void emitRowOp(RowContext &context, size_t number) {
  const RowOp &op = context.program.ops[number];
  switch (familyOf(op.kind)) {
  case RowOpFamily::Map:
    return emitMap(context, op);
  case RowOpFamily::Rope:
    return emitRope(context, number);
  case RowOpFamily::Norm:
    return emitNorm(context, op);
  case RowOpFamily::CrossEntropy:
    return emitCrossEntropy(context, op);
  case RowOpFamily::RowSum:
    assert(false && "sums over rows have loops of their own");
  }
}

} // namespace shardwright::codegen
