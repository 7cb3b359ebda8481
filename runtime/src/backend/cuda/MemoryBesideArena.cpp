//===- MemoryBesideArena.cpp - What a GPU holds beside the arena ----------===//
#include "runtime/src/backend/cuda/MemoryBesideArena.h"
#include "runtime/src/backend/cuda/Kernels.h"
#include "runtime/src/train/Communicators.h"

#include <algorithm>

namespace shardwright::runtime {

AttentionScratch attentionScratch(const sw_rt_attention_shape &x,
                                  bool isBackward) {
  const int64_t rows = x.b * x.n * x.g * x.s, each = alignArena(rows * 4);
  return {each, isBackward ? alignArena(rows * x.d * 4) : 0,
          isBackward ? each : 0};
}

namespace {

int64_t scratchBytes(const Stage &stage) {
  const sw_rt_program &program = stage.program;
  const sw_rt_device_code &code = *program.device_code;
  int64_t bytes = 0;
  for (int32_t i = 0; i < code.num_kernels; ++i)
    bytes = std::max(bytes, code.kernels[i].scratch_bytes);
  for (int32_t i = 0; i < code.num_attentions; ++i)
    if (code.attentions[i].dtype == SW_RT_BF16)
      bytes = std::max(bytes,
                       attentionScratch(*code.attentions[i].shape,
                                        code.attentions[i].backward)
                           .bytes());
  // Links between equal tokens; partial sums of squares of every parameter.
  bytes = std::max(bytes, 8 * program.sequence * program.micro_batch);
  int64_t partials = 1;
  stage.forEachParameter([&](const ParameterView &view) {
    const ElementRange range = stage.ownedRange(view);
    partials += (range.last - range.first + kernels::squaresOfBlock - 1) /
                kernels::squaresOfBlock;
  });
  return std::max(bytes, 8 * partials);
}

int64_t ncclBytes(const Stage &stage) {
  int64_t bytes = 0;
  for (const Communicator &group : communicatorsOf(stage)) {
    // A ring has two neighbours however long it is. Source: NCCL's author in
    // github.com/NVIDIA/nccl/issues/864.
    const int64_t others = static_cast<int64_t>(group.members.size()) - 1;
    const int64_t peers = group.isPair       ? 1
                          : group.isAllToAll ? others
                                             : std::min<int64_t>(others, 2);
    bytes += peers * ncclChannels * ncclBytesPerChannelAndPeer;
  }
  return bytes;
}

} // namespace

std::vector<MemoryTerm> memoryBesideArena(const Stage &stage) {
  const sw_rt_program &program = stage.program;
  const bool hasInputs = stage.isFirst() || stage.isLast();
  return {{"matmul_workspace_bytes", matmulWorkspaceBytes},
          {"scratch_bytes", scratchBytes(stage)},
          {"inputs_bytes", hasInputs ? 2 * program.microbatches *
                                           alignArena(program.sequence *
                                                      program.micro_batch * 4)
                                     : 0},
          {"nccl_bytes", ncclBytes(stage)}};
}

} // namespace shardwright::runtime
