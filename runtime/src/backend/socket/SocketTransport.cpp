//===- SocketTransport.cpp - Ranks as processes joined by TCP -------------===//
#include "runtime/src/backend/socket/SocketTransport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace shardwright::runtime {
namespace {

/// On the control connections: a kind, then for a poison the rank that is gone
/// (-1 if that is not the reason), its length and its text.
constexpr char farewell = 'F', poisonKind = 'P';
constexpr size_t poisonHead = 1 + sizeof(int32_t) + sizeof(uint32_t);
constexpr int64_t pieceBytes = 1 << 18;

bool wouldBlock() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace

SocketTransport::SocketTransport(SocketWorld::Mesh mesh, int rank,
                                 LinkModel link)
    : Transport(rank, static_cast<int>(mesh.data.size()), link),
      peers(mesh.data.size()) {
  for (size_t i = 0; i < peers.size(); ++i) {
    peers[i].data = mesh.data[i];
    peers[i].control = mesh.control[i];
  }
}

SocketTransport::~SocketTransport() {
  for (Peer &peer : peers) {
    if (peer.control >= 0) {
      // The last word: a farewell, so that the end of the connection is none
      // of a rank. After a poison it has been said.
      (void)!send(peer.control, &farewell, 1, MSG_NOSIGNAL);
      close(peer.control);
    }
    if (peer.data >= 0)
      close(peer.data);
  }
}

void SocketTransport::lost(int rank) {
  // A rank that has ended the job closes too: its reason comes first.
  Peer &peer = peers[static_cast<size_t>(rank)];
  const bool listens = !peer.saidFarewell;
  peer.saidFarewell = true; // once is enough
  if (listens)
    listen(rank);
  end("expected rank " + std::to_string(rank) +
          " to stay until the end, but its connection to rank " +
          std::to_string(getRank()) + " closed",
      rank);
}

/// All that are left see it or are told: the lowest of them reports.
void SocketTransport::learnLoss(int rank) {
  if (rank == getRank())
    return; // the others think so; they report
  peers[static_cast<size_t>(rank)].isLost = true;
  reportsLoss = true;
  for (int lower = 0; lower < getRank(); ++lower)
    reportsLoss = reportsLoss && peers[static_cast<size_t>(lower)].isLost;
}

bool SocketTransport::hear(int rank) {
  Peer &peer = peers[static_cast<size_t>(rank)];
  char buffer[4096];
  for (;;) {
    const ssize_t got = recv(peer.control, buffer, sizeof(buffer), 0);
    if (got > 0)
      peer.heard.append(buffer, static_cast<size_t>(got));
    else
      return got < 0 && wouldBlock();
  }
}

bool SocketTransport::takePoison(const Peer &peer, int &gone) {
  if (peer.heard.size() < poisonHead || peer.heard[0] != poisonKind)
    return false;
  int32_t rank = -1;
  uint32_t length = 0;
  std::memcpy(&rank, peer.heard.data() + 1, sizeof(rank));
  std::memcpy(&length, peer.heard.data() + 1 + sizeof(rank), sizeof(length));
  if (peer.heard.size() < poisonHead + length)
    return false;
  gone = rank < getSize() ? rank : -1;
  message = peer.heard.substr(poisonHead, length);
  return true;
}

void SocketTransport::listen(int rank) {
  if (poisoned)
    return;
  Peer &peer = peers[static_cast<size_t>(rank)];
  if (!hear(rank)) {
    // A poison that was cut off says as much as none.
    if ((peer.heard.empty() || peer.heard[0] == poisonKind) &&
        !peer.saidFarewell && peer.heard.size() < poisonHead)
      return lost(rank);
    peer.saidFarewell = true;
  }
  if (!peer.heard.empty() && peer.heard[0] == farewell)
    peer.saidFarewell = true;
  int gone = -1;
  poisoned = takePoison(peer, gone);
  if (gone >= 0)
    learnLoss(gone);
}

bool SocketTransport::wasCrossed() {
  const Deadline until = Clock::now() + crossing;
  for (;;) {
    bool mayCome = false;
    for (int rank = 0; rank < getRank(); ++rank) {
      Peer &peer = peers[static_cast<size_t>(rank)];
      if (peer.saidFarewell)
        continue;
      peer.saidFarewell = !hear(rank);
      int gone = -1;
      if (takePoison(peer, gone))
        return true;
      mayCome = mayCome || !peer.saidFarewell;
    }
    if (!mayCome || Clock::now() >= until)
      return false;
    poll(nullptr, 0, 1);
  }
}

bool SocketTransport::isPoisoned() {
  for (int rank = 0; rank < getSize() && !poisoned; ++rank)
    if (rank != getRank() && !peers[static_cast<size_t>(rank)].saidFarewell)
      listen(rank);
  return poisoned;
}

bool SocketTransport::poison(const std::string &text) { return end(text, -1); }

bool SocketTransport::end(const std::string &text, int gone) {
  if (isPoisoned())
    return false;
  if (gone >= 0)
    learnLoss(gone);
  poisoned = true;
  message = text.substr(0, 2000); // fits any socket's buffer
  std::string packet(1, poisonKind);
  const int32_t rank = gone;
  const uint32_t length = static_cast<uint32_t>(message.size());
  packet.append(reinterpret_cast<const char *>(&rank), sizeof(rank));
  packet.append(reinterpret_cast<const char *>(&length), sizeof(length));
  packet += message;
  for (Peer &peer : peers)
    if (peer.control >= 0)
      (void)!send(peer.control, packet.data(), packet.size(), MSG_NOSIGNAL);
  return gone >= 0 || !wasCrossed();
}

void SocketTransport::post(int rank, const Envelope &envelope, const void *data,
                           int64_t bytes) {
  Outgoing out{};
  out.header.envelope = envelope;
  out.header.bytes = bytes;
  out.header.readyAt = departure(bytes);
  out.data = static_cast<const char *>(data);
  Peer &peer = peers[static_cast<size_t>(rank)];
  peer.outgoing.push_back(out);
  sendMore(peer);
}

void SocketTransport::sendMore(Peer &peer) {
  constexpr int64_t head = sizeof(Header);
  while (!peer.outgoing.empty()) {
    Outgoing &out = peer.outgoing.front();
    const int64_t all = head + out.header.bytes;
    iovec parts[2];
    int count = 0;
    if (out.sent < head)
      parts[count++] = {reinterpret_cast<char *>(&out.header) + out.sent,
                        static_cast<size_t>(head - out.sent)};
    if (out.header.bytes > 0) {
      const int64_t at = std::max<int64_t>(0, out.sent - head);
      parts[count++] = {const_cast<char *>(out.data) + at,
                        static_cast<size_t>(out.header.bytes - at)};
    }
    msghdr packet{};
    packet.msg_iov = parts;
    packet.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(peer.data, &packet, MSG_NOSIGNAL);
    if (sent < 0)
      return; // full, or the rank is gone, which its control connection tells
    out.sent += sent;
    if (out.sent < all)
      return;
    peer.outgoing.pop_front();
  }
}

void SocketTransport::readHeader(int rank) {
  Peer &peer = peers[static_cast<size_t>(rank)];
  while (!peer.hasHeader()) {
    const ssize_t got = recv(
        peer.data, reinterpret_cast<char *>(&peer.incoming) + peer.received,
        sizeof(Header) - static_cast<size_t>(peer.received), 0);
    if (got == 0)
      lost(rank);
    if (got <= 0)
      return;
    peer.received += got;
  }
}

template <typename Done>
Wait SocketTransport::progress(int reads, Deadline deadline, const Done &done) {
  for (;;) {
    for (Peer &peer : peers)
      if (!peer.outgoing.empty())
        sendMore(peer);
    if (done())
      return Wait::Ready;
    if (isPoisoned())
      return Wait::Poisoned;
    std::vector<pollfd> entries;
    for (int rank = 0; rank < getSize(); ++rank) {
      const Peer &peer = peers[static_cast<size_t>(rank)];
      if (rank == getRank())
        continue;
      if (!peer.saidFarewell)
        entries.push_back({peer.control, POLLIN, 0});
      const short events = static_cast<short>(
          (rank == reads ? POLLIN : 0) | (peer.outgoing.empty() ? 0 : POLLOUT));
      if (events)
        entries.push_back({peer.data, events, 0});
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (left.count() <= 0)
      return done() ? Wait::Ready : Wait::TimedOut;
    // A closed data connection is always ready: do not spin on it.
    const int wait = static_cast<int>(std::min<int64_t>(left.count() + 1, 50));
    const int count = poll(entries.data(), entries.size(), wait);
    for (const pollfd &entry : entries)
      if (count > 0 && (entry.revents & (POLLHUP | POLLERR)) &&
          !(entry.revents & POLLIN)) {
        poll(nullptr, 0, 1);
        break;
      }
  }
}

bool SocketTransport::arrived(int rank) {
  readHeader(rank);
  return peers[static_cast<size_t>(rank)].hasHeader();
}

Wait SocketTransport::await(int rank, Deadline deadline, Envelope &envelope,
                            int64_t &bytes) {
  const Wait wait = progress(rank, deadline, [&] { return arrived(rank); });
  if (wait != Wait::Ready)
    return wait;
  const Peer &peer = peers[static_cast<size_t>(rank)];
  envelope = peer.incoming.envelope;
  bytes = peer.incoming.bytes;
  return Wait::Ready;
}

Wait SocketTransport::consume(int rank, Deadline deadline, const Sink &sink) {
  Peer &peer = peers[static_cast<size_t>(rank)];
  const int64_t bytes = peer.incoming.bytes;
  // The header's clock is the sender's: on another host it lies far off.
  if (peer.incoming.readyAt - nowNanoseconds() < int64_t(60) * 1000000000)
    arrive(peer.incoming.readyAt);
  int64_t at = 0;      // received
  int64_t pieceAt = 0; // start of the piece in `bounce`
  if (sink.combine)
    bounce.resize(static_cast<size_t>(pieceBytes));
  const Wait wait = progress(rank, deadline, [&] {
    while (at < bytes) {
      const int64_t end =
          sink.combine ? std::min(pieceAt + pieceBytes, bytes) : bytes;
      char *target = sink.combine ? bounce.data() + (at - pieceAt)
                                  : static_cast<char *>(sink.target) + at;
      const ssize_t got =
          recv(peer.data, target, static_cast<size_t>(end - at), 0);
      if (got == 0)
        lost(rank);
      if (got <= 0)
        return false;
      at += got;
      if (sink.combine && at == end) {
        sink.take(pieceAt, bounce.data(), end - pieceAt);
        pieceAt = end;
      }
    }
    return true;
  });
  if (wait == Wait::Ready)
    peer.received = 0; // the next header may come
  return wait;
}

Wait SocketTransport::drain(Deadline deadline, std::vector<int> &pending) {
  auto left = [&] {
    pending.clear();
    for (int rank = 0; rank < getSize(); ++rank)
      if (!peers[static_cast<size_t>(rank)].outgoing.empty())
        pending.push_back(rank);
    return pending.empty();
  };
  return progress(-1, deadline, left);
}

} // namespace shardwright::runtime
