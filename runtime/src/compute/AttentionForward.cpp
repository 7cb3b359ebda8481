//===- AttentionForward.cpp - Tiled attention with an online softmax ------===//
//
// Dao, FlashAttention-2, arXiv:2307.08691, algorithm 1: a tile of queries meets
// the tiles of keys one after the other; running maximum and sum rescale the
// output. The largest intermediate is one tile of scores.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/compute/Attention.h"
#include "runtime/src/compute/HostCompute.h"
#include "runtime/src/compute/Narrow.h"
#include "runtime/src/compute/Softmax.h"

#include <cmath>
#include <limits>

using namespace shardwright::runtime;

namespace {

template <typename T> struct Forward {
  const AttentionTiling &tiling;
  const ScoreChange<T> change;
  const T *q, *k, *v;
  T *o, *lse;

  int64_t scratchElements() const {
    return tiling.rows * (2 * tiling.shape.d + tiling.columns + 2);
  }

  /// Positions [first, first + positions) of one head.
  void tile(int64_t head, int64_t first, int64_t positions, T *scratch) const {
    const int64_t g = tiling.shape.g, d = tiling.shape.d;
    const int64_t rows = positions * g;
    T *queries = scratch, *output = queries + tiling.rows * d,
      *scores = output + tiling.rows * d,
      *maximum = scores + tiling.rows * tiling.columns,
      *sum = maximum + tiling.rows;
    packRows(tiling, q, first, positions, head,
             static_cast<T>(tiling.shape.scale), queries);
    std::fill_n(output, rows * d, T(0));
    std::fill_n(maximum, rows, -std::numeric_limits<T>::infinity());
    std::fill_n(sum, rows, T(0));
    const int64_t keys = tiling.keysOf(first + positions - 1);
    for (int64_t key = tiling.firstKeyOf(first); key < keys;
         key += tiling.columns) {
      const int64_t width = std::min(tiling.columns, keys - key);
      gemm(Transpose::No, Transpose::Yes, rows, width, d, T(1), queries, d,
           k + tiling.key(key, head), tiling.keyStride(), T(0), scores, width);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t s = first + row / g;
        const int64_t valid = tiling.validIn(s, key, width);
        const int64_t skipped = tiling.skippedIn(s, key, width);
        T *line = scores + row * width;
        change.apply(line, skipped, valid, head, row % g, s, key, nullptr);
        std::fill_n(line, skipped, T(0));
        const T rescale = softmaxRow(line + skipped, valid - skipped,
                                     width - skipped, maximum[row], sum[row]);
        if (rescale != T(1))
          for (int64_t i = 0; i < d; ++i)
            output[row * d + i] *= rescale;
      }
      gemm(Transpose::No, Transpose::No, rows, d, width, T(1), scores, width,
           v + tiling.key(key, head), tiling.keyStride(), T(1), output, d);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t position = first + row / g, member = row % g;
      T *target = o + tiling.query(position, head) + member * d;
      const T factor = sum[row] > 0 ? T(1) / sum[row] : T(0);
      for (int64_t i = 0; i < d; ++i)
        target[i] = output[row * d + i] * factor;
      lse[tiling.stat(position, head) + member] =
          maximum[row] + std::log(sum[row]);
    }
  }

  void run(sw_rt_context &context) const {
    forEachHead<T>(
        context, tiling, scratchElements(), [&](int64_t head, T *scratch) {
          for (int64_t s = 0; s < tiling.shape.s; s += tiling.positions)
            tile(head, s, std::min(tiling.positions, tiling.shape.s - s),
                 scratch);
        });
  }
};

template <typename T>
void forward(sw_rt_context &context, const AttentionTiling &tiling,
             const AttentionCall &call) {
  const std::vector<double> slopes = alibiSlopes(context, tiling.shape);
  Forward<T>{tiling,
             ScoreChange<T>(tiling, slopes),
             static_cast<const T *>(call.q),
             static_cast<const T *>(call.k),
             static_cast<const T *>(call.v),
             static_cast<T *>(call.o),
             static_cast<T *>(call.lse)}
      .run(context);
}

} // namespace

void shardwright::runtime::hostAttentionForward(sw_rt_context &context,
                                                const AttentionCall &call) {
  const AttentionTiling tiling(call.shape);
  if (call.dtype == SW_RT_F32)
    forward<float>(context, tiling, call);
  else if (call.dtype == SW_RT_F64)
    forward<double>(context, tiling, call);
  else if (call.dtype == SW_RT_BF16) { // on f32 copies
    WorkerPool &pool = context.pool;
    const int64_t queries = queryElements(call.shape),
                  keys = keyElements(call.shape);
    const std::vector<float> q = widened(pool, call.q, queries),
                             k = widened(pool, call.k, keys),
                             v = widened(pool, call.v, keys);
    std::vector<float> o(q.size());
    forward<float>(context, tiling,
                   {SW_RT_F32, call.shape, q.data(), k.data(), v.data(),
                    o.data(), call.lse});
    narrow(pool, o, call.o);
  } else
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected host attention in f32, f64 or bf16, but "
                             "got ") +
                     name(call.dtype));
}
