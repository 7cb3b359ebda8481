//===- RowRun.cpp - Runs a row program in this process --------------------===//
#include "RowRun.h"

#include "compiler/Codegen/Object.h"
#include "compiler/Codegen/RowEmitter.h"

#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"

#include <cstring>
#include <stdexcept>

using namespace llvm;

namespace shardwright::codegen {

static void check(Error error) {
  if (error)
    throw std::runtime_error(toString(std::move(error)));
}
template <typename T> static T check(Expected<T> value) {
  check(value.takeError());
  return std::move(*value);
}

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

using Entry = void(void **buffers, int64_t, int64_t);

namespace {
/// A compiled module in this process.
class Jit {
public:
  explicit Jit(Module &module) {
    cost::Failure failure;
    auto machine = makeTargetMachine(kDefaultCpu, failure);
    if (!machine)
      throw std::runtime_error(failure.messages.front());
    setTarget(module, *machine);
    optimize(module, *machine);
    SmallVector<char, 0> object;
    if (!emitObject(module, *machine, object, failure))
      throw std::runtime_error(failure.messages.front());
    jit = check(orc::LLJITBuilder().create());
    for (const char *library : {"libmvec.so.1", "libm.so.6"})
      jit->getMainJITDylib().addGenerator(
          check(orc::DynamicLibrarySearchGenerator::Load(
              library, jit->getDataLayout().getGlobalPrefix())));
    check(jit->addObjectFile(MemoryBuffer::getMemBufferCopy(
        StringRef(object.data(), object.size()))));
  }
  Entry *entry() { return check(jit->lookup("entry")).toPtr<Entry *>(); }

private:
  std::unique_ptr<orc::LLJIT> jit;
};

/// Memory of one buffer with canaries on both sides.
class Guarded {
public:
  Guarded(const std::vector<double> &values, Element element)
      : element(element), bytes(values.size() * width()),
        memory(bytes + 2 * kGuard, kCanary) {
    for (size_t i = 0; i < values.size(); ++i)
      if (element == Element::F64)
        std::memcpy(data() + 8 * i, &values[i], 8);
      else {
        const float narrow = static_cast<float>(values[i]);
        std::memcpy(data() + 4 * i, &narrow, 4);
      }
  }
  explicit Guarded(const std::vector<int32_t> &values)
      : element(Element::F32), bytes(values.size() * 4),
        memory(bytes + 2 * kGuard, kCanary), isIndex(true) {
    std::memcpy(data(), values.data(), bytes);
  }
  char *data() { return memory.data() + kGuard; }
  std::vector<double> values() {
    for (size_t i = 0; i < kGuard; ++i)
      if (memory[i] != kCanary || memory[kGuard + bytes + i] != kCanary)
        throw std::runtime_error("wrote outside of a buffer");
    std::vector<double> result;
    for (size_t i = 0; !isIndex && i < bytes / width(); ++i) {
      double value = 0;
      float narrow = 0;
      if (element == Element::F64)
        std::memcpy(&value, data() + 8 * i, 8);
      else {
        std::memcpy(&narrow, data() + 4 * i, 4);
        value = narrow;
      }
      result.push_back(value);
    }
    return result;
  }

private:
  static constexpr size_t kGuard = 64;
  static constexpr char kCanary = 0x5a;
  size_t width() const { return element == Element::F64 ? 8 : 4; }
  Element element;
  size_t bytes;
  std::vector<char> memory;
  bool isIndex = false;
};
} // namespace

static Buffers call(Jit &jit, std::vector<Guarded> &guarded, int64_t first,
                    int64_t second) {
  std::vector<void *> pointers;
  for (Guarded &buffer : guarded)
    pointers.push_back(buffer.data());
  jit.entry()(pointers.data(), first, second);
  Buffers result;
  for (Guarded &buffer : guarded)
    result.push_back(buffer.values());
  return result;
}

static Buffers executeModule(const RowRun &run, Module &module) {
  const int buffers = run.program.buffers;
  Jit jit(module);
  std::vector<Guarded> guarded;
  for (int i = 0; i < buffers; ++i)
    if (auto labels = run.labels.find(i); labels != run.labels.end())
      guarded.emplace_back(labels->second);
    else
      guarded.emplace_back(run.buffers[i], run.program.element);
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

Buffers executeUpdate(Element element, const Buffers &buffers,
                      const std::vector<double> &scalars) {
  LLVMContext context;
  Module module("test", context);
  Function *function = emitUpdate(element, "update", module);
  // Arguments: five buffers, the count (the first i64), the scalars.
  emitEntry(module, function, 6, {0, 1, 2, 3, 4, 6, 5});
  Jit jit(module);
  std::vector<Guarded> guarded;
  for (const std::vector<double> &buffer : buffers)
    guarded.emplace_back(buffer, element);
  guarded.emplace_back(scalars, Element::F64);
  return call(jit, guarded, static_cast<int64_t>(buffers[0].size()), 0);
}

} // namespace shardwright::codegen
