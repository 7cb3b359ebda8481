//===- Device.h - Where a rank's tensors lie and what works on them -*- C++ -*-//
//
// One object per rank. The host computes at once; a GPU takes calls in order
// and works on them later, so a call may report the failure of an earlier one.
// Whoever reads results calls toHost(), which waits.
//
// Flops, traces and the checks of arguments are the callers' (Calls.cpp); the
// ledger of collectives is booked by the device, which knows how it ran them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_DEVICE_H
#define SHARDWRIGHT_RUNTIME_DEVICE_H

#include "runtime/include/shardwright_program.h"
#include "runtime/src/Call.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shardwright::runtime {

struct Group;

/// As sw_rt_matmul.
struct MatmulCall {
  sw_rt_dtype dtype, cDtype;
  bool transposeA, transposeB;
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  bool accumulate;
};

/// As sw_rt_attention_fwd and sw_rt_attention_bwd; forward writes o and lse.
struct AttentionCall {
  sw_rt_dtype dtype;
  const sw_rt_attention_shape &shape;
  const void *q, *k, *v;
  void *o, *lse;
  const void *gradO = nullptr;
  void *gradQ = nullptr, *gradK = nullptr, *gradV = nullptr;
};

/// As sw_rt_embedding_fwd (table to output) and sw_rt_embedding_bwd (output is
/// the gradient that is added to the table).
struct EmbeddingCall {
  sw_rt_dtype dtype, tableDtype;
  const int32_t *ids;
  int64_t tokens, firstRow, rows, width;
};

/// Collectives that may run beside compute: those of a lane run in the order of
/// their calls, and await() makes all later work wait for them. A device that
/// communicates at once, as the host does, has none under way.
enum class Lane {
  None, ///< later work waits for the call itself
  Gradients,
  StreamSends,
  GradientSends,
};
constexpr Lane backgroundLanes[] = {Lane::Gradients, Lane::StreamSends,
                                    Lane::GradientSends};

/// A collective, or a transfer to or from `peer`, on memory of the device.
struct CollectiveCall {
  Call call;
  Group *group; ///< null for transfers
  int peer;     ///< of transfers
  sw_rt_dtype dtype;
  sw_rt_op op;
  const void *input;
  void *output;
  int64_t count;
  Lane lane = Lane::None;
};

/// As sw_rt_update, on memory of the device but for the scalars.
struct UpdateCall {
  void *master, *m, *v;
  const void *gradient;
  void *parameter;
  int64_t count;
  const double *scalars;
};

/// `count` elements of the device.
struct DeviceRange {
  const void *at;
  int64_t count;
};

enum class StepMode {
  Plain,
  Record, ///< calls are recorded; endRecording() runs them
  Replay, ///< replay() stands for all of them
};

class Device {
public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  virtual const char *name() const = 0;
  /// Whether the CPU may read and write what allocate() gives.
  virtual bool isHost() const = 0;

  /// Memory for one rank's tensors, aligned to 256 bytes; null with `why`.
  virtual char *allocate(int64_t bytes, std::string &why) = 0;
  virtual void release(char *memory, int64_t bytes) = 0;
  virtual sw_rt_status fill(void *target, unsigned char value,
                            int64_t bytes) = 0;
  /// The source may be used again when it returns.
  virtual sw_rt_status toDevice(void *target, const void *source,
                                int64_t bytes) = 0;
  /// Waits for every call so far.
  virtual sw_rt_status toHost(void *target, const void *source,
                              int64_t bytes) = 0;
  virtual sw_rt_status copyRows(const void *input, int64_t inputStride,
                                void *output, int64_t outputStride,
                                int64_t rowBytes, int64_t rows) = 0;

  virtual void matmul(const MatmulCall &call) = 0;
  virtual void attentionForward(const AttentionCall &call) = 0;
  virtual void attentionBackward(const AttentionCall &call) = 0;
  virtual void embeddingForward(const EmbeddingCall &call, const void *table,
                                void *output) = 0;
  virtual void embeddingBackward(const EmbeddingCall &call,
                                 const void *gradOutput, void *gradTable) = 0;
  virtual sw_rt_status launch(const sw_rt_kernel &kernel,
                              void *const *arguments) = 0;
  virtual sw_rt_status collective(const CollectiveCall &call) = 0;
  /// Whether calls of a lane other than None run beside compute.
  virtual bool overlaps() const { return false; }
  /// Work that is called for from here on waits for the calls of `lane`.
  virtual sw_rt_status await(Lane) { return SW_RT_OK; }

  /// Sum over the squares of the ranges' f32, f64 or bf16 elements. Waits.
  virtual sw_rt_status sumOfSquares(sw_rt_dtype dtype,
                                    const std::vector<DeviceRange> &ranges,
                                    double &sum) = 0;
  virtual sw_rt_status update(const UpdateCall &call) = 0;

  /// Begins a training step: how the calls up to its update are to be made.
  /// Without `mayRecord` they are made one by one.
  virtual StepMode beginStep(bool) { return StepMode::Plain; }
  /// Ends StepMode::Record and runs what was recorded.
  virtual sw_rt_status endRecording() { return SW_RT_OK; }
  virtual sw_rt_status replay() { return SW_RT_OK; }
  /// Waits for all calls so far; fails by the deadline of the context.
  virtual sw_rt_status wait() = 0;

  /// A call that the device was handed and has not ended, with its ranks, in
  /// words; "" if there is none or it cannot say.
  virtual std::string unfinishedCall() { return {}; }

  /// Ends what is under way after a failure, without waiting for it for long.
  /// Returns whether the device must be kept until the process ends: to give back
  /// what it holds would wait for work that may never end.
  virtual bool abandon() { return false; }

  /// What the device counted since it was opened, for the summary: which of
  /// two ways it went, how much memory it took. Keys have their units.
  virtual std::vector<std::pair<std::string, int64_t>> counters() const {
    return {};
  }
};

/// Memory of a device that is given back with this object.
class DeviceMemory {
public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  /// Takes `bytes` from `device`, which must outlive this. Returns false with
  /// `why`.
  bool create(Device &device, int64_t bytes, std::string &why);
  char *at() const { return memory; }

private:
  Device *device = nullptr;
  char *memory = nullptr;
  int64_t bytes = 0;
};

/// Memory of a device as the CPU sees it: itself on the host, else a copy.
class Mirror {
public:
  /// `read`: whether the copy starts with what the device holds.
  Mirror(Device &device, void *memory, int64_t bytes, bool read);
  sw_rt_status getStatus() const { return status; }
  char *data() { return device.isHost() ? memory : copy.data(); }
  /// Hands what data() holds to the device.
  sw_rt_status write();

private:
  Device &device;
  char *memory;
  int64_t bytes;
  std::vector<char> copy;
  sw_rt_status status = SW_RT_OK;
};

/// Makes the device of a rank; null with `why` and what kind of failure it is.
using DeviceFactory = std::function<std::unique_ptr<Device>(
    sw_rt_context &context, sw_rt_status &failure, std::string &why)>;

/// A part of the memory of a rank.
struct MemoryTerm {
  std::string name; ///< "nccl_bytes"
  int64_t bytes;
};
class Stage;
/// What the device of a program takes beside the arena; nothing on the host.
std::vector<MemoryTerm> memoryOfDevice(const Stage &stage);

/// What the user says about how a device computes.
struct DeviceOptions {
  bool tf32 = false; ///< products of f32 in tf32, if the device has it
  /// Collectives of one member go to the device's library too: tests of it on
  /// one device.
  bool collectivesOfOne = false;
};

/// Of a program: the host's without device code, else the CUDA backend's. Before
/// any thread is made.
DeviceFactory deviceFactoryFor(const sw_rt_program &program,
                               const DeviceOptions &options);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_DEVICE_H
