//===- Combine.cpp - Element-wise sum and maximum into a target -----------===//
#include "runtime/src/Combine.h"

#include <cstring>

namespace shardwright::runtime {
namespace {

template <typename T> struct Sum {
  static T apply(T a, T b) { return a + b; }
};
// NaN in either operand comes out: x > y is false for NaN, a != a catches it.
template <typename T> struct Max {
  static T apply(T a, T b) { return a > b || a != a ? a : b; }
};

template <typename T, template <typename> class Op>
void combine(void *target, const void *input, int64_t elements) {
  T *__restrict a = static_cast<T *>(target);
  const T *__restrict b = static_cast<const T *>(input);
  for (int64_t i = 0; i < elements; ++i)
    a[i] = Op<T>::apply(a[i], b[i]);
}

float fromBf16(uint16_t value) {
  const uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value)
    return static_cast<uint16_t>(bits >> 16 | 0x40); // stays a NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <template <typename> class Op>
void combineBf16(void *target, const void *input, int64_t elements) {
  uint16_t *__restrict a = static_cast<uint16_t *>(target);
  const uint16_t *__restrict b = static_cast<const uint16_t *>(input);
  for (int64_t i = 0; i < elements; ++i)
    a[i] = toBf16(Op<float>::apply(fromBf16(a[i]), fromBf16(b[i])));
}

template <template <typename> class Op>
CombineFunction choose(sw_rt_dtype dtype) {
  switch (dtype) {
  case SW_RT_F64:
    return combine<double, Op>;
  case SW_RT_F32:
    return combine<float, Op>;
  case SW_RT_I32:
    return combine<int32_t, Op>;
  case SW_RT_BF16:
    return combineBf16<Op>;
  case SW_RT_F16:
    return nullptr;
  }
  return nullptr;
}

} // namespace

CombineFunction combineFunction(sw_rt_op op, sw_rt_dtype dtype) {
  return op == SW_RT_SUM ? choose<Sum>(dtype) : choose<Max>(dtype);
}

} // namespace shardwright::runtime
