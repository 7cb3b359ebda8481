//===- Softmax.cpp - Row arithmetic of tiled attention --------------------===//
//
// Loops that GCC vectorizes; every function exists once per instruction set and
// the loader picks one, so an executable moves between machines. Reductions go
// over a fixed number of lanes: the order of additions is the same in all
// versions, and only fused multiply-adds can differ.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/compute/Softmax.h"
#include "runtime/src/compute/Clones.h"
#include "runtime/src/compute/Exponential.h"

#include <limits>

namespace shardwright::runtime {
namespace {

constexpr int64_t lanes = 16;

template <typename T>
[[gnu::always_inline]] inline T maximumOf(const T *row, int64_t count) {
  T best[lanes];
  for (int64_t l = 0; l < lanes; ++l)
    best[l] = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t l = 0; l < lanes; ++l)
      best[l] = row[i + l] > best[l] ? row[i + l] : best[l];
  T result = best[0];
  for (int64_t l = 1; l < lanes; ++l)
    result = best[l] > result ? best[l] : result;
  for (; i < count; ++i)
    result = row[i] > result ? row[i] : result;
  return result;
}

template <typename T>
[[gnu::always_inline]] inline T expRow(T *row, int64_t count, T maximum) {
  T sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) {
      const T value = expNonPositive(row[i + l] - maximum);
      row[i + l] = value;
      sums[l] += value;
    }
  T sum = 0;
  for (; i < count; ++i) {
    row[i] = expNonPositive(row[i] - maximum);
    sum += row[i];
  }
  for (int64_t l = 0; l < lanes; ++l)
    sum += sums[l];
  return sum;
}

template <typename T>
[[gnu::always_inline]] inline T
softmaxRowOf(T *row, int64_t valid, int64_t width, T &maximum, T &sum) {
  for (int64_t i = valid; i < width; ++i)
    row[i] = 0;
  if (valid == 0)
    return 1;
  const T best = maximumOf(row, valid);
  const T previous = maximum;
  maximum = best > previous ? best : previous;
  const T rescale = previous == -std::numeric_limits<T>::infinity()
                        ? T(0)
                        : expNonPositive(previous - maximum);
  sum = sum * rescale + expRow(row, valid, maximum);
  return rescale;
}

template <typename T>
[[gnu::always_inline]] inline void gradRow(T *scores, T *dp, int64_t valid,
                                           int64_t width, T lse, T delta) {
  for (int64_t i = 0; i < valid; ++i) {
    // Rounding may leave a score a little above its lse.
    const T x = scores[i] - lse;
    const T p = expNonPositive(x > T(0) ? T(0) : x);
    scores[i] = p;
    dp[i] = p * (dp[i] - delta);
  }
  for (int64_t i = valid; i < width; ++i)
    scores[i] = dp[i] = 0;
}

} // namespace

SW_CLONES float softmaxRow(float *row, int64_t valid, int64_t width,
                           float &maximum, float &sum) {
  return softmaxRowOf(row, valid, width, maximum, sum);
}
SW_CLONES double softmaxRow(double *row, int64_t valid, int64_t width,
                            double &maximum, double &sum) {
  return softmaxRowOf(row, valid, width, maximum, sum);
}
SW_CLONES void softmaxGradRow(float *scores, float *dp, int64_t valid,
                              int64_t width, float lse, float delta) {
  gradRow(scores, dp, valid, width, lse, delta);
}
SW_CLONES void softmaxGradRow(double *scores, double *dp, int64_t valid,
                              int64_t width, double lse, double delta) {
  gradRow(scores, dp, valid, width, lse, delta);
}

} // namespace shardwright::runtime
