//===- GpuCollectives.h - Collectives of GPU memory by NCCL -----*- C++ -*-===//
//
// One communicator and one stream per group, and per directed pair of ranks;
// made at the first call, whose members find each other over the context's
// transport. A call waits for the compute stream, and the compute stream for the
// call, or for all calls of its lane at await().
//
// While `checked`, members first compare over the transport what they are about
// to call, so that a mismatch or an absent rank is named as on the host. Later
// calls go straight to NCCL: then a call that does not end in time is named.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUCOLLECTIVES_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUCOLLECTIVES_H

#include "runtime/src/backend/cuda/RecordedCalls.h"

#include <deque>
#include <map>

namespace shardwright::runtime {

class Exchange;

class GpuCollectives {
public:
  GpuCollectives(sw_rt_context &context, Gpu &gpu, const CudaNccl *nccl,
                 const std::string &whyNot)
      : context(context), gpu(gpu), nccl(nccl), whyNot(whyNot),
        recorded(gpu) {}
  ~GpuCollectives();
  GpuCollectives(const GpuCollectives &) = delete;
  GpuCollectives &operator=(const GpuCollectives &) = delete;

  sw_rt_status run(const CollectiveCall &call);
  /// The compute stream waits for the calls of `lane`.
  sw_rt_status await(Lane lane);
  /// Calls of one member go to NCCL too, so that one GPU tests it.
  void useAlways() { always = true; }
  /// Calls that NCCL took.
  int64_t calls() const { return taken; }
  void setChecked(bool value) { checked = value; }
  /// Before a recording is begun.
  void prepareRecording() { recorded.prepare(); }
  /// Whether a recording is being made: its events cannot be asked later.
  void setRecording(bool value) { recording = value; }
  /// The recording, which is this object's from now on.
  void setGraph(CUgraphExec made) { graph = made; }
  CUgraphExec getGraph() const { return graph; }
  /// Before the recording is replayed.
  void startReplay() { recorded.restart(); }

  /// SW_RT_OK, or the poison of a communicator that failed on its own.
  sw_rt_status checkAsync();
  /// The oldest call that has not ended, in words; "" if all have.
  std::string unfinished() { return unfinished(nullptr); }
  /// Ends all communicators at once, also those with calls in flight. Returns
  /// when they have ended, or after a moment if one does not.
  void abort();

private:
  struct Channel {
    std::string ranks; ///< "ranks 0, 2"
    ncclComm_t communicator = nullptr;
    CUstream stream = nullptr;
    CUevent before = nullptr, after = nullptr;
    std::string last; ///< newest call, in words
  };
  struct InFlight {
    const Channel *channel;
    std::string what;
    CUevent event;
  };
  Channel *channelOf(const std::vector<int> &members, int me, bool directed);
  sw_rt_status open(Channel &channel, const std::vector<int> &members, int me);
  sw_rt_status check(ncclResult_t result, const char *call, Channel &channel);
  /// Fails with `what`, which did not work, and aborts.
  sw_rt_status failed(ncclResult_t result, const char *call, Channel &channel,
                      const std::string &what);
  /// Of one channel, or of all.
  std::string unfinished(const Channel *channel);
  /// Waits, with the deadline, until a non-blocking call has been taken.
  sw_rt_status settle(ncclResult_t result, const char *call, Channel &channel);
  sw_rt_status enqueue(const CollectiveCall &call, Channel &channel,
                       int64_t width, int members, int me);
  /// `stream` waits for what `event` recorded last.
  sw_rt_status waitFor(CUstream stream, CUevent event);
  /// The newest call of `channel`, for messages about what has not ended.
  sw_rt_status remember(Channel &channel);
  /// NCCL ends no communicator while a graph holds calls of it. One that runs is
  /// freed when it has ended.
  void dropGraph();

  sw_rt_context &context;
  Gpu &gpu;
  const CudaNccl *nccl;
  std::string whyNot;
  bool checked = true, recording = false, always = false;
  int64_t taken = 0;
  std::map<Lane, Channel *> underWay; ///< of the newest call of a lane
  std::map<std::vector<int>, Channel> channels;
  std::deque<InFlight> inFlight;
  RecordedCalls recorded;
  CUgraphExec graph = nullptr;
  std::vector<CUevent> spare;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPUCOLLECTIVES_H
