//===- Exchange.h - One call of a group, with its checks --------*- C++ -*-===//
//
// Every message carries what its sender thinks the call is; a receiver that
// thinks otherwise ends the job with both views in the message. Every wait has
// the deadline of the call; the first to miss it names who is absent.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_EXCHANGE_H
#define SHARDWRIGHT_RUNTIME_EXCHANGE_H

#include "runtime/src/Context.h"

namespace shardwright::runtime {

class Exchange {
public:
  Exchange(sw_rt_context &context, Group &group, Call call, sw_rt_dtype dtype,
           sw_rt_op op, int64_t count);
  ~Exchange();
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  int size() const { return static_cast<int>(group.members.size()); }
  int me() const { return group.me; }
  int64_t width() const { return byteWidth(dtype); }
  /// Indices of the other members, from the one after this rank around.
  const std::vector<int> &others() const { return order; }

  /// Checks the arguments and books the call if it has more than one member.
  sw_rt_status begin(bool book = true);
  /// Fails unless count is divisible by the number of members.
  sw_rt_status wantDivisible();
  /// Memory for a sum of `bytes`.
  sw_rt_status stage(int64_t bytes, char *&memory);
  void post(int member, int round, const void *data, int64_t bytes);
  sw_rt_status receive(int member, int round, const Sink &sink, int64_t bytes);
  sw_rt_status drain();

  // For backends that move the bytes by other means: the checks alone.
  /// Compares the call with that of every other member.
  sw_rt_status meet();
  /// One direction of a pair: the sender tells, the receiver hears.
  sw_rt_status tell();
  sw_rt_status hear();
  /// The call in words.
  std::string text() const { return describe(envelope); }

private:
  sw_rt_status timedOut(const std::vector<int> &absent);
  sw_rt_status poisoned();
  /// What the device has not ended, as an end of a message.
  std::string onDevice() const;
  std::string describe(const Envelope &envelope) const;

  sw_rt_context &context;
  Group &group;
  Call call;
  sw_rt_dtype dtype;
  Envelope envelope;
  Deadline deadline;
  int64_t start;
  std::vector<int> order;
  std::vector<bool> received;
  alignas(16) char small[64]; ///< staging of scalars
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_EXCHANGE_H
