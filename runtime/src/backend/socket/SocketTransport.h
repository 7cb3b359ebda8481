//===- SocketTransport.h - Ranks as processes joined by TCP -----*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETTRANSPORT_H
#define SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETTRANSPORT_H

#include "runtime/src/Transport.h"
#include "runtime/src/backend/socket/SocketWorld.h"

#include <deque>
#include <memory>

namespace shardwright::runtime {

/// A message is a header and its bytes on the data connection of a pair. The
/// control connections carry the poison; one that closes without a farewell is
/// a rank that is gone, and ends the job with its name.
class SocketTransport final : public Transport {
public:
  SocketTransport(SocketWorld::Mesh mesh, int rank, LinkModel link);
  ~SocketTransport() override;

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
  bool foundLoss() const override { return reportsLoss; }

private:
  struct Header {
    Envelope envelope;
    int64_t bytes;
    int64_t readyAt; ///< of the emulated link, in the clock of one host
  };
  struct Outgoing {
    Header header;
    const char *data;
    int64_t sent = 0; ///< of header and data
  };
  struct Peer {
    int data = -1, control = -1;
    std::deque<Outgoing> outgoing;
    Header incoming{};
    int64_t received = 0;      ///< bytes of `incoming`
    std::string heard;         ///< on the control connection
    bool saidFarewell = false; ///< nothing more comes on `control`
    bool isLost = false;
    bool hasHeader() const {
      return received == static_cast<int64_t>(sizeof(Header));
    }
  };

  /// Moves bytes until done() holds: what waits to be sent, and the next
  /// header or bytes of `reads`.
  template <typename Done>
  Wait progress(int reads, Deadline deadline, const Done &done);
  void sendMore(Peer &peer);
  void readHeader(int rank);
  void listen(int rank);
  /// Reads what has come on `rank`'s control connection. Returns false at its
  /// end.
  bool hear(int rank);
  /// Whether a whole poison was heard of `peer`: takes its message. Returns the
  /// rank whose loss is the reason, -1 for another one.
  bool takePoison(const Peer &peer, int &gone);
  /// Whether a lower rank ended the job before it heard that this one did.
  bool wasCrossed();
  void lost(int rank);
  void learnLoss(int rank);
  /// poison(); `gone` is the rank whose loss is the reason, or -1.
  bool end(const std::string &text, int gone);

  std::vector<Peer> peers;
  std::vector<char> bounce; ///< a piece that a reduction reads from
  bool poisoned = false, reportsLoss = false;
  std::string message;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETTRANSPORT_H
