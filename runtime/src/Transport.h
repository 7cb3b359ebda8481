//===- Transport.h - What a backend does: move bytes between ranks -*- C++ -*-//
//
// Collectives are written once, over this interface, so every backend adds in
// the same order and gives the same bits. A message is an envelope, which says
// what the sender believes it takes part in, and its bytes. Messages of a pair
// of ranks arrive in the order in which they were posted.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_TRANSPORT_H
#define SHARDWRIGHT_RUNTIME_TRANSPORT_H

#include "runtime/src/Call.h"
#include "runtime/src/Deadline.h"

#include <string>
#include <vector>

namespace shardwright::runtime {

/// All fields but `phase` must be equal at sender and receiver.
struct Envelope {
  Call call = Call::Barrier;
  int32_t dtype = 0;
  int32_t op = 0;
  uint32_t axes = 0;
  uint32_t owners = 0; ///< stages that a group is restricted to; 0 for none
  int32_t round = 0;   ///< step within a collective
  int64_t number = 0;  ///< of the call in its group, from 0
  int64_t count = 0;   ///< elements of a member's input
  int32_t phase = 0;
  int32_t reserved = 0;
  bool matches(const Envelope &other) const {
    return call == other.call && dtype == other.dtype && op == other.op &&
           axes == other.axes && owners == other.owners &&
           round == other.round && number == other.number &&
           count == other.count;
  }
};

/// Adds (or takes the maximum of) `elements` of `input` into `target`.
using CombineFunction = void (*)(void *target, const void *input,
                                 int64_t elements);

/// Where received bytes go: copied if `combine` is null.
struct Sink {
  void *target = nullptr;
  CombineFunction combine = nullptr;
  int64_t elementBytes = 1;
  void take(int64_t offset, const void *data, int64_t bytes) const;
};

enum class Wait { Ready, TimedOut, Poisoned };

/// An emulated link out of a rank: messages leave one after the other at
/// `bytesPerSecond` (0: at once) and take `latencySeconds` more.
struct LinkModel {
  double latencySeconds = 0;
  double bytesPerSecond = 0;
  bool active() const { return latencySeconds > 0 || bytesPerSecond > 0; }
};

/// How long a process that ends the job listens for a lower rank that did so at
/// the same moment. Longer than a message takes between busy hosts; if it is
/// not enough, the job ends all the same, with two messages.
constexpr std::chrono::milliseconds crossing{100};

class Transport {
public:
  Transport(int rank, int size, LinkModel link)
      : rank(rank), size(size), link(link) {}
  virtual ~Transport() = default;
  Transport(const Transport &) = delete;
  Transport &operator=(const Transport &) = delete;

  int getRank() const { return rank; }
  int getSize() const { return size; }

  /// Starts a message. Never waits; `data` must stay as it is until drain().
  virtual void post(int peer, const Envelope &envelope, const void *data,
                    int64_t bytes) = 0;
  /// Waits until the next message of `peer` is here and copies its envelope.
  virtual Wait await(int peer, Deadline deadline, Envelope &envelope,
                     int64_t &bytes) = 0;
  /// Receives the bytes of the message that await() saw.
  virtual Wait consume(int peer, Deadline deadline, const Sink &sink) = 0;
  /// Waits until every posted message may be reused; else names the peers that
  /// have not taken theirs.
  virtual Wait drain(Deadline deadline, std::vector<int> &pending) = 0;
  /// After a poison: returns when no other rank reads this rank's memory.
  virtual void settle() {}
  /// Whether a message of `peer` is here.
  virtual bool arrived(int peer) = 0;

  /// Ends the job for every rank. Returns true if this rank was the first, or
  /// the lowest of those that did so before they heard of one another; the
  /// message that counts is poisonMessage().
  virtual bool poison(const std::string &message) = 0;
  virtual std::string poisonMessage() = 0;
  /// Whether the job has ended, by this rank or another.
  virtual bool isPoisoned() = 0;
  /// Whether this transport found the reason itself, a rank that is gone, and
  /// this rank is the one to report it.
  virtual bool foundLoss() const { return false; }
  /// The rank that `peer` itself is waiting for, or -1 if it is not waiting or
  /// this backend cannot know.
  virtual int waitsFor(int) { return -1; }

protected:
  /// Books `bytes` on this rank's link; returns the time at which they are at
  /// the other end, in nanoseconds of the monotonic clock, 0 for at once.
  int64_t departure(int64_t bytes);
  /// Sleeps until `readyAt`.
  void arrive(int64_t readyAt) const;

private:
  int rank, size;
  LinkModel link;
  int64_t linkFreeAt = 0;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRANSPORT_H
