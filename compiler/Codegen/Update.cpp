//===- Update.cpp - The AdamW update of a bucket --------------------------===//
#include "compiler/Codegen/DeviceStepBuilder.h"
#include "compiler/Codegen/HostTarget.h"

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

/// Order of the addresses; `count` follows, then the address of the scalars.
enum UpdateBuffer { Master, FirstMoment, SecondMoment, Gradient, Parameter };

namespace {

/// The formula of one element, with the scalars loaded before.
class UpdateFormula {
public:
  UpdateFormula(RowContext &context, Value *scalars) : context(context) {
    IRBuilder<> &b = context.builder;
    Type *f64 = b.getDoubleTy();
    auto narrow = [&](Value *value) {
      return context.type == f64 ? value : b.CreateFPTrunc(value, context.type);
    };
    Value *one = ConstantFP::get(f64, 1);
    for (unsigned i = 0; i < UpdateScalars; ++i)
      scalar.push_back(b.CreateLoad(
          f64, b.CreateInBoundsGEP(f64, scalars, b.getInt64(i))));
    rest1 = narrow(b.CreateFSub(one, scalar[Beta1]));
    rest2 = narrow(b.CreateFSub(one, scalar[Beta2]));
    for (Value *&value : scalar)
      value = narrow(value);
  }

  void emit(Value *i) {
    IRBuilder<> &b = context.builder;
    auto load = [&](UpdateBuffer number) {
      return context.load(context.buffer(number), i);
    };
    auto store = [&](Value *value, UpdateBuffer number) {
      context.store(value, context.at(context.buffer(number), i));
    };
    Value *g = b.CreateFMul(load(Gradient), scalar[GradientScale]);
    Value *newM = b.CreateFAdd(b.CreateFMul(scalar[Beta1], load(FirstMoment)),
                               b.CreateFMul(rest1, g));
    Value *newV =
        b.CreateFAdd(b.CreateFMul(scalar[Beta2], load(SecondMoment)),
                     b.CreateFMul(rest2, b.CreateFMul(g, g)));
    Value *root = b.CreateUnaryIntrinsic(
        Intrinsic::sqrt, b.CreateFDiv(newV, scalar[Correction2]));
    Value *step = b.CreateFDiv(b.CreateFDiv(newM, scalar[Correction1]),
                               b.CreateFAdd(root, scalar[Epsilon]));
    Value *old = load(Master);
    Value *direction = b.CreateFAdd(step, b.CreateFMul(scalar[Decay], old));
    Value *next =
        b.CreateFSub(old, b.CreateFMul(scalar[LearningRate], direction));
    store(newM, FirstMoment);
    store(newV, SecondMoment);
    store(next, Master);
    store(next, Parameter);
  }

private:
  RowContext &context;
  SmallVector<Value *> scalar;
  Value *rest1, *rest2;
};

} // namespace

static RowProgram bufferTypes(const UpdateTypes &types) {
  RowProgram program;
  program.element = types.master;
  program.buffers = Parameter + 1;
  program.storage = {types.master, types.master, types.master, types.gradient,
                     types.parameter};
  return program;
}

Function *emitUpdate(const UpdateTypes &types, const std::string &name,
                     Module &module) {
  LLVMContext &llvmContext = module.getContext();
  IRBuilder<> b(llvmContext);
  allowContraction(b);
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
  b.SetInsertPoint(BasicBlock::Create(llvmContext, "entry", function));
  const RowProgram program = bufferTypes(types);
  HostTarget target;
  RowContext context{b,
                     target,
                     program,
                     function,
                     types.master == Element::F64 ? b.getDoubleTy()
                                                  : b.getFloatTy(),
                     nullptr,
                     nullptr};
  UpdateFormula formula(context, function->getArg(6));
  emitLoop(b, function->getArg(5), [&](Value *i) { formula.emit(i); });
  b.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the update is invalid IR");
  return function;
}

DeviceUpdate emitDeviceUpdate(const UpdateTypes &types, const std::string &name,
                              Module &module) {
  assert(types.master == Element::F32 && "device arithmetic is f32");
  // Four elements a thread: few blocks to start, and enough of them for a bucket
  // of a million.
  constexpr int64_t threads = 256, elements = 1024;
  DeviceUpdate update{entryName(name), threads, elements};
  LLVMContext &llvmContext = module.getContext();
  Type *pointer = PointerType::get(llvmContext, 0);
  Function *function = addEntry(module, update.entry,
                                {pointer, pointer, pointer, pointer, pointer,
                                 Type::getInt64Ty(llvmContext), pointer},
                                threads);
  IRBuilder<> b(&function->getEntryBlock());
  allowContraction(b);
  const RowProgram program = bufferTypes(types);
  DeviceTarget target(b, threads);
  RowContext context{b,           target,  program, function,
                     b.getFloatTy(), nullptr, nullptr};
  UpdateFormula formula(context, function->getArg(6));
  // One element at a time: exact divisions of several would spill.
  Value *first = b.CreateMul(target.block(), context.count(elements));
  Value *last = b.CreateBinaryIntrinsic(
      Intrinsic::smin, function->getArg(5),
      b.CreateAdd(first, context.count(elements)));
  emitStridedLoop(b, b.CreateAdd(first, target.thread()), last, threads, {},
                  [&](Value *i, ArrayRef<Value *>) {
                    formula.emit(i);
                    return Values();
                  });
  b.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the update is invalid IR");
  return update;
}

} // namespace shardwright::codegen
