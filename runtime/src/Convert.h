//===- Convert.h - Elements of one type to another --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_CONVERT_H
#define SHARDWRIGHT_RUNTIME_CONVERT_H

#include "runtime/include/shardwright_rt.h"

#include <cstring>

namespace shardwright::runtime {

/// Rounds to the nearest bf16, ties to even; a NaN stays one.
inline uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float fromBf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

/// From f32 or f64 to f64, f32 or bf16, rounding once. Returns false for other
/// types.
bool convert(sw_rt_dtype from, const void *source, sw_rt_dtype to, void *target,
             int64_t count);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_CONVERT_H
