//===- Trace.cpp - Events of one rank as a chrome trace -------------------===//
#include "runtime/src/Trace.h"

#include <cstdio>

namespace shardwright::runtime {

std::string Trace::json(int rank, const std::string &label,
                        int64_t origin) const {
  std::string text = "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " +
                     std::to_string(rank) + ", \"args\": {\"name\": \"" +
                     label + "\"}}";
  char times[128];
  for (const Event &event : events) {
    std::snprintf(times, sizeof(times),
                  "\"ph\": \"X\", \"pid\": %d, \"tid\": 0, \"ts\": %.3f, "
                  "\"dur\": %.3f",
                  rank, static_cast<double>(event.start - origin) / 1e3,
                  static_cast<double>(event.end - event.start) / 1e3);
    text += ",\n{\"name\": \"" + std::string(event.name) + "\", \"cat\": \"" +
            event.category + "\", " + times;
    if (!event.argument.empty())
      text += ", \"args\": " + event.argument;
    text += "}";
  }
  return text;
}

} // namespace shardwright::runtime
