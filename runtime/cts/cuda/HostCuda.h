//===- HostCuda.h - Kernels.cu as host code ---------------------*- C++ -*-===//
//
// What Kernels.cu needs of CUDA, by the block emulator, and the kernels. For
// one file of an executable or library: it defines them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_CUDA_HOSTCUDA_H
#define SHARDWRIGHT_RUNTIME_CTS_CUDA_HOSTCUDA_H

#include "runtime/cts/cuda/BlockEmulator.h"

#include <cmath>
#include <cuda_bf16.h>
using std::exp;
using std::log;
using std::tanh;
#define threadIdx                                                              \
  (::shardwright::runtime::cts::Index{                                         \
      ::shardwright::runtime::cts::BlockEmulator::get().threadIndex()})
#define blockIdx                                                               \
  (::shardwright::runtime::cts::Index{                                         \
      ::shardwright::runtime::cts::BlockEmulator::get().blockNumber()})
#define blockDim                                                               \
  (::shardwright::runtime::cts::Index{                                         \
      ::shardwright::runtime::cts::BlockEmulator::get().blockSize()})
#define __syncthreads()                                                        \
  ::shardwright::runtime::cts::BlockEmulator::get().barrier()
#define __shfl_xor_sync(lanes, value, mask)                                    \
  ::shardwright::runtime::cts::BlockEmulator::get().shuffleXor(                \
      value, static_cast<unsigned>(mask))
#include "runtime/src/backend/cuda/Kernels.cu"
#undef threadIdx
#undef blockIdx
#undef blockDim

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_HOSTCUDA_H
