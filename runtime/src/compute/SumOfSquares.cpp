//===- SumOfSquares.cpp - Squared norm of a range -------------------------===//
#include "runtime/src/compute/SumOfSquares.h"
#include "runtime/src/Convert.h"
#include "runtime/src/compute/Clones.h"

namespace shardwright::runtime {
namespace {

constexpr int64_t lanes = 16;

double valueOf(float value) { return value; }
double valueOf(double value) { return value; }
double valueOf(uint16_t bf16) { return fromBf16(bf16); }

template <typename T>
[[gnu::always_inline]] inline double sumOf(const T *values, int64_t count) {
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) {
      const double value = valueOf(values[i + l]);
      sums[l] += value * value;
    }
  double sum = 0;
  for (; i < count; ++i) {
    const double value = valueOf(values[i]);
    sum += value * value;
  }
  for (double part : sums)
    sum += part;
  return sum;
}

SW_CLONES double sumOfRange(const float *values, int64_t count) {
  return sumOf(values, count);
}
SW_CLONES double sumOfRange(const double *values, int64_t count) {
  return sumOf(values, count);
}
SW_CLONES double sumOfRange(const uint16_t *values, int64_t count) {
  return sumOf(values, count);
}

template <typename T>
double sumOfRanges(WorkerPool &pool, const T *values, int64_t count) {
  std::vector<double> sums(static_cast<size_t>(rangesOf(count)));
  forEachRange(pool, count, [&](int64_t first, int64_t last) {
    sums[static_cast<size_t>(rangesOf(first))] =
        sumOfRange(values + first, last - first);
  });
  double sum = 0;
  for (double part : sums)
    sum += part;
  return sum;
}

} // namespace

double sumOfSquares(WorkerPool &pool, const float *values, int64_t count) {
  return sumOfRanges(pool, values, count);
}
double sumOfSquares(WorkerPool &pool, const double *values, int64_t count) {
  return sumOfRanges(pool, values, count);
}
double sumOfSquares(WorkerPool &pool, const uint16_t *values, int64_t count) {
  return sumOfRanges(pool, values, count);
}

} // namespace shardwright::runtime
