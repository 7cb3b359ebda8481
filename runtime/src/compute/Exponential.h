//===- Exponential.h - exp that a compiler can vectorize --------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_EXPONENTIAL_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_EXPONENTIAL_H

#include <bit>
#include <cstdint>

namespace shardwright::runtime {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2)/2, exp(r) by its
// Taylor sum. Adding 1.5 * 2^(mantissa bits) rounds to an integer and leaves it
// in the low bits. ln 2 is split in two so that n * high part is exact
// (W. J. Cody and W. Waite, Software Manual for the Elementary Functions,
// 1980). For x <= 0; results below the smallest normal number come out as that
// number's neighbourhood instead of subnormal.

/// Remainder |r| <= 0.35: r^8/8! = 6e-9 < 2^-24.
[[gnu::always_inline]] inline float expNonPositive(float x) {
  constexpr float magic = 12582912.0f; // 1.5 * 2^23
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504088896341f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693359375f) - n * -2.12194440054690583e-4f;
  float sum = 1.0f / 5040;
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const int32_t exponent =
      std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(magic) + 127;
  return sum * std::bit_cast<float>(exponent << 23);
}

/// Remainder |r| <= 0.35: r^14/14! = 5e-18 < 2^-53.
[[gnu::always_inline]] inline double expNonPositive(double x) {
  constexpr double magic = 6755399441055744.0; // 1.5 * 2^52
  x = x < -708.0 ? -708.0 : x;
  const double shifted = x * 1.44269504088896340736 + magic;
  const double n = shifted - magic;
  const double r =
      (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const int64_t exponent =
      std::bit_cast<int64_t>(shifted) - std::bit_cast<int64_t>(magic) + 1023;
  return sum * std::bit_cast<double>(exponent << 52);
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_EXPONENTIAL_H
