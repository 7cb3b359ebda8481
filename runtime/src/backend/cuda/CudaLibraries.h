//===- CudaLibraries.h - Driver, cuBLASLt, cuDNN, NCCL at run time -*- C++ -*-//
//
// Compiled against NVIDIA's headers for types and constants only: every
// function comes by dlsym, so that an executable starts on machines without any
// of them. The driver API serves for what cudart would: one library less.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDALIBRARIES_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDALIBRARIES_H

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>

#include <string>

namespace shardwright::runtime {

// Lists of functions. cuda.h renames some by macros (cuMemAlloc is
// cuMemAlloc_v2): members take the renamed name, and so does every use.
#define SW_CUDA_DRIVER_FUNCTIONS(X)                                            \
  X(cuInit)                                                                    \
  X(cuDriverGetVersion)                                                        \
  X(cuDeviceGetCount)                                                          \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetName)                                                           \
  X(cuDeviceGetAttribute)                                                      \
  X(cuDevicePrimaryCtxRetain)                                                  \
  X(cuDevicePrimaryCtxRelease)                                                 \
  X(cuCtxSetCurrent)                                                           \
  X(cuMemGetInfo)                                                              \
  X(cuMemAlloc)                                                                \
  X(cuMemFree)                                                                 \
  X(cuMemHostAlloc)                                                            \
  X(cuMemFreeHost)                                                             \
  X(cuMemHostGetDevicePointer)                                                 \
  X(cuMemcpyHtoDAsync)                                                         \
  X(cuMemcpyDtoHAsync)                                                         \
  X(cuMemcpyDtoDAsync)                                                         \
  X(cuMemcpy2DAsync)                                                           \
  X(cuMemsetD8Async)                                                           \
  X(cuStreamCreate)                                                            \
  X(cuStreamDestroy)                                                           \
  X(cuStreamWaitEvent)                                                         \
  X(cuStreamBeginCapture)                                                      \
  X(cuStreamEndCapture)                                                        \
  X(cuEventCreate)                                                             \
  X(cuEventRecord)                                                             \
  X(cuEventQuery)                                                              \
  X(cuEventDestroy)                                                            \
  X(cuModuleLoadDataEx)                                                        \
  X(cuModuleUnload)                                                            \
  X(cuModuleGetFunction)                                                       \
  X(cuLaunchKernel)                                                            \
  X(cuGraphInstantiateWithFlags)                                               \
  X(cuGraphLaunch)                                                             \
  X(cuGraphExecDestroy)                                                        \
  X(cuGraphDestroy)                                                            \
  X(cuGetErrorName)                                                            \
  X(cuGetErrorString)

#define SW_CUDA_BLAS_FUNCTIONS(X)                                              \
  X(cublasLtGetVersion)                                                        \
  X(cublasLtCreate)                                                            \
  X(cublasLtDestroy)                                                           \
  X(cublasLtMatmul)                                                            \
  X(cublasLtMatmulDescCreate)                                                  \
  X(cublasLtMatmulDescDestroy)                                                 \
  X(cublasLtMatmulDescSetAttribute)                                            \
  X(cublasLtMatrixLayoutCreate)                                                \
  X(cublasLtMatrixLayoutDestroy)                                               \
  X(cublasLtMatmulPreferenceCreate)                                            \
  X(cublasLtMatmulPreferenceDestroy)                                           \
  X(cublasLtMatmulPreferenceSetAttribute)                                      \
  X(cublasLtMatmulAlgoGetHeuristic)                                            \
  X(cublasLtGetStatusName)

#define SW_CUDA_DNN_FUNCTIONS(X)                                               \
  X(cudnnGetVersion)                                                           \
  X(cudnnGetErrorString)                                                       \
  X(cudnnCreate)                                                               \
  X(cudnnDestroy)                                                              \
  X(cudnnSetStream)                                                            \
  X(cudnnBackendCreateDescriptor)                                              \
  X(cudnnBackendDestroyDescriptor)                                             \
  X(cudnnBackendFinalize)                                                      \
  X(cudnnBackendSetAttribute)                                                  \
  X(cudnnBackendGetAttribute)                                                  \
  X(cudnnBackendExecute)

#define SW_CUDA_NCCL_FUNCTIONS(X)                                              \
  X(ncclGetVersion)                                                            \
  X(ncclGetUniqueId)                                                           \
  X(ncclCommInitRankConfig)                                                    \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclCommAbort)                                                             \
  X(ncclCommDestroy)                                                           \
  X(ncclGetErrorString)                                                        \
  X(ncclGetLastError)                                                          \
  X(ncclAllReduce)                                                             \
  X(ncclAllGather)                                                             \
  X(ncclReduceScatter)                                                         \
  X(ncclSend)                                                                  \
  X(ncclRecv)                                                                  \
  X(ncclGroupStart)                                                            \
  X(ncclGroupEnd)

#define SW_CUDA_MEMBER(function) decltype(&::function) function = nullptr;

struct CudaDriver {
  SW_CUDA_DRIVER_FUNCTIONS(SW_CUDA_MEMBER)
  int version = 0; ///< 1000 * major + 10 * minor

  /// The driver of this process, initialized; or null with `why`. It wants a
  /// driver of at least the major version whose headers this was built with,
  /// since embedded PTX is of that version.
  static const CudaDriver *load(std::string &why);
  /// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string text(const char *call, CUresult result) const;
};

struct CudaBlas {
  SW_CUDA_BLAS_FUNCTIONS(SW_CUDA_MEMBER)
  size_t version = 0;
  static const CudaBlas *load(std::string &why);
};

struct CudaDnn {
  SW_CUDA_DNN_FUNCTIONS(SW_CUDA_MEMBER)
  size_t version = 0; ///< 10000 * major + 100 * minor + patch
  /// Null with `why` if there is none: attention then runs on our own kernel.
  static const CudaDnn *load(std::string &why);
};

struct CudaNccl {
  SW_CUDA_NCCL_FUNCTIONS(SW_CUDA_MEMBER)
  int version = 0; ///< 10000 * major + 100 * minor + patch
  static const CudaNccl *load(std::string &why);
};

#undef SW_CUDA_MEMBER

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDALIBRARIES_H
