//===- Call.h - What ranks call together ------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_CALL_H
#define SHARDWRIGHT_RUNTIME_CALL_H

#include <cstdint>

namespace shardwright::runtime {

/// In the order in which ledgers list them. On the wire a receive is the other
/// end of a Send.
enum class Call : int32_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Send,
  Recv,
  Barrier,
};
const char *name(Call call);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_CALL_H
