//===- Narrow.h - bf16 tensors as f32 and back ------------------*- C++ -*-===//
//
// On the host bf16 is storage: products and attention work on f32 copies, and
// each result is rounded once. Simple rather than fast: the copies are whole
// tensors, outside of the arena.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_NARROW_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_NARROW_H

#include "runtime/src/Convert.h"
#include "runtime/src/compute/WorkerPool.h"

#include <vector>

namespace shardwright::runtime {

/// The `count` bf16 elements at `source`, as f32.
inline std::vector<float> widened(WorkerPool &pool, const void *source,
                                  int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  const auto *from = static_cast<const uint16_t *>(source);
  forEachRange(pool, count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      result[static_cast<size_t>(i)] = fromBf16(from[i]);
  });
  return result;
}

/// Rounds f32 values to bf16 at `target`.
inline void narrow(WorkerPool &pool, const std::vector<float> &values,
                   void *target) {
  auto *to = static_cast<uint16_t *>(target);
  forEachRange(pool, static_cast<int64_t>(values.size()),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i)
                   to[i] = toBf16(values[static_cast<size_t>(i)]);
               });
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_NARROW_H
