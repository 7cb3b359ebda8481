//===- FakeBlas.cpp - Products of a fake cuBLASLt -------------------------===//
//
// Three loops on a stream of the fake driver, in f64 whatever was asked for.
// FAKE_BLAS_VERSION; FAKE_CREATE: it does not start; FAKE_LOG_TYPES: FAKE_LOG gets
// the type that a product is to be computed in.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/FakeStreams.h"

#include <cublasLt.h>
#include <cuda_bf16.h>

using namespace shardwright::runtime::cts;

namespace {

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
  if (layout.type == CUDA_R_16BF)
    return __bfloat162float(static_cast<const __nv_bfloat16 *>(base)[at]);
  return layout.type == CUDA_R_64F ? static_cast<const double *>(base)[at]
                                   : static_cast<const float *>(base)[at];
}

/// Not a null pointer, and nothing behind it.
template <typename Handle> Handle some() {
  return reinterpret_cast<Handle>(uintptr_t(8));
}

} // namespace

extern "C" {

size_t cublasLtGetVersion() {
  return static_cast<size_t>(fakeSetting("FAKE_BLAS_VERSION", 130000));
}
const char *cublasLtGetStatusName(cublasStatus_t) { return "FAKE_STATUS"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = some<cublasLtHandle_t>();
  return fakeSetting("FAKE_CREATE", 0) ? CUBLAS_STATUS_NOT_INITIALIZED
                                   : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute,
                                        cudaDataType_t) {
  if (fakeSetting("FAKE_LOG_TYPES", 0))
    fakeNote("compute_" + std::to_string(compute));
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
                              cudaStream_t stream) {
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
  FakeStreams::mine().submitOnce(
      reinterpret_cast<FakeStream *>(stream),
      [=, one = scalar(alpha), keep = scalar(beta)] {
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
        else if (d.type == CUDA_R_16BF)
          static_cast<__nv_bfloat16 *>(D)[at] =
              __float2bfloat16_rn(static_cast<float>(one * sum + old));
        else
          static_cast<float *>(D)[at] = static_cast<float>(one * sum + old);
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
