//===- DeviceTarget.cpp - Row programs on a block of a GPU ----------------===//
#include "compiler/Codegen/DeviceTarget.h"

#include "compiler/Codegen/RowContext.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace shardwright::codegen {

/// Address space of shared memory.
static constexpr unsigned kShared = 3;

DeviceTarget::DeviceTarget(IRBuilder<> &builder, int64_t threads)
    : threadCount(threads) {
  assert(threads % kWarp == 0 && "shuffles want whole warps");
  auto read = [&](Intrinsic::ID number) {
    return builder.CreateZExt(builder.CreateIntrinsic(number, {}),
                              builder.getInt64Ty());
  };
  threadIndex = read(Intrinsic::nvvm_read_ptx_sreg_tid_x);
  blockIndex = read(Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
}

Value *DeviceTarget::shared(Module &module, Type *type, int64_t elements) {
  auto *array = ArrayType::get(type, elements);
  auto *global = new GlobalVariable(
      module, array, /*isConstant=*/false, GlobalValue::InternalLinkage,
      PoisonValue::get(array), "shared", nullptr,
      GlobalValue::NotThreadLocal, kShared);
  global->setAlignment(Align(16));
  return ConstantExpr::getAddrSpaceCast(
      global, PointerType::get(module.getContext(), 0));
}

Values DeviceTarget::walk(
    IRBuilder<> &b, Value *start, Value *last, ArrayRef<Value *> initial,
    function_ref<Values(Value *, ArrayRef<Value *>)> body) {
  constexpr int64_t together = 4;
  auto number = [&](int64_t value) { return b.getInt64(value); };
  Values carried(initial);
  carried.push_back(start); // where the rest begins
  carried = emitStridedLoop(
      b, start, b.CreateSub(last, number((together - 1) * threadCount)),
      together * threadCount, carried,
      [&](Value *column, ArrayRef<Value *> before) -> Values {
        Values values(before.drop_back());
        for (int64_t i = 0; i < together; ++i)
          values = body(b.CreateAdd(column, number(i * threadCount)), values);
        values.push_back(
            b.CreateAdd(column, number(together * threadCount)));
        return values;
      });
  Value *rest = carried.pop_back_val();
  return emitStridedLoop(b, rest, last, threadCount, carried, body);
}

void DeviceTarget::columns(RowContext &context, Value *first, Value *last,
                           function_ref<void(Value *)> body) {
  IRBuilder<> &b = context.builder;
  Value *start = b.CreateAdd(first, threadIndex);
  if (spanFirst) {
    start = b.CreateAdd(spanFirst, start);
    last = b.CreateBinaryIntrinsic(
        Intrinsic::smin, last,
        b.CreateAdd(spanFirst, context.count(spanColumns)));
  }
  walk(b, start, last, {}, [&](Value *column, ArrayRef<Value *>) {
    body(column);
    return Values();
  });
}

/// The columns of all heads are numbered through.
void DeviceTarget::headColumns(RowContext &context, int64_t heads,
                               int64_t first, int64_t last,
                               function_ref<void(Value *, Value *)> body) {
  IRBuilder<> &b = context.builder;
  Value *perHead = context.count(last - first);
  columns(context, context.count(0), context.count(heads * (last - first)),
          [&](Value *index) {
            body(b.CreateUDiv(index, perHead),
                 b.CreateAdd(b.CreateURem(index, perHead),
                             context.count(first)));
          });
}

Values DeviceTarget::fold(RowContext &context, Value *count,
                          ArrayRef<Fold> folds,
                          function_ref<Values(Value *)> terms) {
  IRBuilder<> &b = context.builder;
  Values values = walk(
      b, threadIndex, count, context.identities(folds),
      [&](Value *column, ArrayRef<Value *> carried) -> Values {
        return context.combineAll(folds, carried, terms(column));
      });
  assert(context.type->isFloatTy() && "shuffles are emitted for f32");
  for (auto [fold, value] : zip(folds, values))
    for (int32_t distance = kWarp / 2; distance > 0; distance /= 2)
      value = context.combine(
          fold, value,
          b.CreateIntrinsic(Intrinsic::nvvm_shfl_sync_bfly_f32,
                            {b.getInt32(-1), value, b.getInt32(distance),
                             b.getInt32(kWarp - 1)}));
  const int64_t warps = threadCount / kWarp;
  if (warps == 1)
    return values;

  // One value per warp and fold; then every thread folds those of all warps.
  const int64_t number = static_cast<int64_t>(folds.size());
  Place memory{shared(context.module(), context.type, warps * number),
               context.program.element};
  if (repeats)
    meet(context);
  Value *isFirst = b.CreateICmpEQ(
      b.CreateAnd(threadIndex, context.count(kWarp - 1)), context.count(0));
  Value *warp = b.CreateMul(b.CreateUDiv(threadIndex, context.count(kWarp)),
                            context.count(number));
  emitIf(b, isFirst, [&] {
    for (auto [index, value] : enumerate(values))
      context.store(value,
                    context.at(memory, b.CreateAdd(warp, context.count(index))));
  });
  meet(context);
  for (auto [index, value] : enumerate(values)) {
    SmallVector<Value *> parts;
    for (int64_t w = 0; w < warps; ++w)
      parts.push_back(context.load(memory, context.count(w * number + index)));
    value = emitTree(parts, [&, fold = folds[index]](Value *x, Value *y) {
      return context.combine(fold, x, y);
    });
  }
  return values;
}

void DeviceTarget::once(RowContext &context, function_ref<void()> body) {
  emitIf(context.builder,
         context.builder.CreateICmpEQ(threadIndex, context.count(0)), body);
}

void DeviceTarget::meet(RowContext &context) {
  context.builder.CreateIntrinsic(
      Intrinsic::nvvm_barrier_cta_sync_aligned_all,
      {context.builder.getInt32(0)});
}

Place DeviceTarget::table(RowContext &context, int64_t elements) {
  return {shared(context.module(), context.type, elements),
          context.program.element};
}

Value *DeviceTarget::roundToBf16(IRBuilder<> &builder, Value *value) {
  return builder.CreateBitCast(
      builder.CreateFPTrunc(value, builder.getBFloatTy()),
      builder.getInt16Ty());
}

} // namespace shardwright::codegen
