//===- AttentionBackward.cpp - Gradients of tiled attention ---------------===//
//
// Dao, FlashAttention-2, arXiv:2307.08691, algorithm 2, with the tiles of
// queries outside: probabilities are computed again from the scores and the
// saved log of the sum of exponentials.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/compute/Attention.h"
#include "runtime/src/compute/HostCompute.h"
#include "runtime/src/compute/Narrow.h"
#include "runtime/src/compute/Softmax.h"

using namespace shardwright::runtime;

namespace {

template <typename T> struct Backward {
  const AttentionTiling &tiling;
  const ScoreChange<T> change;
  const T *dO, *q, *k, *v, *o, *lse;
  T *dq, *dk, *dv;

  int64_t scratchElements() const {
    return tiling.rows * (3 * tiling.shape.d + 2 * tiling.columns + 1) +
           tiling.columns;
  }

  void tile(int64_t head, int64_t first, int64_t positions, T *scratch) const {
    const int64_t g = tiling.shape.g, d = tiling.shape.d;
    const int64_t rows = positions * g, stride = tiling.keyStride();
    T *queries = scratch, *dOutput = queries + tiling.rows * d,
      *dQueries = dOutput + tiling.rows * d,
      *scores = dQueries + tiling.rows * d,
      *dScores = scores + tiling.rows * tiling.columns,
      *delta = dScores + tiling.rows * tiling.columns,
      *slope = delta + tiling.rows;
    const T scale = static_cast<T>(tiling.shape.scale);
    packRows(tiling, q, first, positions, head, scale, queries);
    packRows(tiling, dO, first, positions, head, T(1), dOutput);
    std::fill_n(dQueries, rows * d, T(0));
    for (int64_t row = 0; row < rows; ++row) {
      const T *output = o + tiling.query(first + row / g, head) + row % g * d;
      T sum = 0;
      for (int64_t i = 0; i < d; ++i)
        sum += dOutput[row * d + i] * output[i];
      delta[row] = sum;
    }
    const int64_t keys = tiling.keysOf(first + positions - 1);
    for (int64_t key = tiling.firstKeyOf(first); key < keys;
         key += tiling.columns) {
      const int64_t width = std::min(tiling.columns, keys - key);
      const int64_t at = tiling.key(key, head);
      gemm(Transpose::No, Transpose::Yes, rows, width, d, T(1), queries, d,
           k + at, stride, T(0), scores, width);
      gemm(Transpose::No, Transpose::Yes, rows, width, d, T(1), dOutput, d,
           v + at, stride, T(0), dScores, width);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t position = first + row / g;
        const int64_t valid = tiling.validIn(position, key, width);
        const int64_t skipped = tiling.skippedIn(position, key, width);
        T *line = scores + row * width, *dLine = dScores + row * width;
        change.apply(line, skipped, valid, head, row % g, position, key, slope);
        std::fill_n(line, skipped, T(0));
        std::fill_n(dLine, skipped, T(0));
        softmaxGradRow(line + skipped, dLine + skipped, valid - skipped,
                       width - skipped,
                       lse[tiling.stat(position, head) + row % g], delta[row]);
        if (change.capped())
          for (int64_t i = skipped; i < valid; ++i)
            dLine[i] *= slope[i];
      }
      gemm(Transpose::Yes, Transpose::No, width, d, rows, T(1), scores, width,
           dOutput, d, T(1), dv + at, stride);
      // queries carry the scale already.
      gemm(Transpose::Yes, Transpose::No, width, d, rows, T(1), dScores, width,
           queries, d, T(1), dk + at, stride);
      gemm(Transpose::No, Transpose::No, rows, d, width, scale, dScores, width,
           k + at, stride, T(1), dQueries, d);
    }
    for (int64_t s = 0; s < positions; ++s)
      std::copy_n(dQueries + s * g * d, g * d,
                  dq + tiling.query(first + s, head));
  }

  void run(sw_rt_context &context) const {
    const size_t bytes =
        static_cast<size_t>(tiling.shape.t * tiling.keyStride()) * sizeof(T);
    std::memset(dk, 0, bytes);
    std::memset(dv, 0, bytes);
    forEachHead<T>(
        context, tiling, scratchElements(), [&](int64_t head, T *scratch) {
          for (int64_t s = 0; s < tiling.shape.s; s += tiling.positions)
            tile(head, s, std::min(tiling.positions, tiling.shape.s - s),
                 scratch);
        });
  }
};

template <typename T>
void backward(sw_rt_context &context, const AttentionTiling &tiling,
              const AttentionCall &call) {
  const std::vector<double> slopes = alibiSlopes(context, tiling.shape);
  Backward<T>{tiling,
              ScoreChange<T>(tiling, slopes),
              static_cast<const T *>(call.gradO),
              static_cast<const T *>(call.q),
              static_cast<const T *>(call.k),
              static_cast<const T *>(call.v),
              static_cast<const T *>(call.o),
              static_cast<const T *>(call.lse),
              static_cast<T *>(call.gradQ),
              static_cast<T *>(call.gradK),
              static_cast<T *>(call.gradV)}
      .run(context);
}

} // namespace

void shardwright::runtime::hostAttentionBackward(sw_rt_context &context,
                                                 const AttentionCall &call) {
  const AttentionTiling tiling(call.shape);
  if (call.dtype == SW_RT_F32)
    backward<float>(context, tiling, call);
  else if (call.dtype == SW_RT_F64)
    backward<double>(context, tiling, call);
  else if (call.dtype == SW_RT_BF16) { // on f32 copies
    WorkerPool &pool = context.pool;
    const int64_t queries = queryElements(call.shape),
                  keys = keyElements(call.shape);
    std::vector<float> q = widened(pool, call.q, queries),
                       k = widened(pool, call.k, keys),
                       v = widened(pool, call.v, keys),
                       o = widened(pool, call.o, queries),
                       gradO = widened(pool, call.gradO, queries);
    std::vector<float> gradQ(q.size()), gradK(k.size()), gradV(v.size());
    backward<float>(context, tiling,
                    {SW_RT_F32, call.shape, q.data(), k.data(), v.data(),
                     o.data(), call.lse, gradO.data(), gradQ.data(),
                     gradK.data(), gradV.data()});
    narrow(pool, gradQ, call.gradQ);
    narrow(pool, gradK, call.gradK);
    narrow(pool, gradV, call.gradV);
  } else
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a host attention gradient in f32, f64 "
                             "or bf16, but got ") +
                     name(call.dtype));
}
