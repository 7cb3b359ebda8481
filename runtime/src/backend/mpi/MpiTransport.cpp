//===- MpiTransport.cpp - Ranks as processes of an MPI job ----------------===//
#include "runtime/src/backend/mpi/MpiTransport.h"
#include "runtime/src/Copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <thread>

#include <sched.h>

namespace shardwright::runtime {

MpiTransport::MpiTransport(const MpiLibrary &mpi, int rank, int size,
                           LinkModel link)
    : Transport(rank, size, link), mpi(mpi) {
  mpi.Comm_dup(mpi.world, &communicator);
  incoming.resize(static_cast<size_t>(size));
  poisonIn.resize(poisonBytes);
  awaitPoison();
}

MpiTransport::~MpiTransport() {
  std::vector<MPI_Request *> left;
  if (poisonRequest != mpi.requestNull)
    left.push_back(&poisonRequest);
  for (auto &in : incoming)
    if (in && in->posted && !in->here)
      left.push_back(&in->request);
  for (MPI_Request *request : left)
    giveUp(*request);
  // Sends that nobody took after a poison: small ones are gone already; give
  // the others up.
  for (Outgoing &out : outgoing)
    for (MPI_Request &request : out.requests)
      if (!test(request))
        mpi.Request_free(&request);
  for (MPI_Request &request : poisonSends)
    if (!test(request))
      mpi.Request_free(&request);
  if (poisonedFlag) {
    // Others may still send into it, and freed sends may still read these: the
    // job is at its end, so they stay.
    for (Outgoing &out : outgoing)
      (void)out.header.release();
    (void)new std::vector<char>(std::move(poisonOut));
    return;
  }
  mpi.Comm_free(&communicator);
}

bool MpiTransport::test(MPI_Request &request) {
  if (request == mpi.requestNull)
    return true;
  int flag = 0;
  MPI_Status status;
  mpi.Test(&request, &flag, &status);
  return flag != 0;
}

void MpiTransport::giveUp(MPI_Request &request) {
  if (test(request))
    return;
  mpi.Cancel(&request);
  // A cancelled receive completes at the next tests.
  for (int i = 0; i < 1000 && !test(request); ++i)
    sched_yield();
}

void MpiTransport::awaitPoison() {
  mpi.Irecv(poisonIn.data(), poisonBytes, mpi.byte, MPI_ANY_SOURCE, PoisonTag,
            communicator, &poisonRequest);
}

int MpiTransport::takePoison(std::string &text) {
  if (poisonRequest == mpi.requestNull || !test(poisonRequest))
    return -1;
  poisonRequest = mpi.requestNull;
  poisonIn.back() = 0;
  int32_t from = 0;
  std::memcpy(&from, poisonIn.data(), sizeof(from));
  text = poisonIn.data() + sizeof(from);
  return from;
}

bool MpiTransport::isPoisoned() {
  if (!poisonedFlag)
    poisonedFlag = takePoison(message) >= 0;
  return poisonedFlag;
}

template <typename Done>
Wait MpiTransport::waitUntil(Deadline deadline, const Done &done) {
  for (int64_t spins = 0;; ++spins) {
    if (done())
      return Wait::Ready;
    if (isPoisoned())
      return Wait::Poisoned;
    // Fewer cores than ranks are usual: let the others run, and sleep when the
    // wait is long.
    if (spins < 2000)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (spins % 16 == 0 && Clock::now() >= deadline)
      return done() ? Wait::Ready : Wait::TimedOut;
  }
}

MpiTransport::Incoming &MpiTransport::incomingOf(int peer) {
  auto &slot = incoming[static_cast<size_t>(peer)];
  if (!slot)
    slot = std::make_unique<Incoming>();
  if (!slot->posted) {
    mpi.Irecv(&slot->header, sizeof(Header), mpi.byte, peer, HeaderTag,
              communicator, &slot->request);
    slot->posted = true;
  }
  return *slot;
}

bool MpiTransport::arrived(int peer) {
  Incoming &in = incomingOf(peer);
  if (!in.here && test(in.request))
    in.here = true;
  return in.here;
}

void MpiTransport::post(int peer, const Envelope &envelope, const void *data,
                        int64_t bytes) {
  Outgoing out;
  out.peer = peer;
  out.header = std::make_unique<Header>();
  out.header->envelope = envelope;
  out.header->bytes = bytes;
  out.header->readyAt = departure(bytes);
  int64_t headerBytes = offsetof(Header, data);
  if (bytes > 0 && bytes <= inlineBytes) {
    copyBytes(out.header->data, data, bytes);
    headerBytes += bytes;
  }
  MPI_Request request;
  mpi.Isend(out.header.get(), static_cast<int>(headerBytes), mpi.byte, peer,
            HeaderTag, communicator, &request);
  out.requests.push_back(request);
  if (bytes > inlineBytes)
    for (int64_t at = 0; at < bytes; at += pieceBytes) {
      mpi.Isend(static_cast<const char *>(data) + at,
                static_cast<int>(std::min(pieceBytes, bytes - at)), mpi.byte,
                peer, DataTag, communicator, &request);
      out.requests.push_back(request);
    }
  outgoing.push_back(std::move(out));
}

Wait MpiTransport::await(int peer, Deadline deadline, Envelope &envelope,
                         int64_t &bytes) {
  const Wait wait = waitUntil(deadline, [&] { return arrived(peer); });
  if (wait != Wait::Ready)
    return wait;
  const Header &header = incomingOf(peer).header;
  envelope = header.envelope;
  bytes = header.bytes;
  return Wait::Ready;
}

Wait MpiTransport::consume(int peer, Deadline deadline, const Sink &sink) {
  Incoming &in = incomingOf(peer);
  const int64_t bytes = in.header.bytes;
  in.posted = in.here = false; // the next header may be asked for
  // The header's clock is the sender's: on another host it means nothing, and
  // then it lies far off.
  if (in.header.readyAt - nowNanoseconds() < int64_t(60) * 1000000000)
    arrive(in.header.readyAt);
  if (bytes <= inlineBytes) {
    sink.take(0, in.header.data, bytes);
    return Wait::Ready;
  }
  if (!sink.combine) { // straight into place
    std::vector<MPI_Request> requests;
    for (int64_t at = 0; at < bytes; at += pieceBytes) {
      requests.emplace_back();
      mpi.Irecv(static_cast<char *>(sink.target) + at,
                static_cast<int>(std::min(pieceBytes, bytes - at)), mpi.byte,
                peer, DataTag, communicator, &requests.back());
    }
    size_t done = 0;
    const Wait wait = waitUntil(deadline, [&] {
      while (done < requests.size() && test(requests[done]))
        ++done;
      return done == requests.size();
    });
    for (; done < requests.size(); ++done) // the memory is the caller's again
      giveUp(requests[done]);
    return wait;
  }
  // One piece travels while the one before is added.
  bounce.resize(static_cast<size_t>(2 * pieceBytes));
  MPI_Request requests[2] = {mpi.requestNull, mpi.requestNull};
  auto start = [&](int64_t at) {
    const int64_t index = at / pieceBytes % 2;
    mpi.Irecv(bounce.data() + index * pieceBytes,
              static_cast<int>(std::min(pieceBytes, bytes - at)), mpi.byte,
              peer, DataTag, communicator, &requests[index]);
  };
  start(0);
  for (int64_t at = 0; at < bytes; at += pieceBytes) {
    if (at + pieceBytes < bytes)
      start(at + pieceBytes);
    const int64_t index = at / pieceBytes % 2;
    const Wait wait =
        waitUntil(deadline, [&] { return test(requests[index]); });
    if (wait != Wait::Ready) {
      for (MPI_Request &request : requests)
        giveUp(request);
      return wait;
    }
    sink.take(at, bounce.data() + index * pieceBytes,
              std::min(pieceBytes, bytes - at));
  }
  return Wait::Ready;
}

Wait MpiTransport::drain(Deadline deadline, std::vector<int> &pending) {
  const Wait wait = waitUntil(deadline, [&] {
    while (!outgoing.empty()) {
      auto &requests = outgoing.front().requests;
      while (!requests.empty() && test(requests.back()))
        requests.pop_back();
      if (!requests.empty())
        return false;
      outgoing.pop_front();
    }
    return true;
  });
  pending.clear();
  for (const Outgoing &out : outgoing)
    if (std::find(pending.begin(), pending.end(), out.peer) == pending.end())
      pending.push_back(out.peer);
  return wait;
}

bool MpiTransport::poison(const std::string &text) {
  if (isPoisoned())
    return false;
  poisonedFlag = true;
  message = text;
  const int32_t sender = getRank();
  poisonOut.resize(sizeof(sender));
  std::memcpy(poisonOut.data(), &sender, sizeof(sender));
  poisonOut.insert(poisonOut.end(), text.begin(), text.end());
  poisonOut.resize(std::min<size_t>(poisonOut.size(), poisonBytes - 1));
  poisonOut.push_back(0);
  for (int peer = 0; peer < getSize(); ++peer) {
    if (peer == getRank())
      continue;
    poisonSends.emplace_back();
    mpi.Isend(poisonOut.data(), static_cast<int>(poisonOut.size()), mpi.byte,
              peer, PoisonTag, communicator, &poisonSends.back());
  }
  // Short messages leave at once; a little progress helps those that do not.
  const Deadline until = Clock::now() + crossing;
  for (int i = 0; i < 100 || (getRank() > 0 && Clock::now() < until); ++i) {
    for (MPI_Request &request : poisonSends)
      test(request);
    std::string other;
    const int from = takePoison(other);
    if (from >= 0 && from < getRank()) {
      message = other;
      return false;
    }
    if (from >= 0)
      awaitPoison();
    else
      sched_yield();
  }
  return true;
}

} // namespace shardwright::runtime
