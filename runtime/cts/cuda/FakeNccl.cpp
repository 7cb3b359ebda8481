//===- FakeNccl.cpp - NCCL between threads or processes -------------------===//
//
// Members of a communicator are threads or processes (FakeClique.h), each with a
// GPU of the fake driver. A call is an operation of its stream: it hands in what
// its rank gives, and is done when all members have. Sums are in the order of
// ranks, in f64.
//
// FAKE_NCCL_VERSION; FAKE_NCCL_ERROR=N: a communicator fails on its own at its
// call number N (ncclRemoteError), which never ends; FAKE_NCCL_REFUSE: calls are
// refused; FAKE_NCCL_STALL=N, FAKE_NCCL_DIE=N: the GPU of rank 1 of a communicator
// never begins its call number N (FAKE_NCCL_STALL_DIES=S: until its process is
// killed after S seconds), or its process is killed there;
// FAKE_NCCL_DIE_EARLY: it is killed before it joins. FAKE_LOG gets the names of
// calls that end a communicator. As NCCL's they wait, were it for ever, for all
// work on the GPU, also of other communicators, and for graphs that hold calls.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/FakeClique.h"
#include "runtime/cts/cuda/FakeStreams.h"

#include <cuda_bf16.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

using namespace shardwright::runtime::cts;

namespace {

struct Part {
  int peer;
  const void *source;
  void *target;
  size_t bytes;
};

/// What one rank calls.
struct NcclCall {
  std::string kind; ///< must agree, with counts and types
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  size_t count = 0;
  const void *input = nullptr;
  void *output = nullptr;
  std::vector<Part> sends, receives;
};

size_t widthOf(ncclDataType_t type) {
  switch (type) {
  case ncclFloat64:
    return 8;
  case ncclBfloat16:
  case ncclFloat16:
    return 2;
  default:
    return 4;
  }
}

double valueAt(const char *base, ncclDataType_t type, size_t i) {
  switch (type) {
  case ncclFloat64:
    return reinterpret_cast<const double *>(base)[i];
  case ncclBfloat16:
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(base)[i]);
  case ncclInt32:
    return reinterpret_cast<const int32_t *>(base)[i];
  default:
    return reinterpret_cast<const float *>(base)[i];
  }
}

void setAt(void *base, ncclDataType_t type, size_t i, double value) {
  switch (type) {
  case ncclFloat64:
    static_cast<double *>(base)[i] = value;
    break;
  case ncclBfloat16:
    static_cast<__nv_bfloat16 *>(base)[i] =
        __float2bfloat16_rn(static_cast<float>(value));
    break;
  case ncclInt32:
    static_cast<int32_t *>(base)[i] = static_cast<int32_t>(value);
    break;
  default:
    static_cast<float *>(base)[i] = static_cast<float>(value);
  }
}

/// Elements [first, first + count) of the inputs, folded in rank order.
void fold(const std::vector<FakeOffer> &offers, const NcclCall &call,
          size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double value = valueAt(offers[0].input.data(), call.type, first + i);
    for (size_t rank = 1; rank < offers.size(); ++rank) {
      const double other =
          valueAt(offers[rank].input.data(), call.type, first + i);
      value = call.op == ncclMax ? std::max(value, other) : value + other;
    }
    setAt(call.output, call.type, i, value);
  }
}

} // namespace

struct ncclComm {
  std::shared_ptr<FakeClique> clique;
  int rank, size;
  FakeStreams *gpu = &FakeStreams::mine();
  uint64_t calls = 0; ///< that have begun to run
  std::atomic<int> unfinished{0};
};

namespace {

using Clock = std::chrono::steady_clock;

/// One call of one rank; may be run again when it was done.
class Operation {
public:
  Operation(ncclComm *comm, NcclCall call)
      : comm(comm), clique(comm->clique), call(std::move(call)) {
    if (!FakeStreams::mine().isCapturing())
      begin();
  }

  bool run() {
    begin();
    const bool ends = clique->isAborted() || advance();
    if (ends) {
      isCounted = false;
      --comm->unfinished;
    }
    return ends;
  }

private:
  /// It counts as work of the GPU, once.
  void begin() {
    if (!isCounted)
      ++comm->unfinished;
    isCounted = true;
  }

  bool advance() {
    if (!isIn) {
      const auto is = [&](const char *setting) {
        return fakeSetting(setting, -1) == static_cast<int64_t>(comm->calls);
      };
      if (comm->rank == 1 && is("FAKE_NCCL_STALL")) {
        const int64_t life = fakeSetting("FAKE_NCCL_STALL_DIES", 0);
        if (life > 0 && Clock::now() > asked + std::chrono::seconds(life))
          std::raise(SIGKILL);
        return false;
      }
      if (comm->rank == 1 && is("FAKE_NCCL_DIE"))
        std::raise(SIGKILL);
      if (is("FAKE_NCCL_ERROR"))
        clique->fail();
      number = comm->calls++;
      handIn();
      isIn = true;
    }
    if (clique->hasFailed())
      return false;
    const auto offers = clique->complete(number);
    if (!offers)
      return false;
    take(*offers);
    isIn = false;
    clique->leave(number, comm->rank);
    return true;
  }

  void handIn() {
    FakeOffer offer;
    offer.kind = call.kind;
    if (call.input) {
      const char *from = static_cast<const char *>(call.input);
      offer.input.assign(from, from + call.count * widthOf(call.type));
    }
    for (const Part &part : call.sends) {
      const char *from = static_cast<const char *>(part.source);
      offer.messages[part.peer].assign(from, from + part.bytes);
    }
    clique->handIn(number, comm->rank, std::move(offer));
  }

  void take(const std::vector<FakeOffer> &offers) {
    const size_t width = widthOf(call.type),
                 me = static_cast<size_t>(comm->rank);
    // What NCCL would hang or crash at.
    for (const FakeOffer &offer : offers)
      if (offer.kind != call.kind)
        return clique->fail();
    if (call.kind.rfind("all_reduce", 0) == 0)
      fold(offers, call, 0, call.count);
    if (call.kind.rfind("reduce_scatter", 0) == 0) {
      const size_t part = call.count / offers.size();
      fold(offers, call, me * part, part);
    }
    if (call.kind.rfind("all_gather", 0) == 0)
      for (size_t rank = 0; rank < offers.size(); ++rank)
        std::memcpy(static_cast<char *>(call.output) +
                        rank * call.count * width,
                    offers[rank].input.data(), call.count * width);
    for (const Part &part : call.receives) {
      const auto &messages = offers[static_cast<size_t>(part.peer)].messages;
      const auto at = messages.find(comm->rank);
      if (at == messages.end() || at->second.size() != part.bytes)
        return clique->fail();
      std::memcpy(part.target, at->second.data(), part.bytes);
    }
  }

  ncclComm *comm;
  std::shared_ptr<FakeClique> clique;
  NcclCall call;
  bool isCounted = false, isIn = false;
  uint64_t number = 0;
  const Clock::time_point asked = Clock::now();
};

/// All that have been made. None is freed: operations in flight hold it.
struct Communicators {
  std::mutex mutex;
  std::set<ncclComm *> all;

  bool keepBusy(const FakeStreams *gpu) {
    std::lock_guard<std::mutex> lock(mutex);
    return gpu->graphs > 0 ||
           std::any_of(all.begin(), all.end(), [&](const ncclComm *comm) {
             return comm->gpu == gpu && comm->unfinished > 0 &&
                    !comm->clique->isAborted();
           });
  }
};
Communicators &communicators() {
  static auto &one = *new Communicators;
  return one;
}

/// Notes `name`, and that it came to its end.
void endCommunicator(ncclComm *comm, const std::string &name) {
  fakeNote(name);
  while (communicators().keepBusy(comm->gpu))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fakeNote(name + " ended");
}

/// Between ncclGroupStart and ncclGroupEnd.
struct OpenGroup {
  int depth = 0;
  ncclComm *comm = nullptr;
  cudaStream_t stream = nullptr;
  NcclCall call;
};
thread_local OpenGroup group;

ncclResult_t enqueue(ncclComm *comm, cudaStream_t stream, NcclCall call) {
  if (fakeSetting("FAKE_NCCL_REFUSE", 0))
    return ncclInvalidArgument;
  call.kind += " of " + std::to_string(call.count) + " of type " +
               std::to_string(call.type);
  auto operation = std::make_shared<Operation>(comm, std::move(call));
  const CUresult result = FakeStreams::mine().submit(
      reinterpret_cast<FakeStream *>(stream),
      [operation] { return operation->run(); });
  return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t transfer(ncclComm *comm, cudaStream_t stream, Part part,
                      bool sends) {
  auto add = [&](NcclCall &call) {
    (sends ? call.sends : call.receives).push_back(part);
  };
  if (group.depth > 0) {
    group.comm = comm;
    group.stream = stream;
    add(group.call);
    return ncclSuccess;
  }
  NcclCall call;
  call.kind = "transfer";
  call.count = part.bytes;
  add(call);
  return enqueue(comm, stream, call);
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = static_cast<int>(fakeSetting("FAKE_NCCL_VERSION", 22800));
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  const uint64_t number = newFakeClique();
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &number, sizeof(number));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  if (config->blocking != 0 || rank < 0 || rank >= ranks || number == 0)
    return ncclInvalidArgument;
  if (rank == 1 && fakeSetting("FAKE_NCCL_DIE_EARLY", 0))
    std::raise(SIGKILL);
  *comm = new ncclComm{fakeClique(number), rank, ranks};
  {
    std::lock_guard<std::mutex> lock(communicators().mutex);
    communicators().all.insert(*comm);
  }
  (*comm)->clique->join(rank, ranks);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  *state = comm->clique->hasFailed() ? ncclRemoteError
           : comm->clique->isWhole() ? ncclSuccess
                                     : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->clique->abort();
  endCommunicator(comm, "nccl_abort");
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  endCommunicator(comm, "nccl_destroy");
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "fake failure";
}
const char *ncclGetLastError(ncclComm_t) { return "as the test wants"; }
ncclResult_t ncclAllReduce(const void *input, void *output, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue(comm, stream,
                 {"all_reduce", type, op, count, input, output, {}, {}});
}
ncclResult_t ncclAllGather(const void *input, void *output, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue(comm, stream,
                 {"all_gather", type, ncclSum, count, input, output, {}, {}});
}
ncclResult_t ncclReduceScatter(const void *input, void *output, size_t part,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const size_t count = part * static_cast<size_t>(comm->size);
  return enqueue(comm, stream,
                 {"reduce_scatter", type, op, count, input, output, {}, {}});
}
ncclResult_t ncclSend(const void *source, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return transfer(comm, stream,
                  {peer, source, nullptr, count * widthOf(type)}, true);
}
ncclResult_t ncclRecv(void *target, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return transfer(comm, stream,
                  {peer, nullptr, target, count * widthOf(type)}, false);
}
ncclResult_t ncclGroupStart() {
  if (group.depth++ == 0)
    group.call = {};
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0 || !group.comm)
    return ncclSuccess;
  group.call.kind = "group";
  ncclComm *comm = group.comm;
  group.comm = nullptr;
  return enqueue(comm, group.stream, std::move(group.call));
}

} // extern "C"
