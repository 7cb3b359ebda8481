//===- CudaDevice.h - A GPU as the device of a rank -------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDADEVICE_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDADEVICE_H

#include "runtime/src/backend/cuda/GpuAttention.h"
#include "runtime/src/backend/cuda/GpuCollectives.h"
#include "runtime/src/backend/cuda/GpuMatmul.h"

namespace shardwright::runtime {

/// Products by cuBLASLt, attention by cuDNN or our kernels, collectives by
/// NCCL, row kernels and the update from the program's device code.
class CudaDevice final : public Device {
public:
  struct Libraries {
    const CudaDriver *driver;
    const CudaBlas *blas;
    const CudaDnn *dnn;   ///< may be null
    const CudaNccl *nccl; ///< may be null if there is one rank
    std::string whyNoNccl;
  };
  /// `program` may be null: then there are no kernels to launch (tests).
  CudaDevice(sw_rt_context &context, const Libraries &libraries,
             const sw_rt_program *program, const DeviceOptions &options);
  ~CudaDevice() override;

  /// Takes the GPU and checks that it suits the program: its capability, its
  /// free memory.
  bool open(sw_rt_status &failure, std::string &why);

  const char *name() const override { return "cuda"; }
  bool isHost() const override { return false; }
  char *allocate(int64_t bytes, std::string &why) override;
  void release(char *memory, int64_t bytes) override;
  sw_rt_status fill(void *target, unsigned char value, int64_t bytes) override;
  sw_rt_status toDevice(void *target, const void *source,
                        int64_t bytes) override;
  sw_rt_status toHost(void *target, const void *source, int64_t bytes) override;
  sw_rt_status copyRows(const void *input, int64_t inputStride, void *output,
                        int64_t outputStride, int64_t rowBytes,
                        int64_t rows) override;
  void matmul(const MatmulCall &call) override;
  void attentionForward(const AttentionCall &call) override;
  void attentionBackward(const AttentionCall &call) override;
  void embeddingForward(const EmbeddingCall &call, const void *table,
                        void *output) override;
  void embeddingBackward(const EmbeddingCall &call, const void *gradOutput,
                         void *gradTable) override;
  sw_rt_status launch(const sw_rt_kernel &kernel,
                      void *const *arguments) override;
  sw_rt_status collective(const CollectiveCall &call) override;
  bool overlaps() const override { return true; }
  sw_rt_status await(Lane lane) override { return collectives.await(lane); }
  sw_rt_status sumOfSquares(sw_rt_dtype dtype,
                            const std::vector<DeviceRange> &ranges,
                            double &sum) override;
  sw_rt_status update(const UpdateCall &call) override;
  StepMode beginStep(bool mayRecord) override;
  sw_rt_status endRecording() override;
  sw_rt_status replay() override;
  sw_rt_status wait() override;
  std::string unfinishedCall() override { return collectives.unfinished(); }
  bool abandon() override;

  std::vector<std::pair<std::string, int64_t>> counters() const override;

private:
  bool fits(sw_rt_status &failure, std::string &why);
  /// What wait() waits for, in words.
  std::string underWay();

  sw_rt_context &context;
  const sw_rt_program *program;
  Gpu gpu;
  GpuMatmul products;
  GpuAttention attention;
  GpuCollectives collectives;
  CUevent idle = nullptr;  ///< recorded by wait()
  char *scalars = nullptr; ///< of the update, on the GPU
  int64_t steps = 0;
  /// Of a program: bytes of the arena, predicted beside it, and free before.
  int64_t arena = 0, beside = 0, freeAtStart = 0;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDADEVICE_H
