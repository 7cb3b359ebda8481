//===- Harness.cpp - Runs a test body on every rank of a mesh -------------===//
#include "runtime/cts/Harness.h"
#include "runtime/src/backend/cuda/OpenCudaDevice.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>

namespace shardwright::runtime::cts {
namespace {

/// Size of the MPI job this process is in, joined at the first call.
int joinedWorld() {
  static const int size = [] {
    if (mpiWorldSize() == 0)
      return 0;
    int rank = 0, size = 0;
    std::string why;
    if (!startMpi(rank, size, why)) {
      std::fprintf(stderr, "%s\n", why.c_str());
      std::exit(1);
    }
    std::atexit(stopMpi);
    return size;
  }();
  return size;
}

/// Size of the socket job this process is in, joined at the first call.
int joinedSockets() {
  static const int size = [] {
    int rank = 0, size = 0;
    std::string why;
    const int told = socketWorldSize(why);
    if (told == 0)
      return 0;
    if (told < 0 || !startSockets(60, rank, size, why)) {
      std::fprintf(stderr, "%s\n", why.c_str());
      std::exit(1);
    }
    return size;
  }();
  return size;
}

std::unique_ptr<Device> openCuda(sw_rt_context &context, sw_rt_status &failure,
                                 std::string &why) {
  DeviceOptions options;
  options.collectivesOfOne = true;
  return openCudaDevice(context, nullptr, options, failure, why);
}

JobResult run(JobOptions options, const RankFunction &function) {
  options.openDevice = testDevice();
  return joinedWorld()     ? runOnMpi(options, function)
         : joinedSockets() ? runOnSockets(options, function)
                           : runOnThreads(options, function);
}

} // namespace

DeviceFactory testDevice() {
  static const DeviceFactory factory = []() -> DeviceFactory {
    const char *name = std::getenv("SHARDWRIGHT_CTS_DEVICE");
    if (!name || std::string(name) == "host")
      return nullptr;
    JobOptions options{Mesh({{"tp", 1}}), 60};
    options.openDevice = openCuda;
    JobResult result;
    if (std::string(name) == "cuda")
      result = runOnThreads(options, [](sw_rt_context &) { return SW_RT_OK; });
    else
      result.message = std::string("expected SHARDWRIGHT_CTS_DEVICE to be "
                                   "'host' or 'cuda', but got '") +
                       name + "'";
    if (result.message.empty())
      return openCuda;
    std::fprintf(stderr, "error: %s\n", result.message.c_str());
    std::exit(3);
  }();
  return factory;
}

bool onHost() { return !testDevice(); }

void Checker::that(bool condition, const std::string &what) {
  if (condition)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (text.size() < 2000)
    text += what + "\n";
}

void Checker::equal(int64_t got, int64_t wanted, const std::string &what) {
  that(got == wanted, what + ": expected " + std::to_string(wanted) +
                          ", but got " + std::to_string(got));
}

std::string Checker::failures() {
  std::lock_guard<std::mutex> lock(mutex);
  return text;
}

bool onProcesses() { return joinedWorld() > 0 || joinedSockets() > 0; }
int maxRanks() {
  return joinedWorld()     ? joinedWorld()
         : joinedSockets() ? joinedSockets()
         : onHost()        ? 8
                           : std::min(8, gpuCount()); // one a thread
}

void onMesh(const std::vector<Mesh::Axis> &axes, const Body &body,
            LinkModel link) {
  JobOptions options{Mesh(axes), 60, link};
  if (options.mesh.ranks() > maxRanks())
    return;
  Checker checker;
  const JobResult result = run(options, [&](sw_rt_context &context) {
    body(context, checker);
    return context.status;
  });
  INFO("mesh " << options.mesh.text());
  CHECK(result.message == "");
  CHECK(result.status == SW_RT_OK);
  CHECK(checker.failures() == "");
}

JobResult
failingOnMesh(const std::vector<Mesh::Axis> &axes, double timeoutSeconds,
              const std::function<sw_rt_status(sw_rt_context &)> &body) {
  return run({Mesh(axes), timeoutSeconds}, body);
}

void checkMessage(const JobResult &result, const std::string &text) {
  if (result.onMesh)
    CHECK_THAT(result.message, Catch::Matchers::Contains(text));
}

} // namespace shardwright::runtime::cts
