//===- GpuAttention.h - Attention on a GPU ----------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUATTENTION_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUATTENTION_H

#include "runtime/src/backend/cuda/CudnnAttention.h"
#include "runtime/src/backend/cuda/Gpu.h"

#include <array>
#include <map>

namespace shardwright::runtime {

/// cuDNN's flash attention where it takes the shape, our own kernels elsewhere:
/// f32 and f64, soft-capped or biased scores, more keys than queries, large
/// heads, and GPUs or machines without cuDNN.
class GpuAttention {
public:
  /// `cudnn` may be null.
  GpuAttention(sw_rt_context &context, Gpu &gpu, const CudaDnn *cudnn)
      : context(context), gpu(gpu), cudnn(cudnn) {}
  ~GpuAttention();
  GpuAttention(const GpuAttention &) = delete;
  GpuAttention &operator=(const GpuAttention &) = delete;

  /// Returns false with `why` if cuDNN is there and does not start.
  bool open(std::string &why);
  /// Chooses who runs the attention calls of `code`, and returns the scratch
  /// memory that cuDNN wants for those it takes.
  int64_t prepare(const sw_rt_device_code &code);
  void forward(const AttentionCall &call);
  void backward(const AttentionCall &call);
  /// Calls that cuDNN and our kernels ran.
  int64_t cudnnCalls() const { return byCudnn; }
  int64_t ownCalls() const { return byOwn; }

private:
  using Key = std::array<int64_t, 10>;
  bool suitsCudnn(const AttentionCall &call) const;
  /// The plan of a shape and direction; null if cuDNN has none for it.
  CudnnAttention *planOf(const AttentionCall &call, bool isBackward);
  void own(const AttentionCall &call, bool isBackward);
  bool check(cudnnStatus_t status, const char *what);
  /// lse [s, b * heads] from or to cuDNN's [b * heads, s].
  sw_rt_status transpose(const void *input, void *output, int64_t rows,
                         int64_t columns);
  const double *slopesOf(const sw_rt_attention_shape &shape, bool &failed);

  sw_rt_context &context;
  Gpu &gpu;
  const CudaDnn *cudnn;
  cudnnHandle_t handle = nullptr;
  std::map<Key, std::unique_ptr<CudnnAttention>> plans;
  std::map<std::vector<double>, char *> slopes; ///< on the GPU
  int64_t byCudnn = 0, byOwn = 0;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUATTENTION_H
