//===- Blas.cpp - Products in three loops ---------------------------------===//
#include "cblas.h"

#include <thread>

namespace {

template <typename T>
void gemm(CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, blasint m, blasint n, blasint k,
          T alpha, const T *A, blasint lda, const T *B, blasint ldb, T beta,
          T *C, blasint ldc) {
  for (blasint i = 0; i < m; ++i) {
    T *row = C + static_cast<long>(i) * ldc;
    for (blasint j = 0; j < n; ++j)
      row[j] = beta == T(0) ? T(0) : beta * row[j];
    for (blasint l = 0; l < k; ++l) {
      const T factor = alpha * (a == CblasTrans
                                    ? A[static_cast<long>(l) * lda + i]
                                    : A[static_cast<long>(i) * lda + l]);
      if (b == CblasTrans)
        for (blasint j = 0; j < n; ++j)
          row[j] += factor * B[static_cast<long>(j) * ldb + l];
      else
        for (blasint j = 0; j < n; ++j)
          row[j] += factor * B[static_cast<long>(l) * ldb + j];
    }
  }
}

} // namespace

extern "C" {

void openblas_set_num_threads(int) {}
int openblas_get_num_procs() {
  const int count = static_cast<int>(std::thread::hardware_concurrency());
  return count > 0 ? count : 1;
}
void cblas_sgemm(CBLAS_ORDER, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, blasint m,
                 blasint n, blasint k, float alpha, const float *A, blasint lda,
                 const float *B, blasint ldb, float beta, float *C,
                 blasint ldc) {
  gemm(a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
void cblas_dgemm(CBLAS_ORDER, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b, blasint m,
                 blasint n, blasint k, double alpha, const double *A,
                 blasint lda, const double *B, blasint ldb, double beta,
                 double *C, blasint ldc) {
  gemm(a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

} // extern "C"
