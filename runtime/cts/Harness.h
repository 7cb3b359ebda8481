//===- Harness.h - Runs a test body on every rank of a mesh -----*- C++ -*-===//
//
// The same binary tests every backend: ranks are threads, or the processes of
// the MPI job, or of the torchrun or srun job, that it was started in. Bodies
// run on many threads, where Catch2 may not be used: they report to a Checker,
// which the main thread reads.
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

/// Ranks that tests may use: those of the job, or 8 threads.
int maxRanks();
bool onProcesses();

/// The device that tests run on: the host's, or what SHARDWRIGHT_CTS_DEVICE
/// names ("cuda"). A machine that lacks it ends the program with one line and
/// exit code 3.
DeviceFactory testDevice();
bool onHost();
/// Factor of tolerances of floating-point results: a device adds in an order of
/// its own.
inline double slack() { return onHost() ? 1 : 8; }

/// Values on the device of a rank. data() is what calls take.
template <typename T> class Buffer {
public:
  Buffer(sw_rt_context &context, std::vector<T> start)
      : context(context), values(std::move(start)) {
    if (context.device->isHost())
      return;
    std::string why;
    if (!memory.create(*context.device, bytes(), why))
      context.fail(SW_RT_OUT_OF_MEMORY, why);
    else
      context.device->toDevice(memory.at(), values.data(), bytes());
  }
  T *data() {
    return context.device->isHost() ? values.data()
                                    : reinterpret_cast<T *>(memory.at());
  }
  /// What the device holds now.
  std::vector<T> &read() {
    if (!context.device->isHost())
      context.device->toHost(values.data(), memory.at(), bytes());
    return values;
  }

private:
  int64_t bytes() const {
    return static_cast<int64_t>(values.size() * sizeof(T));
  }
  sw_rt_context &context;
  std::vector<T> values;
  DeviceMemory memory;
};

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
