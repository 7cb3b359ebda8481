//===- Alibi.cpp - Slopes of attention with linear biases -----------------===//
//
// Press et al., arXiv:2108.12409: with n heads, a power of two, the slopes are
// 2^(-8/n), 2^(-16/n), ...; otherwise those of the power below, then every
// other one of twice that power, as the authors' code does.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/compute/Attention.h"

#include <bit>

namespace shardwright::runtime {

static double slopeOf(int64_t head, int64_t heads) {
  const int64_t power =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  if (head < power)
    return std::exp2(-8.0 * static_cast<double>(head + 1) /
                     static_cast<double>(power));
  return std::exp2(-8.0 * static_cast<double>(2 * (head - power) + 1) /
                   static_cast<double>(2 * power));
}

std::vector<double> alibiSlopes(const sw_rt_context &context,
                                const sw_rt_attention_shape &shape) {
  std::vector<double> slopes;
  if (shape.alibi == 0 || shape.alibi_heads == 0)
    return slopes;
  const int64_t heads = shape.n * shape.g;
  const int64_t first =
      shape.head_axes ? sw_rt_coordinate(&context, shape.head_axes) * heads : 0;
  for (int64_t head = 0; head < heads; ++head)
    slopes.push_back(shape.alibi * slopeOf(first + head, shape.alibi_heads));
  return slopes;
}

} // namespace shardwright::runtime
