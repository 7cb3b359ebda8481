//===- RowRun.cpp - Runs a row program in this process --------------------===//
#include "RowRun.h"

#include "RowJit.h"

#include "compiler/Codegen/Object.h"
#include "compiler/Codegen/RowEmitter.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"

using namespace llvm;

namespace shardwright::codegen {

/// Emits `void entry(ptr *buffers, i64, i64)`, which unpacks the pointers.
static void emitEntry(Module &module, Function *callee, int buffers,
                      ArrayRef<int> order) {
  LLVMContext &context = module.getContext();
  IRBuilder<> b(context);
  auto *entry = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false),
      GlobalValue::ExternalLinkage, "entry", module);
  b.SetInsertPoint(BasicBlock::Create(context, "", entry));
  SmallVector<Value *> arguments;
  for (int number : order)
    arguments.push_back(
        number < buffers
            ? static_cast<Value *>(b.CreateLoad(
                  b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(),
                                                     entry->getArg(0), number)))
            : entry->getArg(1 + number - buffers));
  b.CreateCall(callee, arguments);
  b.CreateRetVoid();
}

static Buffers call(Jit &jit, std::vector<Guarded> &guarded, int64_t first,
                    int64_t second) {
  std::vector<void *> pointers;
  for (Guarded &buffer : guarded)
    pointers.push_back(buffer.data());
  jit.entry("entry")(pointers.data(), first, second);
  Buffers result;
  for (Guarded &buffer : guarded)
    result.push_back(buffer.values());
  return result;
}

static Buffers executeModule(const RowRun &run, Module &module) {
  Jit jit(module);
  std::vector<Guarded> guarded = guardedBuffers(run);
  return call(jit, guarded, run.positionOrigin, run.columnOrigin);
}

Buffers execute(const RowRun &run) {
  LLVMContext context;
  Module module("test", context);
  Function *function = emitRowProgram(run.program, module);
  const int buffers = run.program.buffers;
  std::vector<int> order;
  for (int i = 0; i < buffers + 2; ++i)
    order.push_back(i);
  emitEntry(module, function, buffers, order);
  return executeModule(run, module);
}

Buffers executeInRanges(const RowRun &run, int64_t grain) {
  LLVMContext context;
  Module module("test", context);
  Function *range = emitRowRange(run.program, module);
  const int64_t extent = rowUnits(run.program).extent;
  IRBuilder<> b(context);
  auto *entry = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false),
      GlobalValue::ExternalLinkage, "entry", module);
  b.SetInsertPoint(BasicBlock::Create(context, "", entry));
  const int buffers = run.program.buffers;
  Value *list = b.CreateAlloca(ArrayType::get(b.getPtrTy(), buffers + 2));
  auto slot = [&](Value *base, int number) {
    return b.CreateConstGEP1_64(b.getPtrTy(), base, number);
  };
  for (int number = 0; number < buffers; ++number)
    b.CreateStore(b.CreateLoad(b.getPtrTy(), slot(entry->getArg(0), number)),
                  slot(list, number));
  b.CreateStore(entry->getArg(1), slot(list, buffers));
  b.CreateStore(entry->getArg(2), slot(list, buffers + 1));
  for (int64_t last = extent; last > 0; last -= grain)
    b.CreateCall(range, {list, b.getInt64(std::max<int64_t>(0, last - grain)),
                         b.getInt64(last)});
  b.CreateRetVoid();
  return executeModule(run, module);
}

std::string optimizedText(const RowProgram &program) {
  LLVMContext context;
  Module module("test", context);
  emitRowProgram(program, module)->setLinkage(GlobalValue::ExternalLinkage);
  cost::Failure failure;
  auto machine = makeTargetMachine(kDefaultCpu, failure);
  setTarget(module, *machine);
  optimize(module, *machine);
  std::string text;
  raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

Buffers executeUpdate(const UpdateTypes &types, const Buffers &buffers,
                      const std::vector<double> &scalars) {
  LLVMContext context;
  Module module("test", context);
  Function *function = emitUpdate(types, "update", module);
  // Arguments: five buffers, the count (the first i64), the scalars.
  emitEntry(module, function, 6, {0, 1, 2, 3, 4, 6, 5});
  Jit jit(module);
  std::vector<Guarded> guarded;
  for (auto [number, buffer] : enumerate(buffers))
    guarded.emplace_back(buffer, number == 3   ? types.gradient
                                 : number == 4 ? types.parameter
                                               : types.master);
  guarded.emplace_back(scalars, Element::F64);
  return call(jit, guarded, static_cast<int64_t>(buffers[0].size()), 0);
}

} // namespace shardwright::codegen
