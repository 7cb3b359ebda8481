//===- RowJit.cpp - Compiled code and its buffers in this process ---------===//
#include "RowJit.h"

#include "compiler/Codegen/Object.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"

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

Jit::Jit(Module &module,
         const std::vector<std::pair<std::string, void *>> &symbols) {
  cost::Failure failure;
  auto machine = makeTargetMachine(kDefaultCpu, failure);
  if (!machine)
    throw std::runtime_error(failure.messages.front().text);
  setTarget(module, *machine);
  optimize(module, *machine);
  SmallVector<char, 0> object;
  if (!emitObject(module, *machine, object, failure))
    throw std::runtime_error(failure.messages.front().text);
  jit = check(orc::LLJITBuilder().create());
  for (const char *library : {"libmvec.so.1", "libm.so.6"})
    jit->getMainJITDylib().addGenerator(
        check(orc::DynamicLibrarySearchGenerator::Load(
            library, jit->getDataLayout().getGlobalPrefix())));
  orc::SymbolMap map;
  for (auto [name, address] : symbols)
    map[jit->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(address),
                                       JITSymbolFlags::Callable};
  check(jit->getMainJITDylib().define(orc::absoluteSymbols(std::move(map))));
  check(jit->addObjectFile(MemoryBuffer::getMemBufferCopy(
      StringRef(object.data(), object.size()))));
}

Entry *Jit::entry(const std::string &name) {
  return check(jit->lookup(name)).toPtr<Entry *>();
}

Guarded::Guarded(const std::vector<double> &values, Element element)
    : element(element), bytes(values.size() * bytesOf(element)),
      memory(bytes + 2 * kGuard, kCanary) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float narrow = static_cast<float>(values[i]);
    const char *from = element == Element::F64
                           ? reinterpret_cast<const char *>(&values[i])
                           : reinterpret_cast<const char *>(&narrow);
    if (element == Element::BF16) // values of tests are exact in it
      from += 2;
    std::memcpy(data() + bytesOf(element) * i, from, bytesOf(element));
  }
}

Guarded::Guarded(const std::vector<int32_t> &values)
    : element(Element::F32), bytes(values.size() * 4),
      memory(bytes + 2 * kGuard, kCanary), isIndex(true) {
  std::memcpy(data(), values.data(), bytes);
}

std::vector<double> Guarded::values() {
  for (size_t i = 0; i < kGuard; ++i)
    if (memory[i] != kCanary || memory[kGuard + bytes + i] != kCanary)
      throw std::runtime_error("wrote outside of a buffer");
  std::vector<double> result;
  const size_t width = bytesOf(element);
  for (size_t i = 0; !isIndex && i < bytes / width; ++i) {
    double value = 0;
    float narrow = 0;
    char *to = element == Element::F64 ? reinterpret_cast<char *>(&value)
                                       : reinterpret_cast<char *>(&narrow);
    std::memcpy(to + (element == Element::BF16 ? 2 : 0), data() + width * i,
                width);
    result.push_back(element == Element::F64 ? value : narrow);
  }
  return result;
}

std::vector<Guarded> guardedBuffers(const RowRun &run) {
  std::vector<Guarded> guarded;
  for (int i = 0; i < run.program.buffers; ++i)
    if (auto labels = run.labels.find(i); labels != run.labels.end())
      guarded.emplace_back(labels->second);
    else
      guarded.emplace_back(run.buffers[i], run.program.stored(i));
  return guarded;
}

} // namespace shardwright::codegen
