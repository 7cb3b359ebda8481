//===- Update.cpp - The AdamW update of a bucket --------------------------===//
#include "compiler/Codegen/LoopBuilder.h"
#include "compiler/Codegen/RowEmitter.h"

#include "llvm/IR/Verifier.h"

using namespace llvm;

namespace shardwright::codegen {

/// Order of `scalars` in sw_rt_update.
enum UpdateScalar {
  LearningRate,
  Beta1,
  Beta2,
  Epsilon,
  Decay,
  GradientScale,
  Correction1, ///< 1 - beta1^t
  Correction2, ///< 1 - beta2^t
  UpdateScalars
};

Function *emitUpdate(Element element, const std::string &name, Module &module) {
  LLVMContext &context = module.getContext();
  IRBuilder<> b(context);
  FastMathFlags flags;
  flags.setAllowContract();
  b.setFastMathFlags(flags);
  Type *type = element == Element::F64 ? b.getDoubleTy() : b.getFloatTy();
  Type *pointer = b.getPtrTy();
  auto *function = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {pointer, pointer, pointer, pointer, pointer,
                         b.getInt64Ty(), pointer},
                        false),
      GlobalValue::InternalLinkage, name, module);
  function->setDoesNotThrow();
  for (unsigned argument : {0u, 1u, 2u, 3u, 4u, 6u})
    function->addParamAttr(argument, Attribute::NoAlias);
  Value *master = function->getArg(0), *m = function->getArg(1),
        *v = function->getArg(2), *gradient = function->getArg(3),
        *parameter = function->getArg(4), *count = function->getArg(5);

  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  SmallVector<Value *> scalar;
  auto narrow = [&](Value *value) {
    return element == Element::F64 ? value : b.CreateFPTrunc(value, type);
  };
  Value *one = ConstantFP::get(b.getDoubleTy(), 1);
  for (unsigned i = 0; i < UpdateScalars; ++i)
    scalar.push_back(b.CreateLoad(
        b.getDoubleTy(),
        b.CreateInBoundsGEP(b.getDoubleTy(), function->getArg(6),
                            b.getInt64(i))));
  Value *rest1 = narrow(b.CreateFSub(one, scalar[Beta1]));
  Value *rest2 = narrow(b.CreateFSub(one, scalar[Beta2]));
  for (Value *&value : scalar)
    value = narrow(value);

  emitLoop(b, count, [&](Value *i) {
    auto at = [&](Value *base) { return b.CreateInBoundsGEP(type, base, i); };
    auto load = [&](Value *base) { return b.CreateLoad(type, at(base)); };
    Value *g = b.CreateFMul(load(gradient), scalar[GradientScale]);
    Value *newM = b.CreateFAdd(b.CreateFMul(scalar[Beta1], load(m)),
                               b.CreateFMul(rest1, g));
    Value *newV =
        b.CreateFAdd(b.CreateFMul(scalar[Beta2], load(v)),
                     b.CreateFMul(rest2, b.CreateFMul(g, g)));
    Value *root = b.CreateUnaryIntrinsic(
        Intrinsic::sqrt, b.CreateFDiv(newV, scalar[Correction2]));
    Value *step = b.CreateFDiv(b.CreateFDiv(newM, scalar[Correction1]),
                               b.CreateFAdd(root, scalar[Epsilon]));
    Value *old = load(master);
    Value *direction =
        b.CreateFAdd(step, b.CreateFMul(scalar[Decay], old));
    Value *next =
        b.CreateFSub(old, b.CreateFMul(scalar[LearningRate], direction));
    b.CreateStore(newM, at(m));
    b.CreateStore(newV, at(v));
    b.CreateStore(next, at(master));
    b.CreateStore(next, at(parameter));
  });
  b.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the update is invalid IR");
  return function;
}

} // namespace shardwright::codegen
