//===- Deadline.h - The point in time at which a wait gives up --*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_DEADLINE_H
#define SHARDWRIGHT_RUNTIME_DEADLINE_H

#include <chrono>
#include <cstdint>

namespace shardwright::runtime {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline deadlineIn(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

/// Nanoseconds of the monotonic clock, which all processes of a host share.
inline int64_t nowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Clock::now().time_since_epoch())
      .count();
}

inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_DEADLINE_H
