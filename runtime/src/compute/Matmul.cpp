//===- Matmul.cpp - Dense products of generated code ----------------------===//
#include "runtime/src/Context.h"
#include "runtime/src/compute/Blas.h"
#include "runtime/src/compute/HostCompute.h"
#include "runtime/src/compute/Narrow.h"

#include <algorithm>
#include <cstring>

using namespace shardwright::runtime;

namespace {

/// Parts into which one side of C is cut. The cuts depend on the shape alone:
/// the last bits of a product depend on where an element lies in it, and may not
/// depend on the number of threads. OpenBLAS copies an operand anew for every
/// part, which costs about 2% at this length.
constexpr int64_t lengthOfPart = 1024;
/// Products of 0.5 ms or more are cut at least once.
constexpr double productsWorthTwo = 1 << 25;
constexpr int64_t cutAt = 64; ///< a multiple of the tiles of OpenBLAS's kernels

struct Cut {
  explicit Cut(int64_t extent) : extent(extent), length(extent) {}
  void into(int64_t parts) {
    length = (extent + parts - 1) / parts;
    length = (length + cutAt - 1) / cutAt * cutAt;
  }
  int64_t parts() const { return (extent + length - 1) / length; }
  int64_t first(int64_t part) const { return part * length; }
  int64_t size(int64_t part) const {
    return std::min(length, extent - first(part));
  }
  int64_t extent, length;
};

template <typename T>
void matmul(WorkerPool &pool, bool transposeA, bool transposeB, int64_t m,
            int64_t n, int64_t k, const void *a, const void *b, void *c,
            bool accumulate) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) { // an empty sum; BLAS wants leading dimensions of at least 1
    if (!accumulate)
      std::memset(c, 0, static_cast<size_t>(m * n) * sizeof(T));
    return;
  }
  Cut rows(m), columns(n);
  if (static_cast<double>(m) * static_cast<double>(n * k) >= productsWorthTwo) {
    rows.into((m + lengthOfPart - 1) / lengthOfPart);
    columns.into((n + lengthOfPart - 1) / lengthOfPart);
    // The longer side: every part reads all of the other operand.
    if (rows.parts() * columns.parts() == 1)
      (m >= n ? rows : columns).into(2);
  }
  const int64_t lda = transposeA ? m : k, ldb = transposeB ? k : n;
  pool.run(rows.parts() * columns.parts(), [&](int64_t index, int) {
    const int64_t i = index / columns.parts(), j = index % columns.parts();
    const int64_t row = rows.first(i), column = columns.first(j);
    gemm(Transpose(transposeA), Transpose(transposeB), rows.size(i),
         columns.size(j), k, T(1),
         static_cast<const T *>(a) + (transposeA ? row : row * lda), lda,
         static_cast<const T *>(b) + (transposeB ? column * ldb : column), ldb,
         accumulate ? T(1) : T(0), static_cast<T *>(c) + row * n + column, n);
  });
}

/// On f32 copies; C is rounded once if it is bf16.
void matmulOfBf16(WorkerPool &pool, const MatmulCall &call) {
  const std::vector<float> a = widened(pool, call.a, call.m * call.k);
  const std::vector<float> b = widened(pool, call.b, call.k * call.n);
  if (call.cDtype == SW_RT_F32)
    return matmul<float>(pool, call.transposeA, call.transposeB, call.m, call.n,
                         call.k, a.data(), b.data(), call.c, call.accumulate);
  const int64_t elements = call.m * call.n;
  std::vector<float> c =
      call.accumulate ? widened(pool, call.c, elements)
                      : std::vector<float>(static_cast<size_t>(elements));
  matmul<float>(pool, call.transposeA, call.transposeB, call.m, call.n, call.k,
                a.data(), b.data(), c.data(), call.accumulate);
  narrow(pool, c, call.c);
}

} // namespace

void shardwright::runtime::hostMatmul(sw_rt_context &context,
                                      const MatmulCall &call) {
  if (call.dtype == SW_RT_BF16 &&
      (call.cDtype == SW_RT_BF16 || call.cDtype == SW_RT_F32))
    matmulOfBf16(context.pool, call);
  else if (call.cDtype != call.dtype)
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a host matmul of ") + name(call.dtype) +
                     " to give the same, but got " + name(call.cDtype));
  else if (call.dtype == SW_RT_F32)
    matmul<float>(context.pool, call.transposeA, call.transposeB, call.m,
                  call.n, call.k, call.a, call.b, call.c, call.accumulate);
  else if (call.dtype == SW_RT_F64)
    matmul<double>(context.pool, call.transposeA, call.transposeB, call.m,
                   call.n, call.k, call.a, call.b, call.c, call.accumulate);
  else
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a host matmul in f32, f64 or bf16, but got ") +
                     name(call.dtype));
}
