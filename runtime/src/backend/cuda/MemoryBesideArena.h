//===- MemoryBesideArena.h - What a GPU holds beside the arena --*- C++ -*-===//
//
// Needs none of CUDA's headers: a machine without a GPU can tell (--dry-run).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_MEMORYBESIDEARENA_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_MEMORYBESIDEARENA_H

#include "runtime/src/Device.h"
#include "runtime/src/train/Stage.h"

namespace shardwright::runtime {

/// Workspace of cuBLASLt, which we allocate: what NVIDIA advises for Hopper;
/// other GPUs need less. Source: cuBLAS documentation, cublasSetWorkspace,
/// "32 MiB".
constexpr int64_t matmulWorkspaceBytes = 32 << 20;

/// Thread blocks, and so channels, that a communicator of ours may use. NCCL's
/// own choice on NVLink; it bounds the memory below.
constexpr int ncclChannels = 32;
/// Memory of NCCL per channel and connected peer: 10 MiB of receive buffers
/// (NCCL_BUFFSIZE's 4 MiB and those of the low-latency protocols) and 2 MiB on
/// the sending side. Source: allocations of NCCL logged on 8 H100 in
/// github.com/NVIDIA/nccl/issues/1685 (10485760 and 2097152 bytes, 32 channels
/// a pair); NCCL user guide, Environment Variables, NCCL_BUFFSIZE.
constexpr int64_t ncclBytesPerChannelAndPeer = 12 << 20;

/// Scratch memory of one attention call by cuDNN, in this order, without the
/// workspace that only cuDNN knows.
struct AttentionScratch {
  int64_t statistics; ///< f32, in cuDNN's order
  int64_t gradQ;      ///< of backward: f32, in which it is summed
  int64_t rowSums;    ///< of backward: f32
  int64_t bytes() const { return statistics + gradQ + rowSums; }
};
AttentionScratch attentionScratch(const sw_rt_attention_shape &shape,
                                  bool isBackward);

/// Memory of a rank beside its arena, by name: workspace of products, scratch
/// memory of kernels and attention (without cuDNN's workspace), inputs, NCCL's
/// buffers.
std::vector<MemoryTerm> memoryBesideArena(const Stage &stage);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_MEMORYBESIDEARENA_H
