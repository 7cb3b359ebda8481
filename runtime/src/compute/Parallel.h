//===- Parallel.h - Independent pieces of work on several threads -*- C++ -*-=//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_PARALLEL_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_PARALLEL_H

#include <cstdint>
#include <thread>
#include <vector>

namespace shardwright::runtime {

/// Calls function(index, worker) for every index below `count`; worker w takes
/// w, w + threads, ... Results may not depend on which worker runs an index.
template <typename Function>
void parallelFor(int64_t count, int threads, const Function &function) {
  const int workers =
      static_cast<int>(count < threads ? (count > 0 ? count : 1) : threads);
  auto work = [&](int worker) {
    for (int64_t index = worker; index < count; index += workers)
      function(index, worker);
  };
  std::vector<std::thread> others;
  for (int worker = 1; worker < workers; ++worker)
    others.emplace_back(work, worker);
  work(0);
  for (std::thread &thread : others)
    thread.join();
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_PARALLEL_H
