//===- GpuMatmul.h - Products by cuBLASLt -----------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUMATMUL_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUMATMUL_H

#include "runtime/src/backend/cuda/Gpu.h"

#include <map>
#include <tuple>

namespace shardwright::runtime {

/// Row-major products. The algorithm of a shape is chosen once, by cuBLASLt's
/// heuristic. bf16 is summed in f32; f32 is multiplied in full precision, or in
/// tf32 if `tf32`.
class GpuMatmul {
public:
  GpuMatmul(sw_rt_context &context, Gpu &gpu, const CudaBlas &blas, bool tf32)
      : context(context), gpu(gpu), blas(blas), tf32(tf32) {}
  ~GpuMatmul();
  GpuMatmul(const GpuMatmul &) = delete;
  GpuMatmul &operator=(const GpuMatmul &) = delete;

  bool open(std::string &why);
  void run(const MatmulCall &call);

private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  using Key = std::tuple<sw_rt_dtype, sw_rt_dtype, bool, bool, int64_t, int64_t,
                         int64_t, bool, uint32_t, uint32_t, uint32_t>;
  bool check(cublasStatus_t status, const char *call, const MatmulCall &of);
  bool make(const MatmulCall &call, Plan &plan);

  sw_rt_context &context;
  Gpu &gpu;
  const CudaBlas &blas;
  bool tf32;
  cublasLtHandle_t handle = nullptr;
  char *workspace = nullptr;
  std::map<Key, Plan> plans;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUMATMUL_H
