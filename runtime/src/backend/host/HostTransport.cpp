//===- HostTransport.cpp - Ranks as threads of one process ----------------===//
#include "runtime/src/backend/host/HostTransport.h"

namespace shardwright::runtime {

HostWorld::HostWorld(int size) {
  for (int i = 0; i < size; ++i) {
    auto box = std::make_unique<Mailbox>();
    box->from.resize(static_cast<size_t>(size));
    box->unconsumed.resize(static_cast<size_t>(size));
    boxes.push_back(std::move(box));
  }
}

HostTransport::HostTransport(std::shared_ptr<HostWorld> shared, int rank,
                             LinkModel link)
    : Transport(rank, static_cast<int>(shared->boxes.size()), link),
      world(std::move(shared)), own(*world->boxes[static_cast<size_t>(rank)]) {}

void HostTransport::post(int peer, const Envelope &envelope, const void *data,
                         int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(own.mutex);
    ++own.unconsumed[static_cast<size_t>(peer)];
    ++own.totalUnconsumed;
  }
  HostWorld::Mailbox &box = *world->boxes[static_cast<size_t>(peer)];
  const int64_t readyAt = departure(bytes);
  std::lock_guard<std::mutex> lock(box.mutex);
  box.from[static_cast<size_t>(getRank())].messages.push_back(
      {envelope, data, bytes, readyAt});
  box.changed.notify_one(); // only the owner waits on its box
}

Wait HostTransport::await(int peer, Deadline deadline, Envelope &envelope,
                          int64_t &bytes) {
  std::unique_lock<std::mutex> lock(own.mutex);
  HostWorld::Queue &queue = own.from[static_cast<size_t>(peer)];
  own.waitsFor = peer;
  const bool ready = own.changed.wait_until(
      lock, deadline, [&] { return !queue.empty() || world->poisoned; });
  // A rank that gives up keeps waitsFor: others still explain their wait by it.
  if (!queue.empty()) {
    own.waitsFor = -1;
    envelope = queue.messages[queue.head].envelope;
    bytes = queue.messages[queue.head].bytes;
    return Wait::Ready;
  }
  return ready ? Wait::Poisoned : Wait::TimedOut;
}

Wait HostTransport::consume(int peer, Deadline, const Sink &sink) {
  HostWorld::Message message;
  {
    std::lock_guard<std::mutex> lock(own.mutex);
    HostWorld::Queue &queue = own.from[static_cast<size_t>(peer)];
    message = queue.messages[queue.head++];
    if (queue.empty()) {
      queue.messages.clear();
      queue.head = 0;
    }
  }
  arrive(message.readyAt);
  // The sender's memory is valid while its message is not taken, and after a
  // poison while a reader is counted (settle()).
  HostWorld::Mailbox &sender = *world->boxes[static_cast<size_t>(peer)];
  {
    std::lock_guard<std::mutex> lock(sender.mutex);
    if (world->poisoned)
      return Wait::Poisoned;
    ++sender.readers;
  }
  sink.take(0, message.data, message.bytes);
  std::lock_guard<std::mutex> lock(sender.mutex);
  --sender.readers;
  --sender.unconsumed[static_cast<size_t>(getRank())];
  if (--sender.totalUnconsumed == 0 || world->poisoned)
    sender.changed.notify_one();
  return Wait::Ready;
}

void HostTransport::settle() {
  std::unique_lock<std::mutex> lock(own.mutex);
  own.changed.wait(lock, [&] { return own.readers == 0; });
}

Wait HostTransport::drain(Deadline deadline, std::vector<int> &pending) {
  std::unique_lock<std::mutex> lock(own.mutex);
  auto firstPending = [&] {
    for (size_t i = 0; i < own.unconsumed.size(); ++i)
      if (own.unconsumed[i])
        return static_cast<int>(i);
    return -1;
  };
  own.waitsFor = firstPending();
  const bool ready = own.changed.wait_until(lock, deadline, [&] {
    return own.totalUnconsumed == 0 || world->poisoned;
  });
  if (own.totalUnconsumed == 0) {
    own.waitsFor = -1;
    return Wait::Ready;
  }
  pending.clear();
  for (size_t i = 0; i < own.unconsumed.size(); ++i)
    if (own.unconsumed[i])
      pending.push_back(static_cast<int>(i));
  return ready ? Wait::Poisoned : Wait::TimedOut;
}

bool HostTransport::arrived(int peer) {
  std::lock_guard<std::mutex> lock(own.mutex);
  return !own.from[static_cast<size_t>(peer)].empty();
}

bool HostTransport::poison(const std::string &text) {
  {
    std::lock_guard<std::mutex> lock(world->poisonMutex);
    if (world->poisoned)
      return false;
    world->message = text;
    world->poisoned = true;
  }
  for (auto &box : world->boxes) {
    std::lock_guard<std::mutex> lock(box->mutex);
    box->changed.notify_all();
  }
  return true;
}

std::string HostTransport::poisonMessage() {
  std::lock_guard<std::mutex> lock(world->poisonMutex);
  return world->message;
}

int HostTransport::waitsFor(int peer) {
  return world->boxes[static_cast<size_t>(peer)]->waitsFor;
}

} // namespace shardwright::runtime
