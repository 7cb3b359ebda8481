//===- WorkerPool.h - The threads that one rank computes with ---*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_WORKERPOOL_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_WORKERPOOL_H

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace shardwright::runtime {

/// A rank's own thread and its helpers. Pieces of work are taken by whoever is
/// free, so a helper that the system gives no core to delays nobody; so no
/// result may depend on who runs a piece.
class WorkerPool {
public:
  WorkerPool() = default;
  ~WorkerPool();
  WorkerPool(const WorkerPool &) = delete;
  WorkerPool &operator=(const WorkerPool &) = delete;

  /// Number of threads, the caller's among them, from 1.
  void resize(int threads);
  int threads() const { return static_cast<int>(helpers.size()) + 1; }

  /// Calls function(index, worker) for every index below `count`, and returns
  /// when all are done. worker < threads(). Not to be called by a piece.
  template <typename Function>
  void run(int64_t count, const Function &function) {
    if (count <= 1 || helpers.empty()) {
      for (int64_t index = 0; index < count; ++index)
        function(index, 0);
      return;
    }
    runPieces(count,
              [](const void *callee, int64_t index, int worker) {
                (*static_cast<const Function *>(callee))(index, worker);
              },
              &function);
  }

private:
  using Piece = void (*)(const void *callee, int64_t index, int worker);
  void runPieces(int64_t count, Piece piece, const void *callee);
  void take(int worker);
  void help(int worker);
  void stop();

  std::vector<std::thread> helpers;
  std::mutex mutex;
  std::condition_variable started, left;
  std::atomic<uint64_t> job{0};    ///< number of the last one
  std::atomic<int64_t> next{0};    ///< piece of it
  std::atomic<int> inside{0};      ///< helpers that work on it
  bool open = false;               ///< it may be joined
  bool stopping = false;
  int64_t pieces = 0;
  Piece piece = nullptr;
  const void *callee = nullptr;
};

constexpr int64_t elementsOfRange = 1 << 16; ///< some 20 us of one core

/// Ranges that forEachRange makes of `count` elements. The same for any number
/// of threads.
inline int64_t rangesOf(int64_t count) {
  return (count + elementsOfRange - 1) / elementsOfRange;
}

/// Calls function(first, last) for the ranges that make up [0, count).
template <typename Function>
void forEachRange(WorkerPool &pool, int64_t count, const Function &function) {
  pool.run(rangesOf(count), [&](int64_t index, int) {
    const int64_t first = index * elementsOfRange;
    function(first, std::min(count, first + elementsOfRange));
  });
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_WORKERPOOL_H
