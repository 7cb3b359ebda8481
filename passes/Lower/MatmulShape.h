//===- MatmulShape.h - A contraction as one matrix product ------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_MATMULSHAPE_H
#define SHARDWRIGHT_PASSES_LOWER_MATMULSHAPE_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardwright {

/// Row-major c[m, n] = op(a)[m, k] * op(b)[k, n], as sw_rt_matmul takes it.
struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  bool swapped = false; ///< a is the rhs of the contraction
  bool transposeA = false, transposeB = false;
};

/// Shape of the contraction `spec` ("sbh,ngdh->sbngd") on tensors of the given
/// extents, without moving data: the letters of the result must be those of
/// one operand followed by those of the other, and each operand must hold its
/// own letters and the contracted ones in two blocks of the same order.
/// Letters of extent 1 may stand anywhere. False with `why` otherwise.
bool matmulShape(std::string_view spec, std::span<const int64_t> lhs,
                 std::span<const int64_t> rhs, MatmulShape &shape,
                 std::string &why);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_LOWER_MATMULSHAPE_H
