//===- LoopBuilder.cpp - Counted loops in LLVM IR -------------------------===//
#include "compiler/Codegen/LoopBuilder.h"

using namespace llvm;

namespace shardwright::codegen {

Values
emitStridedLoop(IRBuilder<> &builder, Value *first, Value *count, int64_t step,
                ArrayRef<Value *> initial,
                function_ref<Values(Value *, ArrayRef<Value *>)> body) {
  LLVMContext &context = builder.getContext();
  BasicBlock *before = builder.GetInsertBlock();
  Function *function = before->getParent();
  BasicBlock *header = BasicBlock::Create(context, "loop", function);
  BasicBlock *inside = BasicBlock::Create(context, "body", function);
  BasicBlock *after = BasicBlock::Create(context, "done", function);

  builder.CreateBr(header);
  builder.SetInsertPoint(header);
  PHINode *index = builder.CreatePHI(builder.getInt64Ty(), 2, "i");
  index->addIncoming(first, before);
  SmallVector<PHINode *, 4> phis;
  Values carried;
  for (Value *value : initial) {
    PHINode *phi = builder.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    phis.push_back(phi);
    carried.push_back(phi);
  }
  builder.CreateCondBr(builder.CreateICmpSLT(index, count), inside, after);

  builder.SetInsertPoint(inside);
  Values next = body(index, carried);
  assert(next.size() == phis.size() && "the body returns what it carries");
  Value *increment = builder.CreateAdd(index, builder.getInt64(step), "next",
                                       /*HasNUW=*/true, /*HasNSW=*/true);
  BasicBlock *latch = builder.GetInsertBlock();
  builder.CreateBr(header);
  index->addIncoming(increment, latch);
  for (auto [phi, value] : llvm::zip(phis, next))
    phi->addIncoming(value, latch);

  builder.SetInsertPoint(after);
  return carried;
}

void emitLoop(IRBuilder<> &builder, Value *count,
              function_ref<void(Value *)> body) {
  emitLoop(builder, builder.getInt64(0), count, body);
}

void emitLoop(IRBuilder<> &builder, Value *first, Value *count,
              function_ref<void(Value *)> body) {
  emitStridedLoop(builder, first, count, 1, {},
                  [&](Value *index, ArrayRef<Value *>) {
                    body(index);
                    return Values();
                  });
}

Values emitCarriedLoop(IRBuilder<> &builder, Value *count,
                       ArrayRef<Value *> initial,
                       function_ref<Values(Value *, ArrayRef<Value *>)> body) {
  return emitStridedLoop(builder, builder.getInt64(0), count, 1, initial,
                         body);
}

void emitIf(IRBuilder<> &builder, Value *condition, function_ref<void()> body) {
  LLVMContext &context = builder.getContext();
  Function *function = builder.GetInsertBlock()->getParent();
  BasicBlock *then = BasicBlock::Create(context, "then", function);
  BasicBlock *after = BasicBlock::Create(context, "after", function);
  builder.CreateCondBr(condition, then, after);
  builder.SetInsertPoint(then);
  body();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
}

Value *emitTree(ArrayRef<Value *> values,
                function_ref<Value *(Value *, Value *)> combine) {
  SmallVector<Value *> level(values);
  while (level.size() > 1) {
    SmallVector<Value *> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      next.push_back(combine(level[i], level[i + 1]));
    if (level.size() % 2)
      next.push_back(level.back());
    level = next;
  }
  return level.front();
}

IRBuilder<> &allowContraction(IRBuilder<> &builder) {
  FastMathFlags flags;
  flags.setAllowContract();
  builder.setFastMathFlags(flags);
  return builder;
}

} // namespace shardwright::codegen
