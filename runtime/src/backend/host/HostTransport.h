//===- HostTransport.h - Ranks as threads of one process --------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTTRANSPORT_H
#define SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTTRANSPORT_H

#include "runtime/src/Transport.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace shardwright::runtime {

/// State that the threads of one job share: a mailbox a rank. A message is a
/// pointer into the sender's memory; the receiver copies or adds straight from
/// there, so a transfer is one pass over the data.
class HostWorld {
public:
  explicit HostWorld(int size);

private:
  friend class HostTransport;
  struct Message {
    Envelope envelope;
    const void *data;
    int64_t bytes;
    int64_t readyAt;
  };
  /// Messages of one sender, first in first out.
  struct Queue {
    std::vector<Message> messages;
    size_t head = 0;
    bool empty() const { return head == messages.size(); }
  };
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Queue> from;     ///< per sender
    std::vector<int> unconsumed; ///< own messages per receiver
    int totalUnconsumed = 0;
    int readers = 0; ///< ranks that copy from this rank's memory right now
    std::atomic<int> waitsFor{-1};
  };
  std::vector<std::unique_ptr<Mailbox>> boxes;
  std::atomic<bool> poisoned{false};
  std::mutex poisonMutex;
  std::string message;
};

class HostTransport final : public Transport {
public:
  HostTransport(std::shared_ptr<HostWorld> world, int rank, LinkModel link);
  void post(int peer, const Envelope &envelope, const void *data,
            int64_t bytes) override;
  Wait await(int peer, Deadline deadline, Envelope &envelope,
             int64_t &bytes) override;
  Wait consume(int peer, Deadline deadline, const Sink &sink) override;
  Wait drain(Deadline deadline, std::vector<int> &pending) override;
  void settle() override;
  bool arrived(int peer) override;
  bool poison(const std::string &message) override;
  std::string poisonMessage() override;
  bool isPoisoned() override { return world->poisoned; }
  int waitsFor(int peer) override;

private:
  std::shared_ptr<HostWorld> world;
  HostWorld::Mailbox &own;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTTRANSPORT_H
