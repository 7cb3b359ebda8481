//===- RowJit.h - Compiled code and its buffers in this process -*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_ROWJIT_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_ROWJIT_H

#include "RowRun.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace shardwright::codegen {

using Entry = void(void **buffers, int64_t, int64_t);

/// A compiled module in this process.
class Jit {
public:
  /// Compiles as executables are compiled. `symbols`: what it may call besides
  /// libm and libmvec.
  explicit Jit(llvm::Module &module,
               const std::vector<std::pair<std::string, void *>> &symbols = {});
  Entry *entry(const std::string &name);

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

/// Memory of one buffer with canaries on both sides.
class Guarded {
public:
  Guarded(const std::vector<double> &values, Element element);
  explicit Guarded(const std::vector<int32_t> &values);
  char *data() { return memory.data() + kGuard; }
  /// As double; nothing for labels. Throws if memory around was touched.
  std::vector<double> values();

private:
  static constexpr size_t kGuard = 64;
  static constexpr char kCanary = 0x5a;
  Element element;
  size_t bytes;
  std::vector<char> memory;
  bool isIndex = false;
};

/// The buffers of a run as they are before it.
std::vector<Guarded> guardedBuffers(const RowRun &run);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_ROWJIT_H
