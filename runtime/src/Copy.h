//===- Copy.h - Copies of any size ------------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COPY_H
#define SHARDWRIGHT_RUNTIME_COPY_H

#include <cstdint>
#include <cstring>

namespace shardwright::runtime {

/// memcpy that takes null pointers where there is nothing to copy: empty parts
/// and messages have no address.
inline void copyBytes(void *target, const void *source, int64_t bytes) {
  if (bytes > 0)
    std::memcpy(target, source, static_cast<size_t>(bytes));
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COPY_H
