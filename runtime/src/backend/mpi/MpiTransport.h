//===- MpiTransport.h - Ranks as processes of an MPI job --------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPITRANSPORT_H
#define SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPITRANSPORT_H

#include "runtime/src/Transport.h"
#include "runtime/src/backend/mpi/MpiLibrary.h"

#include <deque>
#include <memory>

namespace shardwright::runtime {

/// A message is a header, which carries small payloads itself, and then pieces
/// of at most pieceBytes. Only non-blocking calls and MPI_Test are used, so
/// every wait sees its deadline and the poison of other ranks.
class MpiTransport final : public Transport {
public:
  static constexpr int64_t inlineBytes = 2048;
  static constexpr int64_t pieceBytes = 1 << 20;
  static constexpr int poisonBytes = 2048;

  /// Collective over MPI's world: duplicates its communicator.
  MpiTransport(const MpiLibrary &mpi, int rank, int size, LinkModel link);
  ~MpiTransport() override;

  void post(int peer, const Envelope &envelope, const void *data,
            int64_t bytes) override;
  Wait await(int peer, Deadline deadline, Envelope &envelope,
             int64_t &bytes) override;
  Wait consume(int peer, Deadline deadline, const Sink &sink) override;
  Wait drain(Deadline deadline, std::vector<int> &pending) override;
  bool arrived(int peer) override;
  bool poison(const std::string &message) override;
  std::string poisonMessage() override { return message; }
  bool isPoisoned() override;

private:
  enum Tag { HeaderTag = 1, DataTag = 2, PoisonTag = 3 };
  struct Header {
    Envelope envelope;
    int64_t bytes;
    int64_t readyAt;
    char data[inlineBytes];
  };
  /// The header that is awaited or has come from one peer.
  struct Incoming {
    Header header;
    MPI_Request request;
    bool posted = false, here = false;
  };
  struct Outgoing {
    int peer;
    std::vector<MPI_Request> requests;
    std::unique_ptr<Header> header;
  };

  bool test(MPI_Request &request);
  void awaitPoison();
  /// The rank whose poison has come, and its `text`; -1 if none has.
  int takePoison(std::string &text);
  /// Cancels a receive.
  void giveUp(MPI_Request &request);
  /// Tests until done() holds, yielding; looks for poison between.
  template <typename Done> Wait waitUntil(Deadline deadline, const Done &done);
  Incoming &incomingOf(int peer);

  const MpiLibrary &mpi;
  MPI_Comm communicator;
  std::vector<std::unique_ptr<Incoming>> incoming; ///< per peer, lazily
  std::deque<Outgoing> outgoing;
  std::vector<char> bounce; ///< two pieces that a reduction reads from
  std::vector<char> poisonIn, poisonOut;
  MPI_Request poisonRequest;
  std::vector<MPI_Request> poisonSends;
  bool poisonedFlag = false;
  std::string message;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPITRANSPORT_H
