//===- FakeDriver.cpp - NVIDIA's driver as far as tests need it -----------===//
//
// With FakeBlas.cpp and FakeNccl.cpp one shared object under the names of the
// driver, cuBLASLt and NCCL, so that the backend's own code runs where there is
// no GPU: which calls it makes, with which arguments, in an order that its
// events allow, and how it ends when they fail. Device memory is host memory,
// our kernels run on the block emulator. Whatever passes here says nothing about
// a GPU.
//
// The environment says what is wrong: FAKE_DRIVER_VERSION, FAKE_DEVICES,
// FAKE_CAPABILITY, FAKE_FREE_BYTES, FAKE_HANG (work never ends),
// FAKE_FORGET_WAITS (streams wait for no event: what tests must notice);
// FAKE_LOG_CONNECTIONS has the number of hardware queues logged;
// FAKE_KERNELS is a shared object with the generated kernels of a program, and
// FAKE_LOG a file that gets the names of some calls. FAKE_ORDER: see
// FakeStreams.h.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/FakeStreams.h"
#include "runtime/cts/cuda/HostCuda.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <dlfcn.h>

using namespace shardwright::runtime::cts;

namespace {

void *host(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

FakeStream *stream(CUstream handle) {
  return reinterpret_cast<FakeStream *>(handle);
}
FakeEvent *event(CUevent handle) {
  return reinterpret_cast<FakeEvent *>(handle);
}
FakeStreams &mine() { return FakeStreams::mine(); }

using Work = std::function<void()>;
std::atomic<int64_t> allocated{0};
/// Blocks of all ranks take turns: the emulator and its shared memory are one.
std::mutex emulator;

/// Makes a kernel's work from its parameters, which are read at once.
using Kernel = std::function<Work(void **parameters)>;
template <typename Parameters> Kernel own(void (*kernel)(Parameters)) {
  return [kernel](void **parameters) -> Work {
    return
        [kernel, x = *static_cast<Parameters *>(parameters[0])] { kernel(x); };
  };
}

/// sw_rt_update, all of T, one block after the other.
template <typename T> Work tinyUpdate(void **p) {
  auto pointer = [&](int i) { return *static_cast<T **>(p[i]); };
  return [master = pointer(0), m = pointer(1), v = pointer(2),
          gradient = pointer(3), parameter = pointer(4),
          count = *static_cast<int64_t *>(p[5]),
          s = *static_cast<double **>(p[6])] {
    if (BlockEmulator::get().blockNumber() ||
        BlockEmulator::get().threadIndex())
      return;
    for (int64_t i = 0; i < count; ++i) {
      const double g = gradient[i] * s[5];
      m[i] = static_cast<T>(s[1] * m[i] + (1 - s[1]) * g);
      v[i] = static_cast<T>(s[2] * v[i] + (1 - s[2]) * g * g);
      master[i] -= static_cast<T>(
          s[0] * ((m[i] / s[6]) / (std::sqrt(v[i] / s[7]) + s[3]) +
                  s[4] * master[i]));
      parameter[i] = master[i];
    }
  };
}

/// Generated code, compiled for the host (test/Execute/host_kernels.cpp).
const Kernel *generated(const std::string &name) {
  using Entry = void(void **arguments, int64_t, int64_t);
  static std::mutex mutex;
  static std::map<std::string, Kernel> known;
  static void *const library = [] {
    const char *path = std::getenv("FAKE_KERNELS");
    void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (path && !handle)
      std::fprintf(stderr, "fake driver: %s\n", dlerror());
    return handle;
  }();
  if (!library)
    return nullptr;
  Entry *entry =
      reinterpret_cast<Entry *>(dlsym(library, ("run." + name).c_str()));
  const auto *count = static_cast<const int64_t *>(
      dlsym(library, ("parameters." + name).c_str()));
  if (!entry || !count)
    return nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  return &known.try_emplace(name, [entry, count](void **parameters) -> Work {
            std::vector<void *> values;
            for (int64_t i = 0; i < *count; ++i)
              values.push_back(*static_cast<void **>(parameters[i]));
            return [entry, values]() mutable { entry(values.data(), 0, 0); };
          }).first->second;
}

const std::map<std::string, Kernel> &kernelTable() {
#define OWN(name)                                                              \
  { #name, own(name) }
#define OWN_ATTENTION(suffix)                                                  \
  OWN(sw_attention_forward_##suffix), OWN(sw_attention_grad_q_##suffix),       \
      OWN(sw_attention_grad_kv_##suffix)
  static const std::map<std::string, Kernel> table = {
      OWN(sw_embedding_forward_2),
      OWN(sw_embedding_forward_4),
      OWN(sw_embedding_forward_8),
      OWN(sw_embedding_links),
      OWN(sw_embedding_backward_bf16),
      OWN(sw_embedding_backward_bf16_bf16),
      OWN(sw_embedding_backward_f32),
      OWN(sw_embedding_backward_f64),
      OWN(sw_squares_bf16),
      OWN(sw_squares_f32),
      OWN(sw_squares_f64),
      OWN(sw_sum),
      OWN(sw_scalars),
      OWN(sw_transpose_f32),
      OWN_ATTENTION(bf16),
      OWN_ATTENTION(f32),
      OWN_ATTENTION(f64),
      {"tiny_update", tinyUpdate<double>},
      {"tiny_update_f32", tinyUpdate<float>}};
#undef OWN
#undef OWN_ATTENTION
  return table;
}

/// What waits for the device, and would for ever while its work hangs.
void drain(const char *who) {
  mine().drain();
  if (mine().hangs() || fakeSetting("FAKE_HANG", 0))
    fakeNote(std::string(who) + " waits for ever");
}

/// Not a null pointer, and nothing behind it.
template <typename Handle> Handle some() {
  return reinterpret_cast<Handle>(uintptr_t(8));
}

} // namespace

extern "C" {

// What generated code calls.
int32_t device_thread() {
  return static_cast<int32_t>(BlockEmulator::get().threadIndex());
}
int32_t device_block() {
  return static_cast<int32_t>(BlockEmulator::get().blockNumber());
}
void device_meet(int32_t) { BlockEmulator::get().barrier(); }
float device_shuffle(int32_t, float value, int32_t distance, int32_t) {
  return BlockEmulator::get().shuffleXor(value,
                                         static_cast<unsigned>(distance));
}

CUresult cuInit(unsigned) {
  if (fakeSetting("FAKE_LOG_CONNECTIONS", 0))
    fakeNote("connections " + std::to_string(fakeSetting(
                                  "CUDA_DEVICE_MAX_CONNECTIONS", 8)));
  return fakeSetting("FAKE_DEVICES", 1) < 0 ? CUDA_ERROR_NO_DEVICE
                                            : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  *version = static_cast<int>(fakeSetting("FAKE_DRIVER_VERSION", CUDA_VERSION));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  *count = static_cast<int>(fakeSetting("FAKE_DEVICES", 1));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice) {
  const int capability = static_cast<int>(fakeSetting("FAKE_CAPABILITY", 90));
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
               ? capability / 10
               : capability % 10;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = some<CUcontext>();
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuMemGetInfo(size_t *free, size_t *total) {
  *total = size_t(80) << 30;
  *free = static_cast<size_t>(
      fakeSetting("FAKE_FREE_BYTES", static_cast<int64_t>(*total)) -
      allocated);
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes) {
  // The size stands in front of what the caller gets.
  const size_t rounded = (bytes + 511) / 512 * 512;
  char *at = static_cast<char *>(std::aligned_alloc(512, 512 + rounded));
  if (!at)
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(at, &rounded, sizeof(rounded));
  std::memset(at + 512, 0xab, bytes);
  allocated += static_cast<int64_t>(rounded);
  *memory = reinterpret_cast<CUdeviceptr>(at + 512);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr memory) {
  drain("cuMemFree");
  if (memory) {
    char *at = static_cast<char *>(host(memory)) - 512;
    size_t rounded = 0;
    std::memcpy(&rounded, at, sizeof(rounded));
    allocated -= static_cast<int64_t>(rounded);
    std::free(at);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *memory) {
  drain("cuMemFreeHost");
  std::free(memory);
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *memory,
                                   unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes,
                           CUstream on) {
  if (mine().isCapturing()) // a replay would read memory that may be gone
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  // It need not stage its source: it may be read as late as the stream comes here.
  return mine().submitOnce(
      stream(on), [=] { std::memcpy(host(target), source, bytes); });
}
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes,
                           CUstream on) {
  if (mine().isCapturing())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const CUresult result = mine().submitOnce(
      stream(on), [=] { std::memcpy(target, host(source), bytes); });
  mine().drain(); // pageable memory: it returns when the copy is done
  return result;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                           CUstream on) {
  return mine().submitOnce(
      stream(on), [=] { std::memcpy(host(target), host(source), bytes); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream on) {
  if (copy->WidthInBytes > copy->srcPitch ||
      copy->WidthInBytes > copy->dstPitch)
    return CUDA_ERROR_INVALID_VALUE;
  return mine().submitOnce(stream(on), [x = *copy] {
    for (size_t row = 0; row < x.Height; ++row)
      std::memcpy(static_cast<char *>(host(x.dstDevice)) + row * x.dstPitch,
                  static_cast<char *>(host(x.srcDevice)) + row * x.srcPitch,
                  x.WidthInBytes);
  });
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes,
                         CUstream on) {
  return mine().submitOnce(stream(on),
                           [=] { std::memset(host(target), value, bytes); });
}
CUresult cuStreamCreate(CUstream *created, unsigned) {
  *created = reinterpret_cast<CUstream>(mine().create());
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream handle) {
  mine().destroy(stream(handle));
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream on, CUevent awaited, unsigned) {
  if (fakeSetting("FAKE_FORGET_WAITS", 0))
    return CUDA_SUCCESS;
  return mine().wait(stream(on), event(awaited));
}
CUresult cuStreamBeginCapture(CUstream origin, CUstreamCaptureMode) {
  fakeNote("begin_capture");
  return mine().beginCapture(stream(origin));
}
CUresult cuStreamEndCapture(CUstream, CUgraph *graph) {
  fakeNote("end_capture");
  FakeGraph *captured = nullptr;
  const CUresult result = mine().endCapture(captured);
  *graph = reinterpret_cast<CUgraph>(captured);
  return result;
}
CUresult cuEventCreate(CUevent *created, unsigned) {
  *created = reinterpret_cast<CUevent>(new FakeEvent);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent recorded, CUstream on) {
  return mine().record(event(recorded), stream(on));
}
CUresult cuEventQuery(CUevent asked) {
  if (event(asked)->isCaptured) // it belongs to a graph
    return CUDA_ERROR_CAPTURED_EVENT;
  const bool hasPassed = mine().hasPassed(event(asked));
  return hasPassed && !fakeSetting("FAKE_HANG", 0) ? CUDA_SUCCESS
                                                   : CUDA_ERROR_NOT_READY;
}
// Operations of other streams may still look at it: it is not freed.
CUresult cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned,
                            CUjit_option *, void **) {
  // The runtime's kernels and the program's are PTX text.
  if (std::strstr(static_cast<const char *>(image), ".entry ") == nullptr)
    return CUDA_ERROR_INVALID_PTX;
  *module = some<CUmodule>();
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
  const auto at = kernelTable().find(name);
  const Kernel *kernel =
      at == kernelTable().end() ? generated(name) : &at->second;
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel *>(kernel));
  return kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned,
                        unsigned block, unsigned, unsigned, unsigned,
                        CUstream on, void **parameters, void **) {
  const Work body = (*reinterpret_cast<Kernel *>(function))(parameters);
  return mine().submitOnce(stream(on), [=] {
    std::lock_guard<std::mutex> turn(emulator);
    BlockEmulator::get().launch(grid, block, body);
  });
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  ++mine().graphs;
  *executable = reinterpret_cast<CUgraphExec>(
      new FakeGraph(*reinterpret_cast<FakeGraph *>(graph)));
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream on) {
  fakeNote("graph_launch");
  return mine().launch(*reinterpret_cast<FakeGraph *>(executable), stream(on));
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  --mine().graphs;
  delete reinterpret_cast<FakeGraph *>(executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<FakeGraph *>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) {
  *name = "FAKE_ERROR";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "as the test wants";
  return CUDA_SUCCESS;
}

} // extern "C"
