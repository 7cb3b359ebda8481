//===- GpuCollectives.cpp - Collectives of GPU memory by NCCL -------------===//
#include "runtime/src/backend/cuda/GpuCollectives.h"
#include "runtime/src/Exchange.h"
#include "runtime/src/backend/cuda/MemoryBesideArena.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace shardwright::runtime {
namespace {

bool ncclType(sw_rt_dtype dtype, ncclDataType_t &type) {
  switch (dtype) {
  case SW_RT_F64:
    type = ncclFloat64;
    return true;
  case SW_RT_F32:
    type = ncclFloat32;
    return true;
  case SW_RT_BF16:
    type = ncclBfloat16;
    return true;
  case SW_RT_F16:
    type = ncclFloat16;
    return true;
  case SW_RT_I32:
    type = ncclInt32;
    return true;
  }
  return false;
}

/// Calls that are remembered for messages about what has not ended.
constexpr size_t mostRemembered = 4096;

/// How long abort() waits: the ranks that only hear of a failure end two seconds
/// later, and launchers then end the one that reports it.
constexpr double abortSeconds = 1;

/// Shared with the threads that abort: one may never come back.
struct Aborts {
  std::mutex mutex;
  std::condition_variable changed;
  size_t left = 0;
};

} // namespace

GpuCollectives::~GpuCollectives() {
  // After a failure peers may be gone: only an abort is sure to return.
  if (context.status != SW_RT_OK)
    abort();
  dropGraph();
  const CudaDriver &driver = gpu.getDriver();
  for (auto &[key, channel] : channels) {
    if (channel.communicator)
      nccl->ncclCommDestroy(channel.communicator);
    for (CUevent event : {channel.before, channel.after})
      if (event)
        driver.cuEventDestroy(event);
    if (channel.stream)
      driver.cuStreamDestroy(channel.stream);
  }
  for (const InFlight &call : inFlight)
    driver.cuEventDestroy(call.event);
  for (CUevent event : spare)
    driver.cuEventDestroy(event);
}

void GpuCollectives::dropGraph() {
  if (graph)
    gpu.getDriver().cuGraphExecDestroy(graph);
  graph = nullptr;
}

// An abort waits until the GPU is idle, though the communicator is a non-blocking
// one: one after the other, the first would wait for the kernels of the next, for
// ever. As a group they may be aborted from NCCL 2.22 on; threads do with all.
// Sources: ncclCommAbort and ncclAsyncLaunch of NCCL 2.18 to 2.30;
// github.com/NVIDIA/nccl/issues/1013.
void GpuCollectives::abort() {
  dropGraph();
  const auto aborts = std::make_shared<Aborts>();
  for (auto &[key, channel] : channels) {
    if (!channel.communicator)
      continue;
    const auto end = [aborts, abortOne = nccl->ncclCommAbort,
                      communicator = channel.communicator] {
      abortOne(communicator);
      std::lock_guard<std::mutex> lock(aborts->mutex);
      --aborts->left;
      aborts->changed.notify_all();
    };
    channel.communicator = nullptr;
    std::lock_guard<std::mutex> lock(aborts->mutex);
    try {
      std::thread(end).detach();
      ++aborts->left;
    } catch (const std::system_error &) {
      // No thread to be had: the end of the process is this one's, too.
    }
  }
  std::unique_lock<std::mutex> lock(aborts->mutex);
  aborts->changed.wait_until(lock, deadlineIn(abortSeconds),
                             [&] { return aborts->left == 0; });
}

sw_rt_status GpuCollectives::check(ncclResult_t result, const char *call,
                                   Channel &channel) {
  if (result == ncclSuccess)
    return SW_RT_OK;
  return failed(result, call, channel,
                (channel.last.empty() ? "its communicator" : channel.last) +
                    " of " + channel.ranks);
}

sw_rt_status GpuCollectives::failed(ncclResult_t result, const char *call,
                                    Channel &channel, const std::string &what) {
  const char *last = nccl->ncclGetLastError(channel.communicator);
  const std::string more = last && *last ? std::string(": ") + last : "";
  const sw_rt_status status = context.fail(
      SW_RT_TIMEOUT, "expected " + what + " to work, but NCCL on rank " +
                         std::to_string(context.rank()) + " says " + call +
                         ": " + nccl->ncclGetErrorString(result) + more);
  abort();
  return status;
}

sw_rt_status GpuCollectives::settle(ncclResult_t result, const char *call,
                                    Channel &channel) {
  const Deadline deadline = deadlineIn(context.timeoutSeconds);
  while (result == ncclInProgress) {
    ncclResult_t state = ncclSuccess;
    if (ncclResult_t asked =
            nccl->ncclCommGetAsyncError(channel.communicator, &state);
        asked != ncclSuccess)
      return check(asked, "ncclCommGetAsyncError", channel);
    if (state != ncclInProgress)
      return check(state, call, channel);
    if (context.transport->isPoisoned()) {
      const sw_rt_status status =
          context.failPoisoned(std::string(call) + " of " + channel.ranks);
      abort();
      return status;
    }
    if (Clock::now() >= deadline) {
      char seconds[32];
      std::snprintf(seconds, sizeof(seconds), "%g", context.timeoutSeconds);
      const sw_rt_status status = context.fail(
          SW_RT_TIMEOUT, std::string("expected ") + call + " of " +
                             channel.ranks + " to return within " + seconds +
                             " s, but rank " + std::to_string(context.rank()) +
                             " waited in vain");
      abort();
      return status;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return check(result, call, channel);
}

sw_rt_status GpuCollectives::open(Channel &channel,
                                  const std::vector<int> &members, int me) {
  for (int member : members)
    channel.ranks +=
        (channel.ranks.empty() ? "ranks " : ", ") + std::to_string(member);
  const CudaDriver &driver = gpu.getDriver();
  if (sw_rt_status status = gpu.check(
          driver.cuStreamCreate(&channel.stream, CU_STREAM_NON_BLOCKING),
          "cuStreamCreate"))
    return status;
  for (CUevent *event : {&channel.before, &channel.after})
    if (sw_rt_status status =
            gpu.check(driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING),
                      "cuEventCreate"))
      return status;
  ncclUniqueId id{};
  static_assert(sizeof(id) % 2 == 0, "transfers are of two-byte elements");
  if (me == 0) {
    if (ncclResult_t result = nccl->ncclGetUniqueId(&id); result != ncclSuccess)
      return check(result, "ncclGetUniqueId", channel);
    for (size_t i = 1; i < members.size(); ++i)
      if (sw_rt_status status =
              sendUnbooked(context, members[i], &id, sizeof(id)))
        return status;
  } else if (sw_rt_status status =
                 receiveUnbooked(context, members[0], &id, sizeof(id))) {
    return status;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = ncclChannels;
  return settle(nccl->ncclCommInitRankConfig(&channel.communicator,
                                             static_cast<int>(members.size()),
                                             id, me, &config),
                "ncclCommInitRankConfig", channel);
}

GpuCollectives::Channel *
GpuCollectives::channelOf(const std::vector<int> &members, int me,
                          bool directed) {
  std::vector<int> key = members;
  key.push_back(directed ? 1 : 0);
  auto [at, isNew] = channels.try_emplace(key);
  if (isNew && open(at->second, members, me) != SW_RT_OK)
    return nullptr;
  return &at->second;
}

sw_rt_status GpuCollectives::run(const CollectiveCall &call) {
  if (call.call == Call::Barrier)
    return barrier(context, *call.group);
  const bool isTransfer = call.call == Call::Send || call.call == Call::Recv;
  Group pair;
  if (isTransfer)
    if (sw_rt_status status = makePair(context, call.call, call.peer, pair))
      return status;
  Group &group = isTransfer ? pair : *call.group;
  Exchange exchange(context, group, isTransfer ? Call::Send : call.call,
                    call.dtype, call.op, call.count);
  if (sw_rt_status status = exchange.begin(/*book=*/!isTransfer))
    return status;
  if (isTransfer)
    context.ledger.add(call.call, group.axesName, context.phase,
                       call.count * exchange.width());
  if (call.call == Call::ReduceScatter || call.call == Call::AllToAll)
    if (sw_rt_status status = exchange.wantDivisible())
      return status;
  const int64_t width = exchange.width();
  if (exchange.size() == 1 && !always)
    return gpu.copy(call.output, call.input, call.count * width);
  if (!nccl)
    return context.fail(SW_RT_UNSUPPORTED, whyNot);
  if (call.call == Call::AllToAll && call.input == call.output &&
      call.count > 0)
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected output of all_to_all to differ from its "
                        "input, but got the same buffer");
  if (checked)
    if (sw_rt_status status = call.call == Call::Recv ? exchange.hear()
                              : isTransfer            ? exchange.tell()
                                                      : exchange.meet()) {
      abort(); // earlier calls may wait for who is absent
      return status;
    }
  if (call.count == 0)
    return SW_RT_OK;
  // A pair is directed: the sender comes first.
  std::vector<int> members = group.members;
  int me = group.me;
  if (call.call == Call::Recv) {
    members = {call.peer, context.rank()};
    me = 1;
  }
  Channel *channel = channelOf(members, me, isTransfer);
  if (!channel)
    return context.status;
  channel->last = exchange.text();
  const CudaDriver &driver = gpu.getDriver();
  if (sw_rt_status status =
          gpu.check(driver.cuEventRecord(channel->before, gpu.getStream()),
                    "cuEventRecord"))
    return status;
  if (sw_rt_status status = waitFor(channel->stream, channel->before))
    return status;
  // A call of a lane uses what the one before it made.
  Channel *&newest = underWay[call.lane];
  if (newest && newest != channel)
    if (sw_rt_status status = waitFor(channel->stream, newest->after))
      return status;
  if (sw_rt_status status = enqueue(call, *channel, width, exchange.size(), me))
    return status;
  if (sw_rt_status status = remember(*channel))
    return status;
  if (sw_rt_status status =
          gpu.check(driver.cuEventRecord(channel->after, channel->stream),
                    "cuEventRecord"))
    return status;
  ++taken;
  newest = channel;
  return call.lane == Lane::None ? await(Lane::None) : SW_RT_OK;
}

sw_rt_status GpuCollectives::waitFor(CUstream stream, CUevent event) {
  return gpu.check(gpu.getDriver().cuStreamWaitEvent(stream, event, 0),
                   "cuStreamWaitEvent");
}

// The channel's event is that of its newest call, which may be of another lane:
// then the stream waits for more than it must, never for less.
sw_rt_status GpuCollectives::await(Lane lane) {
  const auto at = underWay.find(lane);
  if (at == underWay.end() || !at->second)
    return SW_RT_OK;
  const Channel *channel = at->second;
  at->second = nullptr;
  return waitFor(gpu.getStream(), channel->after);
}

sw_rt_status GpuCollectives::enqueue(const CollectiveCall &call,
                                     Channel &channel, int64_t width,
                                     int members, int me) {
  ncclDataType_t type;
  if (!ncclType(call.dtype, type))
    return context.fail(SW_RT_UNSUPPORTED,
                        "expected a collective of a type that NCCL has, but "
                        "got number " +
                            std::to_string(call.dtype));
  const ncclRedOp_t op = call.op == SW_RT_MAX ? ncclMax : ncclSum;
  const size_t count = static_cast<size_t>(call.count);
  const size_t part = count / static_cast<size_t>(members);
  // NCCL takes streams of cudart, which are the driver's.
  const cudaStream_t stream = reinterpret_cast<cudaStream_t>(channel.stream);
  ncclComm_t communicator = channel.communicator;
  switch (call.call) {
  case Call::AllReduce:
    return settle(nccl->ncclAllReduce(call.input, call.output, count, type, op,
                                      communicator, stream),
                  "ncclAllReduce", channel);
  case Call::AllGather:
    return settle(nccl->ncclAllGather(call.input, call.output, count, type,
                                      communicator, stream),
                  "ncclAllGather", channel);
  case Call::ReduceScatter:
    return settle(nccl->ncclReduceScatter(call.input, call.output, part, type,
                                          op, communicator, stream),
                  "ncclReduceScatter", channel);
  case Call::AllToAll: {
    ncclResult_t result = nccl->ncclGroupStart();
    for (int peer = 0; peer < members && result == ncclSuccess; ++peer) {
      const int64_t offset =
          static_cast<int64_t>(part) * width * static_cast<int64_t>(peer);
      result = nccl->ncclSend(static_cast<const char *>(call.input) + offset,
                              part, type, peer, communicator, stream);
      if (result == ncclSuccess || result == ncclInProgress)
        result = nccl->ncclRecv(static_cast<char *>(call.output) + offset, part,
                                type, peer, communicator, stream);
      if (result == ncclInProgress)
        result = ncclSuccess;
    }
    const ncclResult_t ended = nccl->ncclGroupEnd();
    return settle(result == ncclSuccess ? ended : result, "ncclGroupEnd",
                  channel);
  }
  case Call::Send:
    return settle(
        nccl->ncclSend(call.input, count, type, 1 - me, communicator, stream),
        "ncclSend", channel);
  case Call::Recv:
    return settle(
        nccl->ncclRecv(call.output, count, type, 1 - me, communicator, stream),
        "ncclRecv", channel);
  case Call::Barrier:
    break;
  }
  return SW_RT_OK;
}

sw_rt_status GpuCollectives::remember(Channel &channel) {
  const std::string what = channel.last + " of " + channel.ranks;
  if (recording)
    return recorded.add(&channel, what, channel.stream);
  const CudaDriver &driver = gpu.getDriver();
  while (!inFlight.empty() &&
         (inFlight.size() >= mostRemembered ||
          driver.cuEventQuery(inFlight.front().event) == CUDA_SUCCESS)) {
    spare.push_back(inFlight.front().event);
    inFlight.pop_front();
  }
  CUevent event = nullptr;
  if (!spare.empty()) {
    event = spare.back();
    spare.pop_back();
  } else if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) !=
             CUDA_SUCCESS) {
    return SW_RT_OK; // a message will know less
  }
  if (driver.cuEventRecord(event, channel.stream) == CUDA_SUCCESS)
    inFlight.push_back({&channel, what, event});
  else
    spare.push_back(event);
  return SW_RT_OK;
}

std::string GpuCollectives::unfinished(const Channel *channel) {
  for (const InFlight &call : inFlight)
    if ((!channel || call.channel == channel) &&
        gpu.getDriver().cuEventQuery(call.event) == CUDA_ERROR_NOT_READY)
      return call.what;
  return recorded.unfinished(channel);
}

sw_rt_status GpuCollectives::checkAsync() {
  for (auto &[key, channel] : channels) {
    if (!channel.communicator)
      continue;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked =
        nccl->ncclCommGetAsyncError(channel.communicator, &state);
    if (asked != ncclSuccess)
      state = asked;
    if (state == ncclSuccess || state == ncclInProgress)
      continue;
    const std::string what = unfinished(&channel);
    return what.empty() ? check(state, "an asynchronous error", channel)
                        : failed(state, "an asynchronous error", channel, what);
  }
  return SW_RT_OK;
}

} // namespace shardwright::runtime
