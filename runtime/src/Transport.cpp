//===- Transport.cpp - Parts that all backends share ----------------------===//
#include "runtime/src/Transport.h"
#include "runtime/src/Copy.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace shardwright::runtime {

const char *name(Call call) {
  switch (call) {
  case Call::AllReduce:
    return "all_reduce";
  case Call::AllGather:
    return "all_gather";
  case Call::ReduceScatter:
    return "reduce_scatter";
  case Call::AllToAll:
    return "all_to_all";
  case Call::Send:
    return "send";
  case Call::Recv:
    return "recv";
  case Call::Barrier:
    return "barrier";
  }
  return "unknown";
}

void Sink::take(int64_t offset, const void *data, int64_t bytes) const {
  if (bytes == 0)
    return;
  char *at = static_cast<char *>(target) + offset;
  if (combine)
    combine(at, data, bytes / elementBytes);
  else
    copyBytes(at, data, bytes);
}

int64_t Transport::departure(int64_t bytes) {
  if (!link.active())
    return 0;
  int64_t start = std::max(nowNanoseconds(), linkFreeAt);
  if (link.bytesPerSecond > 0)
    start += static_cast<int64_t>(static_cast<double>(bytes) /
                                  link.bytesPerSecond * 1e9);
  linkFreeAt = start;
  return start + static_cast<int64_t>(link.latencySeconds * 1e9);
}

void Transport::arrive(int64_t readyAt) const {
  if (readyAt == 0)
    return;
  const int64_t left = readyAt - nowNanoseconds();
  if (left > 0)
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

} // namespace shardwright::runtime
