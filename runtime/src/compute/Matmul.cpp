//===- Matmul.cpp - Dense products of generated code ----------------------===//
#include "runtime/src/Context.h"
#include "runtime/src/compute/Blas.h"

#include <algorithm>
#include <cstring>

using namespace shardwright::runtime;

namespace {

template <typename T>
void matmul(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k,
            const void *a, const void *b, void *c, bool accumulate) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) { // an empty sum; BLAS wants leading dimensions of at least 1
    if (!accumulate)
      std::memset(c, 0, static_cast<size_t>(m * n) * sizeof(T));
    return;
  }
  gemm(Transpose(transposeA), Transpose(transposeB), m, n, k, T(1),
       static_cast<const T *>(a), transposeA ? m : k, static_cast<const T *>(b),
       transposeB ? k : n, accumulate ? T(1) : T(0), static_cast<T *>(c), n);
}

} // namespace

extern "C" void sw_rt_matmul(sw_rt_context *context, sw_rt_dtype dtype,
                             int32_t transpose_a, int32_t transpose_b,
                             int64_t m, int64_t n, int64_t k, const void *a,
                             const void *b, void *c, int32_t accumulate) {
  if (std::max({m, n, k}) > INT32_MAX) {
    context->fail(SW_RT_UNSUPPORTED,
                  "expected extents of a matmul to be below 2^31, but got " +
                      std::to_string(std::max({m, n, k})));
    return;
  }
  const int64_t start = nowNanoseconds();
  if (dtype == SW_RT_F32)
    matmul<float>(transpose_a, transpose_b, m, n, k, a, b, c, accumulate);
  else if (dtype == SW_RT_F64)
    matmul<double>(transpose_a, transpose_b, m, n, k, a, b, c, accumulate);
  else
    context->fail(
        SW_RT_UNSUPPORTED,
        std::string("expected a host matmul in f32 or f64, but got ") +
            name(dtype));
  context->ledger.flops[context->phase] += 2 * m * n * k;
  if (context->trace.isEnabled())
    context->trace.add("matmul", "compute", start,
                       "{\"m\": " + std::to_string(m) +
                           ", \"n\": " + std::to_string(n) +
                           ", \"k\": " + std::to_string(k) + "}");
}
