//===- SocketWorld.cpp - Processes that find each other over TCP ----------===//
#include "runtime/src/backend/socket/SocketWorld.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardwright::runtime {
namespace {

/// First bytes of every connection.
struct Hello {
  char magic[8];
  int32_t rank, size;
  uint32_t generation; ///< 0: to rank 0's meeting point
  uint32_t channel;    ///< 0 data, 1 control
  uint32_t port;       ///< at which the rank listens, network order
  uint32_t reserved;
};
constexpr char magic[8] = {'s', 'h', 'a', 'r', 'd', 'w', 'r', '1'};

int millisecondsTo(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

bool ready(int socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const int count = poll(&entry, 1, millisecondsTo(deadline));
    if (count > 0)
      return true;
    if (count == 0 || errno != EINTR)
      return false;
  }
}

bool transferAll(int socket, void *data, size_t bytes, bool sends,
                 Deadline deadline) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t moved = sends ? send(socket, at, bytes, MSG_NOSIGNAL)
                                : recv(socket, at, bytes, 0);
    if (moved > 0) {
      at += moved;
      bytes -= static_cast<size_t>(moved);
    } else if (moved < 0 && errno == EINTR) {
      continue;
    } else if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!ready(socket, sends ? POLLOUT : POLLIN, deadline))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

void prepare(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

/// Connects, again and again until somebody listens there.
int connectTo(const sockaddr_in &address, Deadline deadline) {
  for (;;) {
    const int it = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (it < 0)
      return -1;
    prepare(it);
    int error = 0;
    if (::connect(it, reinterpret_cast<const sockaddr *>(&address),
                  sizeof(address)) != 0)
      error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof(error);
      if (!ready(it, POLLOUT, deadline) ||
          getsockopt(it, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = ETIMEDOUT;
    }
    if (error == 0)
      return it;
    close(it);
    if (Clock::now() >= deadline)
      return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int acceptOne(int listener, Deadline deadline) {
  while (ready(listener, POLLIN, deadline)) {
    const int it = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (it >= 0) {
      prepare(it);
      return it;
    }
    if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
      break;
  }
  return -1;
}

bool resolve(const std::string &host, int port, sockaddr_in &address,
             std::string &why) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    why = "expected the host of rank 0, '" + host +
          "', to have an address, but got: " + gai_strerror(error);
    return false;
  }
  std::memcpy(&address, list->ai_addr, sizeof(address));
  freeaddrinfo(list);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return true;
}

int listenAt(uint16_t port, uint16_t &given, std::string &why) {
  const int it = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  socklen_t length = sizeof(address);
  if (it >= 0 &&
      setsockopt(it, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
      bind(it, reinterpret_cast<sockaddr *>(&address), length) == 0 &&
      listen(it, 1024) == 0 &&
      getsockname(it, reinterpret_cast<sockaddr *>(&address), &length) == 0) {
    prepare(it);
    given = ntohs(address.sin_port);
    return it;
  }
  why = "expected to listen at TCP port " + std::to_string(port) +
        ", but the system refused: " + std::strerror(errno);
  if (it >= 0)
    close(it);
  return -1;
}

std::string namesOf(const std::vector<int> &ranks) {
  std::string names = ranks.size() > 1 ? "ranks " : "rank ";
  for (size_t i = 0; i < ranks.size() && i < 8; ++i)
    names += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8)
    names += " and " + std::to_string(ranks.size() - 8) + " more";
  return names;
}

} // namespace

SocketWorld::~SocketWorld() {
  for (const Early &it : early)
    close(it.socket);
  if (listener >= 0)
    close(listener);
}

bool SocketWorld::open(const Launch &told, Deadline deadline,
                       std::string &why) {
  launch = told;
  const size_t size = static_cast<size_t>(launch.size);
  addresses.assign(size, {});
  uint16_t port = 0;
  listener = listenAt(launch.rank == 0 ? static_cast<uint16_t>(launch.port)
                                       : uint16_t(0),
                      port, why);
  if (listener < 0)
    return false;
  const std::string where =
      "'" + launch.host + "' port " + std::to_string(launch.port);
  if (launch.rank != 0) {
    sockaddr_in address{};
    if (!resolve(launch.host, launch.port, address, why))
      return false;
    const int it = connectTo(address, deadline);
    Hello hello{{}, launch.rank, launch.size, 0, 0, htons(port), 0};
    std::memcpy(hello.magic, magic, sizeof(magic));
    const bool met = it >= 0 &&
                     transferAll(it, &hello, sizeof(hello), true, deadline) &&
                     transferAll(it, addresses.data(), size * sizeof(Address),
                                 false, deadline);
    if (it >= 0)
      close(it);
    if (!met) {
      why = "expected rank 0 to answer at " + where + ", but rank " +
            std::to_string(launch.rank) + " waited in vain";
      return false;
    }
    // Rank 0 is where it was met.
    addresses[0] = {address.sin_addr.s_addr, address.sin_port, 0};
    return true;
  }
  std::vector<int> sockets(size, -1);
  auto closeAll = [&] {
    for (int it : sockets)
      if (it >= 0)
        close(it);
  };
  for (size_t missing = size - 1; missing > 0;) {
    const int it = acceptOne(listener, deadline);
    if (it < 0) {
      std::vector<int> absent;
      for (size_t i = 1; i < size; ++i)
        if (sockets[i] < 0)
          absent.push_back(static_cast<int>(i));
      why = "expected " + namesOf(absent) + " to join rank 0 at " + where +
            ", but rank 0 waited in vain";
      closeAll();
      return false;
    }
    Hello hello{};
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const bool sane =
        transferAll(it, &hello, sizeof(hello), false,
                    std::min(deadline, deadlineIn(5))) &&
        std::memcmp(hello.magic, magic, sizeof(magic)) == 0 &&
        hello.generation == 0 &&
        getpeername(it, reinterpret_cast<sockaddr *>(&from), &length) == 0;
    if (!sane) { // somebody else's connection
      close(it);
      continue;
    }
    if (hello.size != launch.size || hello.rank <= 0 ||
        hello.rank >= launch.size ||
        sockets[static_cast<size_t>(hello.rank)] >= 0) {
      why = "expected ranks 1 to " + std::to_string(launch.size - 1) + " of " +
            std::to_string(launch.size) + " once each, but got rank " +
            std::to_string(hello.rank) + " of " + std::to_string(hello.size);
      close(it);
      closeAll();
      return false;
    }
    const size_t rank = static_cast<size_t>(hello.rank);
    sockets[rank] = it;
    addresses[rank] = {from.sin_addr.s_addr, static_cast<uint16_t>(hello.port),
                       0};
    --missing;
  }
  bool told_all = true;
  for (size_t i = 1; i < size; ++i)
    told_all = transferAll(sockets[i], addresses.data(), size * sizeof(Address),
                           true, deadline) &&
               told_all;
  closeAll();
  if (!told_all)
    why = "expected all ranks to stay while they meet, but a connection to "
          "rank 0 closed";
  return told_all;
}

bool SocketWorld::connect(int size, Deadline deadline, Mesh &mesh,
                          std::string &why) {
  ++generation;
  const int me = launch.rank;
  if (me >= size)
    return true;
  mesh.data.assign(static_cast<size_t>(size), -1);
  mesh.control = mesh.data;
  auto fail = [&](const std::vector<int> &absent) {
    why = "expected " + namesOf(absent) + " to connect with rank " +
          std::to_string(me) + ", but it waited in vain";
    for (std::vector<int> *list : {&mesh.data, &mesh.control})
      for (int it : *list)
        if (it >= 0)
          close(it);
    return false;
  };
  // To the lower ranks ...
  for (int peer = 0; peer < me; ++peer) {
    const Address &at = addresses[static_cast<size_t>(peer)];
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = at.host;
    address.sin_port = at.port;
    for (uint32_t channel : {0u, 1u}) {
      const int it = connectTo(address, deadline);
      Hello hello{{}, me, launch.size, generation, channel, 0, 0};
      std::memcpy(hello.magic, magic, sizeof(magic));
      if (it < 0 || !transferAll(it, &hello, sizeof(hello), true, deadline)) {
        if (it >= 0)
          close(it);
        return fail({peer});
      }
      (channel ? mesh.control : mesh.data)[static_cast<size_t>(peer)] = it;
    }
  }
  // ... and from the higher ones.
  int missing = 2 * (size - me - 1);
  auto take = [&](uint32_t channel, int rank, int it) {
    int &place =
        (channel ? mesh.control : mesh.data)[static_cast<size_t>(rank)];
    if (rank <= me || rank >= size || place >= 0) {
      close(it);
      return;
    }
    place = it;
    --missing;
  };
  std::vector<Early> later;
  for (const Early &it : early) {
    if (it.generation > generation)
      later.push_back(it);
    else
      take(it.channel, it.rank, it.socket);
  }
  early = std::move(later);
  while (missing > 0) {
    const int it = acceptOne(listener, deadline);
    if (it < 0) {
      std::vector<int> absent;
      for (int peer = me + 1; peer < size; ++peer)
        if (mesh.control[static_cast<size_t>(peer)] < 0 ||
            mesh.data[static_cast<size_t>(peer)] < 0)
          absent.push_back(peer);
      return fail(absent);
    }
    Hello hello{};
    if (!transferAll(it, &hello, sizeof(hello), false,
                     std::min(deadline, deadlineIn(5))) ||
        std::memcmp(hello.magic, magic, sizeof(magic)) != 0 ||
        hello.generation < generation || hello.channel > 1)
      close(it);
    else if (hello.generation > generation)
      early.push_back({hello.generation, hello.channel, hello.rank, it});
    else
      take(hello.channel, hello.rank, it);
  }
  // Nobody starts before those it connected to are there: deadlines count from
  // then.
  char token = 1;
  for (int peer = me + 1; peer < size; ++peer)
    if (!transferAll(mesh.control[static_cast<size_t>(peer)], &token, 1, true,
                     deadline))
      return fail({peer});
  for (int peer = 0; peer < me; ++peer)
    if (!transferAll(mesh.control[static_cast<size_t>(peer)], &token, 1, false,
                     deadline))
      return fail({peer});
  return true;
}

} // namespace shardwright::runtime
