//===- DeviceRun.h - Runs device code without a device ----------*- C++ -*-===//
//
// Executes the kernels of a row program on the host: the LLVM IR that the
// emitter made for the GPU, with the reads of thread and block numbers, the
// barrier and the shuffle replaced by calls of this harness, compiled for the
// host. A thread of the GPU is a fiber; blocks run one after the other, and the
// threads of a block one at a time from barrier to barrier: forward, backward
// and shuffled.
//
// It shows that indices, grids, folds, barriers, scratch memory and the math
// functions of that IR are right, and, as results may not depend on the order,
// that no barrier is missing where an order tells. It shows nothing about
// NVPTX's instruction selection, ptxas or hardware.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICERUN_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICERUN_H

#include "RowRun.h"

namespace shardwright::codegen {

/// As execute, once per order of the threads. Throws if threads part at a
/// barrier or memory around a buffer was touched.
std::vector<Buffers> executeOnDevice(const RowRun &run);

/// As executeUpdate.
Buffers executeUpdateOnDevice(const UpdateTypes &types, const Buffers &buffers,
                              const std::vector<double> &scalars);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_DEVICERUN_H
