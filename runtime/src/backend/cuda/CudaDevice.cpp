//===- CudaDevice.cpp - A GPU as the device of a rank ---------------------===//
#include "runtime/src/backend/cuda/CudaDevice.h"
#include "runtime/src/backend/cuda/Kernels.h"
#include "runtime/src/backend/cuda/MemoryBesideArena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>

namespace shardwright::runtime {
namespace {

/// Of sw_rt_update.
constexpr int64_t updateScalars = std::extent_v<decltype(
    kernels::Scalars::values)>;
static_assert(updateScalars == 8);

} // namespace

CudaDevice::CudaDevice(sw_rt_context &context, const Libraries &libraries,
                       const sw_rt_program *program,
                       const DeviceOptions &options)
    : context(context), program(program), gpu(context, *libraries.driver),
      products(context, gpu, *libraries.blas, options.tf32),
      attention(context, gpu, libraries.dnn),
      collectives(context, gpu, libraries.nccl, libraries.whyNoNccl) {
  if (options.collectivesOfOne)
    collectives.useAlways();
}

CudaDevice::~CudaDevice() {
  const CudaDriver &driver = gpu.getDriver();
  if (idle)
    driver.cuEventDestroy(idle);
  if (scalars)
    gpu.release(scalars);
}

bool CudaDevice::open(sw_rt_status &failure, std::string &why) {
  if (!gpu.open(failure, why) || !gpu.loadOwn(why))
    return false;
  const sw_rt_device_code *code = program ? program->device_code : nullptr;
  if (code && !gpu.loadProgram(*code, why))
    return false;
  if (!attention.open(why) || (code && !fits(failure, why)) ||
      !products.open(why))
    return false;
  scalars = gpu.allocate(updateScalars * 8, why);
  if (!scalars)
    return false;
  if (gpu.check(gpu.getDriver().cuEventCreate(&idle, CU_EVENT_DISABLE_TIMING),
                "cuEventCreate") != SW_RT_OK) {
    why = context.error;
    return false;
  }
  return true;
}

/// What this rank will take is known before it takes anything: the arena of its
/// stage, and beside it what memoryBesideArena and cuDNN say.
bool CudaDevice::fits(sw_rt_status &failure, std::string &why) {
  const Stage stage(*program, context.mesh, context.rank());
  arena = stage.tables.arena.total;
  int64_t total = 0, scratch = 0;
  beside = 0;
  std::string terms = "arena " + std::to_string(arena);
  for (MemoryTerm term : memoryBesideArena(stage)) {
    if (term.name == "scratch_bytes") {
      term.bytes =
          std::max(term.bytes, attention.prepare(*program->device_code));
      scratch = term.bytes;
    }
    beside += term.bytes;
    terms += ", " + term.name + " " + std::to_string(term.bytes);
  }
  // The scratch memory all at once: what a recording holds may not move.
  if (!gpu.freeMemory(freeAtStart, total) || arena + beside <= freeAtStart)
    if (scratch == 0 || gpu.scratch(scratch))
      return true;
  failure = SW_RT_OUT_OF_MEMORY;
  why = "expected " + std::to_string(arena + beside) + " bytes free on '" +
        gpu.getName() + "' for rank " + std::to_string(context.rank()) + " (" +
        terms + "), but " + std::to_string(freeAtStart) + " of " +
        std::to_string(total) + " are";
  return false;
}

char *CudaDevice::allocate(int64_t bytes, std::string &why) {
  return gpu.allocate(bytes, why);
}
// To free memory is to wait for the GPU: after a failure perhaps for ever.
void CudaDevice::release(char *memory, int64_t) {
  if (context.status == SW_RT_OK)
    gpu.release(memory);
}

bool CudaDevice::abandon() {
  collectives.abort();
  return true;
}

sw_rt_status CudaDevice::fill(void *target, unsigned char value,
                              int64_t bytes) {
  return gpu.fill(target, value, bytes);
}

// CUDA does not promise to have read pageable memory when a copy from it returns
// (API synchronization behavior: it "might be synchronous").

sw_rt_status CudaDevice::toDevice(void *target, const void *source,
                                  int64_t bytes) {
  if (sw_rt_status status = gpu.toDevice(target, source, bytes))
    return status;
  return wait();
}

sw_rt_status CudaDevice::toHost(void *target, const void *source,
                                int64_t bytes) {
  // The copy itself waits without a deadline, so everything before it must be
  // done.
  if (sw_rt_status status = wait())
    return status;
  if (sw_rt_status status = gpu.toHost(target, source, bytes))
    return status;
  return wait();
}

sw_rt_status CudaDevice::copyRows(const void *input, int64_t inputStride,
                                  void *output, int64_t outputStride,
                                  int64_t rowBytes, int64_t rows) {
  return gpu.copyRows(input, inputStride, output, outputStride, rowBytes, rows);
}

void CudaDevice::matmul(const MatmulCall &call) { products.run(call); }

void CudaDevice::attentionForward(const AttentionCall &call) {
  attention.forward(call);
}

void CudaDevice::attentionBackward(const AttentionCall &call) {
  attention.backward(call);
}

void CudaDevice::embeddingForward(const EmbeddingCall &call, const void *table,
                                  void *output) {
  gpu.launchOwn("sw_embedding_forward_" + std::to_string(byteWidth(call.dtype)),
                call.tokens, kernels::threads,
                kernels::EmbeddingForward{call.ids, table, output,
                                          call.firstRow, call.rows,
                                          call.width});
}

void CudaDevice::embeddingBackward(const EmbeddingCall &call,
                                   const void *gradOutput, void *gradTable) {
  const char *suffix = nullptr;
  if (call.dtype == SW_RT_BF16 && call.tableDtype == SW_RT_BF16)
    suffix = "bf16_bf16";
  else if (call.dtype == SW_RT_BF16 && call.tableDtype == SW_RT_F32)
    suffix = "bf16";
  else if (call.dtype == SW_RT_F32 && call.tableDtype == SW_RT_F32)
    suffix = "f32";
  else if (call.dtype == SW_RT_F64 && call.tableDtype == SW_RT_F64)
    suffix = "f64";
  if (!suffix || call.tokens > INT32_MAX) {
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected an embedding gradient of bf16, f32 or "
                             "f64 to the same or of bf16 to f32, of fewer than "
                             "2^31 tokens, but got ") +
                     runtime::name(call.dtype) + " to " +
                     runtime::name(call.tableDtype) + " of " +
                     std::to_string(call.tokens));
    return;
  }
  char *scratch = gpu.scratch(8 * call.tokens);
  if (!scratch)
    return;
  int32_t *next = reinterpret_cast<int32_t *>(scratch);
  int32_t *isFirst = next + call.tokens;
  gpu.launchOwn("sw_embedding_links",
                (call.tokens + kernels::threads - 1) / kernels::threads,
                kernels::threads,
                kernels::EmbeddingLinks{call.ids, next, isFirst, call.tokens});
  gpu.launchOwn(std::string("sw_embedding_backward_") + suffix, call.tokens,
                kernels::threads,
                kernels::EmbeddingBackward{call.ids, next, isFirst, gradOutput,
                                           gradTable, call.firstRow, call.rows,
                                           call.width});
}

sw_rt_status CudaDevice::launch(const sw_rt_kernel &kernel,
                                void *const *arguments) {
  char *scratch = gpu.scratch(kernel.scratch_bytes);
  if (!scratch && kernel.scratch_bytes > 0)
    return context.status;
  // Buffers, scratch, position and column origin: a pointer to each.
  std::vector<void *> values(arguments, arguments + kernel.num_buffers);
  values.push_back(scratch);
  values.push_back(arguments[kernel.num_buffers]);
  values.push_back(arguments[kernel.num_buffers + 1]);
  std::vector<void *> parameters;
  for (void *&value : values)
    parameters.push_back(&value);
  for (int32_t i = 0; i < kernel.num_steps; ++i) {
    const sw_rt_kernel_step &step = kernel.steps[i];
    if (sw_rt_status status = gpu.launch(step.entry, step.grid, step.block,
                                         step.shared_bytes, parameters.data()))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status CudaDevice::collective(const CollectiveCall &call) {
  return collectives.run(call);
}

sw_rt_status CudaDevice::sumOfSquares(sw_rt_dtype dtype,
                                      const std::vector<DeviceRange> &ranges,
                                      double &sum) {
  // Every rank comes here once a step with all its work handed to the GPU: who
  // does not is named here, before the GPU waits for it.
  if (context.mesh.ranks() > 1)
    if (sw_rt_status status =
            barrier(context, context.group(context.mesh.all()))) {
      collectives.abort(); // calls in flight wait for who is absent
      return status;
    }
  auto blocksOf = [](const DeviceRange &range) {
    return (range.count + kernels::squaresOfBlock - 1) /
           kernels::squaresOfBlock;
  };
  int64_t blocks = 0;
  for (const DeviceRange &range : ranges)
    blocks += blocksOf(range);
  double *partial = reinterpret_cast<double *>(gpu.scratch(8 * (blocks + 1)));
  if (!partial)
    return context.status;
  double *result = partial++;
  const std::string entry = std::string("sw_squares_") + runtime::name(dtype);
  int64_t first = 0;
  for (const DeviceRange &range : ranges) {
    if (sw_rt_status status = gpu.launchOwn(
            entry, blocksOf(range), kernels::threads,
            kernels::Squares{range.at, partial + first, range.count}))
      return status;
    first += blocksOf(range);
  }
  if (sw_rt_status status = gpu.launchOwn(
          "sw_sum", 1, kernels::threads, kernels::Sum{partial, result, blocks}))
    return status;
  return toHost(&sum, result, 8);
}

sw_rt_status CudaDevice::update(const UpdateCall &call) {
  const sw_rt_update_kernel &kernel = program->device_code->update;
  if (call.count == 0)
    return SW_RT_OK;
  kernels::Scalars carried{};
  std::copy_n(call.scalars, updateScalars, carried.values);
  carried.target = reinterpret_cast<double *>(scalars);
  if (sw_rt_status status =
          gpu.launchOwn("sw_scalars", 1, kernels::warpThreads, carried))
    return status;
  UpdateCall values = call;
  void *place = scalars;
  void *parameters[] = {
      &values.master,    &values.m,     &values.v, &values.gradient,
      &values.parameter, &values.count, &place};
  const int64_t each = kernel.elements_per_block;
  return gpu.launch(kernel.entry, (call.count + each - 1) / each, kernel.block,
                    0, parameters);
}

// The first step runs call by call: it makes communicators, chooses algorithms,
// grows scratch memory, and checks that ranks call the same. The second is
// recorded, and what follows replays it.
StepMode CudaDevice::beginStep(bool mayRecord) {
  collectives.setChecked(++steps == 1);
  if (!mayRecord || steps == 1)
    return StepMode::Plain;
  if (collectives.getGraph())
    return StepMode::Replay;
  collectives.prepareRecording();
  if (gpu.check(gpu.getDriver().cuStreamBeginCapture(
                    gpu.getStream(), CU_STREAM_CAPTURE_MODE_RELAXED),
                "cuStreamBeginCapture") != SW_RT_OK)
    return StepMode::Plain; // the context is poisoned, so nothing runs
  collectives.setRecording(true);
  return StepMode::Record;
}

sw_rt_status CudaDevice::endRecording() {
  const CudaDriver &driver = gpu.getDriver();
  collectives.setRecording(false);
  CUgraph graph = nullptr;
  if (sw_rt_status status =
          gpu.check(driver.cuStreamEndCapture(gpu.getStream(), &graph),
                    "cuStreamEndCapture"))
    return status;
  CUgraphExec recorded = nullptr;
  const sw_rt_status status =
      gpu.check(driver.cuGraphInstantiateWithFlags(&recorded, graph, 0),
                "cuGraphInstantiateWithFlags");
  driver.cuGraphDestroy(graph);
  collectives.setGraph(recorded);
  return status == SW_RT_OK ? replay() : status;
}

sw_rt_status CudaDevice::replay() {
  collectives.startReplay();
  return gpu.check(gpu.getDriver().cuGraphLaunch(collectives.getGraph(),
                                                 gpu.getStream()),
                   "cuGraphLaunch");
}

// Calls that a recording replays are counted once, when they are recorded.
std::vector<std::pair<std::string, int64_t>> CudaDevice::counters() const {
  int64_t free = 0, total = 0, measured = 0;
  if (freeAtStart > 0 && gpu.freeMemory(free, total))
    measured = freeAtStart - free - arena;
  return {{"attention_calls_by_cudnn", attention.cudnnCalls()},
          {"attention_calls_by_own_kernels", attention.ownCalls()},
          {"nccl_calls", collectives.calls()},
          {"recorded_steps", collectives.getGraph() ? 1 : 0},
          {"scratch_bytes", gpu.scratchBytes()},
          {"beside_arena_predicted_bytes", beside},
          {"beside_arena_measured_bytes", measured}};
}

std::string CudaDevice::underWay() {
  const std::string call = collectives.unfinished();
  if (!call.empty())
    return call;
  return collectives.getGraph() ? "the recorded step" : "its work";
}

sw_rt_status CudaDevice::wait() {
  if (context.status != SW_RT_OK)
    return SW_RT_ABORTED;
  const CudaDriver &driver = gpu.getDriver();
  if (sw_rt_status status = gpu.check(
          driver.cuEventRecord(idle, gpu.getStream()), "cuEventRecord"))
    return status;
  const Deadline deadline = deadlineIn(context.timeoutSeconds);
  for (int64_t polls = 0;; ++polls) {
    const CUresult result = driver.cuEventQuery(idle);
    if (result != CUDA_ERROR_NOT_READY)
      return gpu.check(result, "cuEventQuery");
    if (polls % 256 == 255) {
      if (sw_rt_status status = collectives.checkAsync())
        return status;
      if (context.transport->isPoisoned()) {
        const sw_rt_status status = context.failPoisoned(underWay());
        collectives.abort();
        return status;
      }
      if (Clock::now() >= deadline)
        break;
    }
    // Short waits are the rule: a sleeping thread would come late.
    if (polls < 10000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g", context.timeoutSeconds);
  const sw_rt_status status = context.fail(
      SW_RT_TIMEOUT, "expected " + underWay() + " to end within " + seconds +
                         " s, but '" + gpu.getName() + "' of rank " +
                         std::to_string(context.rank()) + " is still at work");
  collectives.abort();
  return status;
}

} // namespace shardwright::runtime
