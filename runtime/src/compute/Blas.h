//===- Blas.h - Row-major matrix products by OpenBLAS -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_BLAS_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_BLAS_H

#include <cstdint>

namespace shardwright::runtime {

/// Keeps OpenBLAS from making threads of its own: ranks have theirs. A product
/// runs on the thread that asks for it.
void useBlasOnCallingThread();
/// Cores that this process may use.
int coresOfProcess();

enum class Transpose : bool { No, Yes };

/// C[m, n] = alpha * op(A)[m, k] * op(B)[k, n] + beta * C; ld* are the lengths
/// of stored rows.
void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          float alpha, const float *A, int64_t lda, const float *B, int64_t ldb,
          float beta, float *C, int64_t ldc);
void gemm(Transpose a, Transpose b, int64_t m, int64_t n, int64_t k,
          double alpha, const double *A, int64_t lda, const double *B,
          int64_t ldb, double beta, double *C, int64_t ldc);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_BLAS_H
