//===- Blas.cpp - Row-major matrix products by OpenBLAS -------------------===//
#include "runtime/src/compute/Blas.h"

#include <cblas.h>

namespace shardwright::runtime {
namespace {

CBLAS_TRANSPOSE flag(Transpose transpose) {
  return transpose == Transpose::Yes ? CblasTrans : CblasNoTrans;
}
blasint narrow(int64_t value) { return static_cast<blasint>(value); }

} // namespace

void useBlasOnCallingThread() { openblas_set_num_threads(1); }

int coresOfProcess() { return openblas_get_num_procs(); }

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          float alpha, const float *A, int64_t lda, const float *B, int64_t ldb,
          float beta, float *C, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, flag(a), flag(b), narrow(m), narrow(n), narrow(k),
              alpha, A, narrow(lda), B, narrow(ldb), beta, C, narrow(ldc));
}

void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          double alpha, const double *A, int64_t lda, const double *B,
          int64_t ldb, double beta, double *C, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, flag(a), flag(b), narrow(m), narrow(n), narrow(k),
              alpha, A, narrow(lda), B, narrow(ldb), beta, C, narrow(ldc));
}

} // namespace shardwright::runtime
