//===- Context.h - Everything that one rank holds ---------------*- C++ -*-===//
//
// The object behind the opaque handle of shardwright_rt.h. One rank, one
// thread; no globals.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CONTEXT_H
#define SHARDWRIGHT_RUNTIME_CONTEXT_H

#include "runtime/include/shardwright_rt.h"
#include "runtime/src/Device.h"
#include "runtime/src/Ledger.h"
#include "runtime/src/Mesh.h"
#include "runtime/src/Trace.h"
#include "runtime/src/Transport.h"
#include "runtime/src/compute/WorkerPool.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardwright::runtime {

int64_t byteWidth(sw_rt_dtype dtype);
const char *name(sw_rt_dtype dtype);

/// Ranks that take part in a collective, in order.
struct Group {
  uint32_t axes = 0;
  uint32_t owners = 0; ///< stages it is restricted to; 0 for all
  std::vector<int> members;
  int me = 0;           ///< index of this rank
  int64_t number = 0;   ///< of the next call
  std::string axesName; ///< key of the ledger
};

/// Memory in which a reduction keeps its sum. `limit` bytes at `memory`, given
/// by the arena; or growing if the context stands alone.
struct Staging {
  char *memory = nullptr;
  int64_t limit = 0;
  bool grows = true;
  std::vector<char> own;
};

} // namespace shardwright::runtime

struct sw_rt_context {
  sw_rt_context(shardwright::runtime::Mesh mesh,
                std::unique_ptr<shardwright::runtime::Transport> transport,
                double timeoutSeconds);
  ~sw_rt_context();

  shardwright::runtime::Mesh mesh;
  std::unique_ptr<shardwright::runtime::Transport> transport;
  /// The host's unless the job opens another.
  std::unique_ptr<shardwright::runtime::Device> device;
  double timeoutSeconds;
  int localRank = 0; ///< among the ranks of this host
  sw_rt_status status = SW_RT_OK; ///< not OK: poisoned, every call fails
  std::string error;
  sw_rt_phase phase = SW_RT_FORWARD;
  shardwright::runtime::Ledger ledger;
  shardwright::runtime::Trace trace;
  shardwright::runtime::Staging staging;
  int64_t communicationNanoseconds = 0;
  std::map<std::pair<uint32_t, uint32_t>, shardwright::runtime::Group> groups;
  std::vector<int64_t> sendNumber, receiveNumber; ///< per peer
  std::vector<char> scratch;                      ///< tiles of attention
  shardwright::runtime::WorkerPool pool;          ///< what it computes with

  int rank() const { return transport->getRank(); }

  /// The group of this rank along `axes`; with `owners`, only its members whose
  /// coordinate on `axes` is a bit of owners.
  shardwright::runtime::Group &group(uint32_t axes, uint32_t owners = 0);
  /// Poisons the job. Returns `failure` if this rank was the first, else
  /// SW_RT_ABORTED; error is the message that counts.
  sw_rt_status fail(sw_rt_status failure, const std::string &message);
  /// Fails since the job has ended: with the reason of the rank that ended it or,
  /// if this rank is to report one that is gone, with that and what it was
  /// waiting for.
  sw_rt_status failPoisoned(const std::string &awaited);
  /// Books a call in the ledger.
  void book(shardwright::runtime::Call call, const std::string &axes,
            int64_t payloadBytes);
};

namespace shardwright::runtime {

// Collectives and transfers of host memory over the transport. What generated
// code calls goes through the device, which is these for the host's.
sw_rt_status allReduce(sw_rt_context &context, Group &group, sw_rt_dtype dtype,
                       sw_rt_op op, const void *input, void *output,
                       int64_t count);
sw_rt_status allGather(sw_rt_context &context, Group &group, sw_rt_dtype dtype,
                       const void *input, void *output, int64_t count);
sw_rt_status reduceScatter(sw_rt_context &context, Group &group,
                           sw_rt_dtype dtype, sw_rt_op op, const void *input,
                           void *output, int64_t count);
sw_rt_status allToAll(sw_rt_context &context, Group &group, sw_rt_dtype dtype,
                      const void *input, void *output, int64_t count);
sw_rt_status send(sw_rt_context &context, int peer, sw_rt_dtype dtype,
                  const void *buffer, int64_t count);
sw_rt_status receive(sw_rt_context &context, int peer, sw_rt_dtype dtype,
                     void *buffer, int64_t count);
sw_rt_status barrier(sw_rt_context &context, Group &group);
/// The group of a transfer between this rank and `peer`: this rank first, with
/// the number of the transfer, which is counted.
sw_rt_status makePair(sw_rt_context &context, Call call, int peer, Group &pair);
/// send and recv outside the ledger (traces and reports).
sw_rt_status sendUnbooked(sw_rt_context &context, int peer, const void *data,
                          int64_t bytes);
sw_rt_status receiveUnbooked(sw_rt_context &context, int peer, void *data,
                             int64_t bytes);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_CONTEXT_H
