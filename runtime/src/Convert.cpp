//===- Convert.cpp - Elements of one type to another ----------------------===//
#include "runtime/src/Convert.h"

#include <cmath>

namespace shardwright::runtime {
namespace {

/// f64 to f32 rounded to odd where it is not exact: a second rounding to fewer
/// bits then gives what one rounding would have.
float toOdd(double value) {
  float result = static_cast<float>(value);
  if (static_cast<double>(result) == value || !std::isfinite(result))
    return result;
  if (std::fabs(static_cast<double>(result)) > std::fabs(value))
    result = std::nextafterf(result, 0.0f);
  uint32_t bits;
  std::memcpy(&bits, &result, 4);
  bits |= 1;
  std::memcpy(&result, &bits, 4);
  return result;
}

template <typename T>
bool convertFrom(const T *source, sw_rt_dtype to, void *target, int64_t count) {
  switch (to) {
  case SW_RT_F64:
    for (int64_t i = 0; i < count; ++i)
      static_cast<double *>(target)[i] = source[i];
    return true;
  case SW_RT_F32:
    for (int64_t i = 0; i < count; ++i)
      static_cast<float *>(target)[i] = static_cast<float>(source[i]);
    return true;
  case SW_RT_BF16:
    for (int64_t i = 0; i < count; ++i)
      static_cast<uint16_t *>(target)[i] = toBf16(toOdd(source[i]));
    return true;
  case SW_RT_F16:
  case SW_RT_I32:
    break;
  }
  return false;
}

} // namespace

bool convert(sw_rt_dtype from, const void *source, sw_rt_dtype to, void *target,
             int64_t count) {
  if (from == SW_RT_F64)
    return convertFrom(static_cast<const double *>(source), to, target, count);
  return from == SW_RT_F32 &&
         convertFrom(static_cast<const float *>(source), to, target, count);
}

} // namespace shardwright::runtime
