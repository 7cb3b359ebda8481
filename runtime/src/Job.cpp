//===- Job.cpp - Runs a function on every rank ----------------------------===//
#include "runtime/src/Job.h"
#include "runtime/src/backend/host/HostTransport.h"
#include "runtime/src/compute/Blas.h"

#include <system_error>
#include <thread>

namespace shardwright::runtime {
namespace {

/// Outlives runOnThreads when a rank is stuck: threads share its ownership.
struct ThreadJob {
  explicit ThreadJob(const JobOptions &options, RankFunction function)
      : options(options), function(std::move(function)),
        world(std::make_shared<HostWorld>(
            static_cast<int>(options.mesh.ranks()))),
        done(static_cast<size_t>(options.mesh.ranks()), false),
        status(done.size(), SW_RT_OK), message(done.size()) {}
  JobOptions options;
  RankFunction function;
  std::shared_ptr<HostWorld> world;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done;
  std::vector<sw_rt_status> status;
  std::vector<std::string> message;
  bool failed = false, keepsDevice = false;
};

void runRank(const std::shared_ptr<ThreadJob> &job, int rank) {
  auto context = std::make_unique<sw_rt_context>(
      job->options.mesh,
      std::make_unique<HostTransport>(job->world, rank, job->options.link),
      job->options.timeoutSeconds);
  context->localRank = rank;
  const int64_t threads =
      job->options.threads ? job->options.threads : coresOfProcess();
  context->pool.resize(static_cast<int>(threads / job->options.mesh.ranks()));
  sw_rt_status status = runOnDevice(job->options, *context, job->function);
  std::string message = context->error;
  const bool keepsDevice = !context->device;
  context.reset();
  std::lock_guard<std::mutex> lock(job->mutex);
  const size_t index = static_cast<size_t>(rank);
  job->done[index] = true;
  job->status[index] = status;
  job->message[index] = std::move(message);
  job->failed = job->failed || status != SW_RT_OK;
  job->keepsDevice = job->keepsDevice || keepsDevice;
  job->changed.notify_all();
}

} // namespace

/// Keeps `device` until the process ends, where leak checkers still see it.
static void keep(std::unique_ptr<Device> device) {
  static std::mutex mutex;
  static auto &kept = *new std::vector<std::unique_ptr<Device>>;
  std::lock_guard<std::mutex> lock(mutex);
  kept.push_back(std::move(device));
}

sw_rt_status runOnDevice(const JobOptions &options, sw_rt_context &context,
                         const RankFunction &function) {
  sw_rt_status status = SW_RT_OK;
  try {
    if (options.openDevice) {
      std::string why;
      status = SW_RT_UNSUPPORTED;
      auto device = options.openDevice(context, status, why);
      if (!device)
        return context.fail(status, why);
      context.device = std::move(device);
    }
    status = function(context);
  } catch (const std::bad_alloc &) {
    status = context.fail(SW_RT_OUT_OF_MEMORY,
                          "expected memory for rank " +
                              std::to_string(context.rank()) +
                              " to suffice, but an allocation failed");
  }
  // A status without a poison would leave the others waiting.
  if (status != SW_RT_OK && context.status == SW_RT_OK)
    status = context.fail(status,
                          "rank " + std::to_string(context.rank()) + " failed");
  if (status != SW_RT_OK && context.device->abandon())
    keep(std::move(context.device));
  return status;
}

JobResult runOnThreads(const JobOptions &options, const RankFunction &function,
                       double graceSeconds) {
  const int ranks = static_cast<int>(options.mesh.ranks());
  useBlasOnCallingThread();
  auto job = std::make_shared<ThreadJob>(options, function);
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(runRank, job, rank);
  } catch (const std::system_error &error) {
    JobResult result;
    result.status = SW_RT_OUT_OF_MEMORY;
    result.message = "expected " + std::to_string(ranks) +
                     " threads, one a rank, but the system gave " +
                     std::to_string(threads.size()) + ": " +
                     error.code().message();
    for (std::thread &thread : threads) {
      thread.detach(); // it waits for those that never come
      result.stuck.push_back(static_cast<int>(result.stuck.size()));
    }
    return result;
  }

  auto allDone = [&] {
    for (bool done : job->done)
      if (!done)
        return false;
    return true;
  };
  JobResult result;
  {
    std::unique_lock<std::mutex> lock(job->mutex);
    job->changed.wait(lock, [&] { return job->failed || allDone(); });
    if (job->failed)
      job->changed.wait_until(lock, deadlineIn(graceSeconds), allDone);
    result.keepsDevice = job->keepsDevice;
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t index = static_cast<size_t>(rank);
      if (!job->done[index])
        result.stuck.push_back(rank);
      else if (job->status[index] != SW_RT_OK &&
               (result.status == SW_RT_OK || result.status == SW_RT_ABORTED)) {
        result.status = job->status[index];
        result.message = job->message[index];
      }
    }
  }
  // Only threads that were done above are waited for.
  for (int rank : result.stuck)
    threads[static_cast<size_t>(rank)].detach();
  for (std::thread &thread : threads)
    if (thread.joinable())
      thread.join();
  return result;
}

} // namespace shardwright::runtime
