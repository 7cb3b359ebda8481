//===- Harness.h - Runs a test body on every rank of a mesh -----*- C++ -*-===//
//
// The same binary tests every backend: ranks are threads, or the processes of
// the MPI job that it was started in. Bodies run on many threads, where Catch2
// may not be used: they report to a Checker, which the main thread reads.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_HARNESS_H
#define SHARDWRIGHT_RUNTIME_CTS_HARNESS_H

#include "runtime/src/Job.h"

#include <mutex>
#include <string>
#include <vector>

namespace shardwright::runtime::cts {

class Checker {
public:
  void that(bool condition, const std::string &text);
  void equal(int64_t got, int64_t wanted, const std::string &text);
  std::string failures();

private:
  std::mutex mutex;
  std::string text;
};

/// Ranks that tests may use: those of the MPI job, or 8 threads.
int maxRanks();
bool onMpi();

using Body = std::function<void(sw_rt_context &, Checker &)>;

/// Runs `body` on every rank and CHECKs that nothing failed. Skips meshes of
/// more than maxRanks().
void onMesh(const std::vector<Mesh::Axis> &axes, const Body &body,
            LinkModel link = {});
/// Runs a body that ends in a failure of the job; returns how.
JobResult failingOnMesh(const std::vector<Mesh::Axis> &axes,
                        double timeoutSeconds,
                        const std::function<sw_rt_status(sw_rt_context &)> &);

/// CHECKs that the job ended with a message that holds `text` (under MPI: every
/// process that was a rank of it).
void checkMessage(const JobResult &result, const std::string &text);

/// Small integers, exact in every dtype and in every sum tested here.
template <typename T> T pattern(int rank, int64_t index) {
  return static_cast<T>((rank * 31 + index * 7) % 41 - 20);
}

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_HARNESS_H
