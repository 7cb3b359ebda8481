//===- FakeLibraries.cpp - Driver and cuBLASLt as far as tests need them --===//
//
// One shared object under the names of the driver and cuBLASLt, so that the
// backend's own code runs where there is no GPU: which calls it makes, with
// which arguments, and how it ends when they fail. Device memory is host
// memory, our kernels run on the block emulator, products are three loops.
// Whatever passes here says nothing about a GPU.
//
// The environment says what is wrong: FAKE_DRIVER_VERSION, FAKE_DEVICES,
// FAKE_CAPABILITY, FAKE_FREE_BYTES, FAKE_BLAS_VERSION, FAKE_HANG (work never
// ends), FAKE_CREATE (cuBLASLt does not start); FAKE_LOG is a file that gets
// the names of some calls.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/BlockEmulator.h"

#include <cmath>
#include <cublasLt.h>
#include <cuda.h>
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

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

int64_t setting(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

void note(const char *call) {
  if (const char *path = std::getenv("FAKE_LOG"))
    if (FILE *file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", call);
      std::fclose(file);
    }
}

void *host(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// Work of a stream: done at once, or kept while a capture is on.
using Work = std::function<void()>;
struct Graph {
  std::vector<Work> work;
};
Graph *capturing = nullptr;
CUresult submit(Work work) {
  if (capturing)
    capturing->work.push_back(std::move(work));
  else
    work();
  return CUDA_SUCCESS;
}

/// Makes a kernel's work from its parameters, which are read at once.
using Kernel = std::function<Work(void **parameters)>;
template <typename Parameters> Kernel own(void (*kernel)(Parameters)) {
  return [kernel](void **parameters) -> Work {
    return
        [kernel, x = *static_cast<Parameters *>(parameters[0])] { kernel(x); };
  };
}

/// sw_rt_update in f64, one block after the other.
Work tinyUpdate(void **p) {
  auto pointer = [&](int i) { return *static_cast<double **>(p[i]); };
  return [master = pointer(0), m = pointer(1), v = pointer(2),
          gradient = pointer(3), parameter = pointer(4),
          count = *static_cast<int64_t *>(p[5]), s = pointer(6)] {
    using namespace shardwright::runtime::cts;
    if (BlockEmulator::get().blockNumber() ||
        BlockEmulator::get().threadIndex())
      return;
    for (int64_t i = 0; i < count; ++i) {
      const double g = gradient[i] * s[5];
      m[i] = s[1] * m[i] + (1 - s[1]) * g;
      v[i] = s[2] * v[i] + (1 - s[2]) * g * g;
      master[i] -= s[0] * ((m[i] / s[6]) / (std::sqrt(v[i] / s[7]) + s[3]) +
                           s[4] * master[i]);
      parameter[i] = master[i];
    }
  };
}

const std::map<std::string, Kernel> &kernelTable() {
#define OWN(name)                                                              \
  { #name, own(name) }
#define OWN_ATTENTION(suffix)                                                  \
  OWN(sw_attention_forward_##suffix), OWN(sw_attention_grad_q_##suffix),       \
      OWN(sw_attention_grad_kv_##suffix)
  static const std::map<std::string, Kernel> table = {
      OWN(sw_embedding_forward_2),
      OWN(sw_embedding_forward_4),
      OWN(sw_embedding_forward_8),
      OWN(sw_embedding_links),
      OWN(sw_embedding_backward_bf16),
      OWN(sw_embedding_backward_f32),
      OWN(sw_embedding_backward_f64),
      OWN(sw_squares_f32),
      OWN(sw_squares_f64),
      OWN(sw_sum),
      OWN(sw_transpose_f32),
      OWN_ATTENTION(bf16),
      OWN_ATTENTION(f32),
      OWN_ATTENTION(f64),
      {"tiny_update", tinyUpdate}};
#undef OWN
#undef OWN_ATTENTION
  return table;
}

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld;
};
struct Product {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};

double element(const void *base, const Layout &layout, uint64_t row,
               uint64_t column) {
  const uint64_t at = row + column * static_cast<uint64_t>(layout.ld);
  return layout.type == CUDA_R_64F ? static_cast<const double *>(base)[at]
                                   : static_cast<const float *>(base)[at];
}

/// Not a null pointer, and nothing behind it.
template <typename Handle> Handle some() {
  return reinterpret_cast<Handle>(uintptr_t(8));
}

} // namespace

extern "C" {

// ---- Driver ---------------------------------------------------------------
// //

CUresult cuInit(unsigned) {
  return setting("FAKE_DEVICES", 1) < 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  *version = static_cast<int>(setting("FAKE_DRIVER_VERSION", CUDA_VERSION));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  *count = static_cast<int>(setting("FAKE_DEVICES", 1));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice) {
  const int capability = static_cast<int>(setting("FAKE_CAPABILITY", 90));
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
               ? capability / 10
               : capability % 10;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = some<CUcontext>();
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t *free, size_t *total) {
  *total = size_t(80) << 30;
  *free = static_cast<size_t>(
      setting("FAKE_FREE_BYTES", static_cast<int64_t>(*total)));
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes) {
  void *at = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (at)
    std::memset(at, 0xab, bytes);
  *memory = reinterpret_cast<CUdeviceptr>(at);
  return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFree(CUdeviceptr memory) {
  std::free(host(memory));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes,
                           CUstream) {
  if (capturing) // a replay would read memory that may be gone
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::memcpy(host(target), source, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes,
                           CUstream) {
  if (capturing)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::memcpy(target, host(source), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                           CUstream) {
  return submit([=] { std::memcpy(host(target), host(source), bytes); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream) {
  if (copy->WidthInBytes > copy->srcPitch ||
      copy->WidthInBytes > copy->dstPitch)
    return CUDA_ERROR_INVALID_VALUE;
  return submit([x = *copy] {
    for (size_t row = 0; row < x.Height; ++row)
      std::memcpy(static_cast<char *>(host(x.dstDevice)) + row * x.dstPitch,
                  static_cast<char *>(host(x.srcDevice)) + row * x.srcPitch,
                  x.WidthInBytes);
  });
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes,
                         CUstream) {
  return submit([=] { std::memset(host(target), value, bytes); });
}
CUresult cuStreamCreate(CUstream *stream, unsigned) {
  *stream = some<CUstream>();
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return CUDA_SUCCESS; }
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  note("begin_capture");
  capturing = new Graph;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph *graph) {
  note("end_capture");
  *graph = reinterpret_cast<CUgraph>(capturing);
  capturing = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = some<CUevent>();
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent) {
  return setting("FAKE_HANG", 0) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned,
                            CUjit_option *, void **) {
  // The runtime's kernels are PTX text.
  if (std::strstr(static_cast<const char *>(image), ".entry sw_sum") == nullptr)
    return CUDA_ERROR_INVALID_PTX;
  *module = some<CUmodule>();
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  const auto at = kernelTable().find(name);
  if (at == kernelTable().end())
    return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel *>(&at->second));
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned,
                        unsigned block, unsigned, unsigned, unsigned, CUstream,
                        void **parameters, void **) {
  const Work body = (*reinterpret_cast<Kernel *>(function))(parameters);
  return submit([=] {
    shardwright::runtime::cts::BlockEmulator::get().launch(grid, block, body);
  });
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(
      new Graph(*reinterpret_cast<Graph *>(graph)));
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream) {
  note("graph_launch");
  for (const Work &work : reinterpret_cast<Graph *>(executable)->work)
    work();
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  delete reinterpret_cast<Graph *>(executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<Graph *>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) {
  *name = "FAKE_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "as the test wants";
  return CUDA_SUCCESS;
}

// ---- cuBLASLt -------------------------------------------------------------
// //

size_t cublasLtGetVersion() {
  return static_cast<size_t>(setting("FAKE_BLAS_VERSION", 130000));
}
const char *cublasLtGetStatusName(cublasStatus_t) { return "FAKE_STATUS"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = some<cublasLtHandle_t>();
  return setting("FAKE_CREATE", 0) ? CUBLAS_STATUS_NOT_INITIALIZED
                                   : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t, cudaDataType_t) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<Product *>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t) {
  auto *product = reinterpret_cast<Product *>(operation);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    product->a = *static_cast<const cublasOperation_t *>(value);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    product->b = *static_cast<const cublasOperation_t *>(value);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout *>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = some<cublasLtMatmulPreference_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t,
                                     const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                               cublasLtMatmulPreference_t, int,
                               cublasLtMatmulHeuristicResult_t[], int *found) {
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *A,
                              cublasLtMatrixLayout_t layoutA, const void *B,
                              cublasLtMatrixLayout_t layoutB, const void *beta,
                              const void *, cublasLtMatrixLayout_t, void *D,
                              cublasLtMatrixLayout_t layoutD,
                              const cublasLtMatmulAlgo_t *, void *, size_t,
                              cudaStream_t) {
  const Product product = *reinterpret_cast<Product *>(operation);
  const Layout a = *reinterpret_cast<Layout *>(layoutA),
               b = *reinterpret_cast<Layout *>(layoutB),
               d = *reinterpret_cast<Layout *>(layoutD);
  const bool ta = product.a == CUBLAS_OP_T, tb = product.b == CUBLAS_OP_T;
  const uint64_t k = ta ? a.rows : a.columns;
  // What the library would refuse.
  if ((ta ? a.columns : a.rows) != d.rows ||
      (tb ? b.rows : b.columns) != d.columns ||
      (tb ? b.columns : b.rows) != k || a.ld < int64_t(a.rows) ||
      b.ld < int64_t(b.rows) || d.ld < int64_t(d.rows) || a.type != b.type)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool isDouble = d.type == CUDA_R_64F;
  auto scalar = [&](const void *at) {
    return isDouble ? *static_cast<const double *>(at)
                    : double(*static_cast<const float *>(at));
  };
  submit([=, one = scalar(alpha), keep = scalar(beta)] {
    for (uint64_t column = 0; column < d.columns; ++column)
      for (uint64_t row = 0; row < d.rows; ++row) {
        double sum = 0;
        for (uint64_t l = 0; l < k; ++l)
          sum += (ta ? element(A, a, l, row) : element(A, a, row, l)) *
                 (tb ? element(B, b, column, l) : element(B, b, l, column));
        const uint64_t at = row + column * static_cast<uint64_t>(d.ld);
        const double old = keep == 0 ? 0 : keep * element(D, d, row, column);
        if (isDouble)
          static_cast<double *>(D)[at] = one * sum + old;
        else
          static_cast<float *>(D)[at] = static_cast<float>(one * sum + old);
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
