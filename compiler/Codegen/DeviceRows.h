//===- DeviceRows.h - Row programs as kernels of a GPU ----------*- C++ -*-===//
//
// A row program becomes the steps of a kernel as runtime/include/
// shardwright_device.h describes them. One step per group of ops that share a
// row loop:
//   maps alone    a block does a span of columns of a row, or of all rows as
//                 one if the ops do not look at rows
//   with norms    a block does a row
//   with Rope     a block does a position, whose angles it keeps
// Sums over rows take two steps: blocks sum some rows of 32 columns each into
// the scratch memory, then one thread per column adds those; one step is enough
// if there are few rows.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_DEVICEROWS_H
#define SHARDWRIGHT_COMPILER_CODEGEN_DEVICEROWS_H

#include "compiler/Codegen/RowEmitter.h"
#include "compiler/Codegen/RowProgram.h"

#include "llvm/IR/Module.h"

namespace shardwright::codegen {

struct DeviceStep {
  std::string entry;
  uint32_t grid = 1, block = 1;
};

struct DeviceKernel {
  std::string name;
  int buffers = 0;
  std::vector<DeviceStep> steps;
  int64_t scratchBytes = 0;
};

/// Adds the entries of the program's steps to `module`. Arithmetic is f32.
DeviceKernel emitDeviceKernel(const RowProgram &program, llvm::Module &module);

struct DeviceUpdate {
  std::string entry;
  uint32_t block = 1, elementsPerBlock = 1;
};

/// Adds the entry of the AdamW update to `module`.
DeviceUpdate emitDeviceUpdate(const UpdateTypes &types, const std::string &name,
                              llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_DEVICEROWS_H
