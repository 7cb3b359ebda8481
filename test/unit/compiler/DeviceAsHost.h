//===- DeviceAsHost.h - Device code as code of the host ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICEASHOST_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICEASHOST_H

#include "llvm/IR/Module.h"

#include <string>

namespace shardwright::codegen {

/// Replaces what only a GPU has by calls of device_thread, device_block,
/// device_meet and device_shuffle, which whoever runs the code defines:
///   int32_t device_thread(), device_block(); void device_meet(int32_t);
///   float device_shuffle(int32_t lanes, float, int32_t distance, int32_t)
void replaceDeviceIntrinsics(llvm::Module &module);

/// Emits `void run.NAME(ptr *arguments, i64, i64)` for the entry `name`, which
/// unpacks its arguments, 8 bytes each. Returns that name.
std::string emitDeviceEntry(llvm::Module &module, const std::string &name);

/// As emitDeviceEntry, and says in an i64 `parameters.NAME` how many there are:
/// what the fake driver (runtime/cts/cuda/FakeDriver.cpp) looks for.
void emitCountedEntry(llvm::Module &module, const std::string &name);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICEASHOST_H
