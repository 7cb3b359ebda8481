//===- SocketWorld.h - Processes that find each other over TCP --*- C++ -*-===//
//
// For launchers that say who is who in the environment and bring no library:
// torchrun, Slurm's srun. Rank 0 listens at the address that all know; the
// others tell it where they listen, and get everybody's address back.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETWORLD_H
#define SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETWORLD_H

#include "runtime/src/Deadline.h"

#include <string>
#include <vector>

namespace shardwright::runtime {

/// What a launcher has told this process.
struct Launch {
  int rank = 0, size = 0, localRank = 0;
  std::string host; ///< of rank 0
  int port = 0;

  /// From torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT,
  /// or from srun's SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID and
  /// SLURM_STEP_NODELIST. Size is 0 if there is no launcher; false with `why`
  /// if what it says makes no sense.
  static bool read(Launch &launch, std::string &why);
};

/// First host of a Slurm node list: "gpu[03-07,9],x" gives "gpu03".
std::string firstSlurmHost(const std::string &list);

class SocketWorld {
public:
  ~SocketWorld();

  /// Meets the other processes. Returns false with `why`, which names ranks
  /// that did not come.
  bool open(const Launch &launch, Deadline deadline, std::string &why);
  const Launch &getLaunch() const { return launch; }

  /// Two connections to every other rank, -1 for this one.
  struct Mesh {
    std::vector<int> data, control;
  };
  /// Collective over all processes: new connections among ranks 0 .. size - 1.
  /// False with `why`.
  bool connect(int size, Deadline deadline, Mesh &mesh, std::string &why);

private:
  struct Address {
    uint32_t host; ///< network order
    uint16_t port;
    uint16_t reserved;
  };
  Launch launch;
  int listener = -1;
  uint32_t generation = 0; ///< of connect()
  /// Connections of ranks that are at a later generation already.
  struct Early {
    uint32_t generation, channel;
    int rank, socket;
  };
  std::vector<Early> early;
  std::vector<Address> addresses;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_SOCKET_SOCKETWORLD_H
