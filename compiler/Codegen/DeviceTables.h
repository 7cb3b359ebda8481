//===- DeviceTables.h - The device code that a program carries --*- C++ -*-===//
//
// Values of runtime/include/shardwright_device.h with vectors and names instead
// of pointers.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_DEVICETABLES_H
#define SHARDWRIGHT_COMPILER_CODEGEN_DEVICETABLES_H

#include "compiler/Codegen/DeviceRows.h"

#include "runtime/include/shardwright_rt.h"

namespace shardwright::codegen {

struct DeviceImage {
  int32_t capability = 0; ///< 10 * major + minor
  std::string ptx;
};

/// A call of attention, as sw_rt_attention_use.
struct AttentionUse {
  llvm::GlobalVariable *shape;
  sw_rt_dtype dtype;
  bool isBackward;
};

struct DeviceCodeTable {
  std::vector<DeviceImage> images;
  std::vector<DeviceKernel> kernels;
  std::vector<AttentionUse> attentions;
  DeviceUpdate update;
};

struct EmittedDeviceCode {
  llvm::Constant *code = nullptr;       ///< address of the sw_rt_device_code
  std::vector<llvm::Constant *> kernels; ///< of its sw_rt_kernels, in order
};

/// Defines the tables in `module`, which has its data layout.
EmittedDeviceCode emitDeviceTables(const DeviceCodeTable &table,
                                   llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_DEVICETABLES_H
