//===- FakeClique.h - Where members of a fake communicator meet -*- C++ -*-===//
//
// Members are threads of this process or, where FAKE_NCCL_FOLDER names a folder,
// processes that leave each other files there. Calls of a clique are numbered by
// each member on its own; a call is complete when all have handed in theirs.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKECLIQUE_H
#define SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKECLIQUE_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardwright::runtime::cts {

/// What one rank hands in.
struct FakeOffer {
  std::string kind; ///< must agree, with counts and types
  std::vector<char> input;
  std::map<int, std::vector<char>> messages; ///< by receiver
};

class FakeClique {
public:
  virtual ~FakeClique() = default;

  virtual void join(int rank, int size) = 0;
  virtual bool isWhole() = 0;
  virtual void handIn(uint64_t call, int rank, FakeOffer offer) = 0;
  /// What all members handed in, by rank; null while one has not.
  virtual std::shared_ptr<const std::vector<FakeOffer>>
  complete(uint64_t call) = 0;
  /// A member has taken what it came for.
  virtual void leave(uint64_t call, int rank) = 0;
  /// Fails for every member; its calls never end.
  virtual void fail() = 0;
  virtual bool hasFailed() = 0;
  virtual void abort() = 0;
  virtual bool isAborted() = 0;
};

/// A number that no other clique has, here or in another process.
uint64_t newFakeClique();
/// The clique of a number, the same for all its members.
std::shared_ptr<FakeClique> fakeClique(uint64_t number);

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKECLIQUE_H
