//===- RecordedCalls.h - How far a replayed step has come -------*- C++ -*-===//
//
// Events of a recording cannot be asked. So each call of NCCL in it is followed,
// on its stream, by a byte that the GPU sets in memory of the host: where a replay
// stands can be read even while the GPU hangs. It costs a small memset a call.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_RECORDEDCALLS_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_RECORDEDCALLS_H

#include "runtime/src/backend/cuda/Gpu.h"

namespace shardwright::runtime {

class RecordedCalls {
public:
  explicit RecordedCalls(Gpu &gpu) : gpu(gpu) {}
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls &) = delete;
  RecordedCalls &operator=(const RecordedCalls &) = delete;

  /// Before the recording begins. Without memory for it messages know less.
  void prepare();
  /// `what`, on `stream`, has just been recorded; `channel` tells apart whose.
  sw_rt_status add(const void *channel, const std::string &what,
                   CUstream stream);
  /// Before a replay, once the one before it has ended.
  void restart();
  /// The first call that the replay has not done, of `channel` or, if null, of
  /// all; "" if there is none.
  std::string unfinished(const void *channel) const;

private:
  struct Recorded {
    const void *channel;
    std::string what;
  };
  Gpu &gpu;
  volatile unsigned char *marks = nullptr;
  CUdeviceptr marksOnDevice = 0;
  std::vector<Recorded> calls;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_RECORDEDCALLS_H
