/*===- cblas.h - The part of CBLAS that the runtime uses -------------------===*\
 * For machines without OpenBLAS: a GPU box needs host products only to compare
 * a small model with.
\*===----------------------------------------------------------------------===*/
#ifndef SHARDWRIGHT_TEST_DEVICE_CBLAS_H
#define SHARDWRIGHT_TEST_DEVICE_CBLAS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef int blasint;
typedef enum { CblasRowMajor = 101 } CBLAS_ORDER;
typedef enum { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;
void openblas_set_num_threads(int count);
int openblas_get_num_procs(void);
void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b,
                 blasint m, blasint n, blasint k, float alpha, const float *A,
                 blasint lda, const float *B, blasint ldb, float beta, float *C,
                 blasint ldc);
void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE a, CBLAS_TRANSPOSE b,
                 blasint m, blasint n, blasint k, double alpha, const double *A,
                 blasint lda, const double *B, blasint ldb, double beta,
                 double *C, blasint ldc);
#ifdef __cplusplus
}
#endif
#endif
