//===- Trace.h - Events of one rank as a chrome trace -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRACE_H
#define SHARDWRIGHT_RUNTIME_TRACE_H

#include "runtime/src/Deadline.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright::runtime {

/// Collects events if enabled. Names must outlive the trace (string literals
/// or strings of the program).
class Trace {
public:
  struct Event {
    const char *name;
    const char *category;
    int64_t start, end;   ///< nanoseconds of the monotonic clock
    std::string argument; ///< one JSON object, or empty
  };

  void enable() { enabled = true; }
  bool isEnabled() const { return enabled; }
  void add(const char *name, const char *category, int64_t start,
           std::string argument = {}) {
    if (enabled)
      events.push_back(
          {name, category, start, nowNanoseconds(), std::move(argument)});
  }
  /// The events as JSON objects joined by ",\n" (no brackets); times in
  /// microseconds since `origin`, one chrome process per rank.
  std::string json(int rank, const std::string &label, int64_t origin) const;

private:
  bool enabled = false;
  std::vector<Event> events;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRACE_H
