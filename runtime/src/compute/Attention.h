//===- Attention.h - Tiling that both passes of attention share -*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_ATTENTION_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_ATTENTION_H

#include "runtime/src/Context.h"
#include "runtime/src/compute/Blas.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace shardwright::runtime {

/// Elements of q and o, and of k and v.
inline int64_t queryElements(const sw_rt_attention_shape &shape) {
  return shape.s * shape.b * shape.n * shape.g * shape.d;
}
inline int64_t keyElements(const sw_rt_attention_shape &shape) {
  return shape.t * shape.b * shape.n * shape.d;
}

/// Layout and tiles of one call. A row of a tile is a (position, query head of
/// the group) pair: all query heads that share a key/value head are one matrix,
/// so grouped queries cost no extra passes over K and V.
struct AttentionTiling {
  explicit AttentionTiling(const sw_rt_attention_shape &shape)
      : shape(shape),
        positions(std::min(shape.s, std::max<int64_t>(1, 128 / shape.g))),
        rows(positions * shape.g), columns(std::min<int64_t>(shape.t, 128)) {}

  sw_rt_attention_shape shape;
  int64_t positions; ///< of a tile of queries
  int64_t rows;      ///< positions * g
  int64_t columns;   ///< of a tile of keys

  int64_t heads() const { return shape.b * shape.n; }
  int64_t queryStride() const { return heads() * shape.g * shape.d; }
  int64_t keyStride() const { return heads() * shape.d; }
  /// Element offset of position `s` of head `head` (= b * n + n') in q or o.
  int64_t query(int64_t s, int64_t head) const {
    return s * queryStride() + head * shape.g * shape.d;
  }
  int64_t key(int64_t t, int64_t head) const {
    return t * keyStride() + head * shape.d;
  }
  int64_t stat(int64_t s, int64_t head) const {
    return (s * heads() + head) * shape.g;
  }
  /// Number of keys that position `s` attends to. Causal: keys up to its own
  /// position, queries being the last s of t positions.
  int64_t keysOf(int64_t s) const {
    return shape.causal
               ? std::clamp<int64_t>(s + 1 + shape.t - shape.s, 0, shape.t)
               : shape.t;
  }
  /// First key that position `s` attends to: 0, or by the window.
  int64_t firstKeyOf(int64_t s) const {
    return shape.window > 0 ? std::max<int64_t>(0, keysOf(s) - shape.window)
                            : 0;
  }
  /// Keys of `s` that lie in the tile [first, first + width): columns
  /// [skippedIn, validIn).
  int64_t validIn(int64_t s, int64_t first, int64_t width) const {
    return std::clamp<int64_t>(keysOf(s) - first, 0, width);
  }
  int64_t skippedIn(int64_t s, int64_t first, int64_t width) const {
    return std::clamp<int64_t>(firstKeyOf(s) - first, 0,
                               validIn(s, first, width));
  }
  /// Unmasked (query, key) pairs of a head.
  int64_t pairs() const {
    int64_t sum = 0;
    for (int64_t s = 0; s < shape.s; ++s)
      sum += keysOf(s) - firstKeyOf(s);
    return sum;
  }
};

/// Slopes of alibi for the heads (n, g) of this rank, times the factor of the
/// shape; empty without alibi.
std::vector<double> alibiSlopes(const sw_rt_context &context,
                                const sw_rt_attention_shape &shape);

/// What scores are changed by before the softmax.
template <typename T> class ScoreChange {
public:
  ScoreChange(const AttentionTiling &tiling, const std::vector<double> &slopes)
      : tiling(tiling), slopes(slopes),
        cap(static_cast<T>(tiling.shape.softcap)) {}

  bool capped() const { return cap > T(0); }

  /// Changes columns [begin, end) of a row of scores in place. Row: member
  /// `member` of head `head` (= b * n + n') at position `s`; column 0 is key
  /// `key`. `slope`, if there is a cap, takes the derivative of each.
  void apply(T *scores, int64_t begin, int64_t end, int64_t head,
             int64_t member, int64_t s, int64_t key, T *slope) const {
    if (capped())
      for (int64_t i = begin; i < end; ++i) {
        const T bounded = std::tanh(scores[i] / cap);
        scores[i] = cap * bounded;
        if (slope)
          slope[i] = T(1) - bounded * bounded;
      }
    if (slopes.empty())
      return;
    const sw_rt_attention_shape &shape = tiling.shape;
    const T factor = static_cast<T>(slopes[head % shape.n * shape.g + member]);
    const int64_t own = s + shape.t - shape.s;
    for (int64_t i = begin; i < end; ++i)
      scores[i] += factor * static_cast<T>(key + i - own);
  }

private:
  const AttentionTiling &tiling;
  const std::vector<double> &slopes;
  T cap;
};

/// Copies rows of a [s, b, n, g, d] tensor to or from a dense [rows, d] tile.
template <typename T>
void packRows(const AttentionTiling &tiling, const T *tensor, int64_t first,
              int64_t positions, int64_t head, T factor, T *tile) {
  const int64_t length = tiling.shape.g * tiling.shape.d;
  for (int64_t s = 0; s < positions; ++s) {
    const T *from = tensor + tiling.query(first + s, head);
    for (int64_t i = 0; i < length; ++i)
      tile[s * length + i] = from[i] * factor;
  }
}

/// Runs `function(head, scratch)` for every key/value head on the context's
/// threads, each with `elements` of scratch.
template <typename T, typename Function>
void forEachHead(sw_rt_context &context, const AttentionTiling &tiling,
                 int64_t elements, const Function &function) {
  const int threads = context.pool.threads();
  context.scratch.resize(static_cast<size_t>(elements * threads) * sizeof(T));
  T *scratch = reinterpret_cast<T *>(context.scratch.data());
  context.pool.run(tiling.heads(), [&](int64_t head, int worker) {
    function(head, scratch + worker * elements);
  });
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_ATTENTION_H
