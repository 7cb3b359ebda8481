//===- GpuAttention.cpp - Attention on a GPU ------------------------------===//
#include "runtime/src/backend/cuda/GpuAttention.h"
#include "runtime/src/backend/cuda/Kernels.h"
#include "runtime/src/backend/cuda/MemoryBesideArena.h"
#include "runtime/src/compute/Attention.h"
#include "runtime/src/train/Stage.h"

namespace shardwright::runtime {

GpuAttention::~GpuAttention() {
  plans.clear();
  if (handle)
    cudnn->cudnnDestroy(handle);
  for (auto &[values, memory] : slopes)
    gpu.release(memory);
}

bool GpuAttention::open(std::string &why) {
  if (!cudnn)
    return true;
  cudnnStatus_t status = cudnn->cudnnCreate(&handle);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cudnn->cudnnSetStream(
        handle, reinterpret_cast<cudaStream_t>(gpu.getStream()));
  else
    handle = nullptr;
  if (status == CUDNN_STATUS_SUCCESS)
    return true;
  why = std::string("expected cuDNN to start, but got ") +
        cudnn->cudnnGetErrorString(status);
  return false;
}

bool GpuAttention::check(cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return true;
  context.fail(SW_RT_INVALID_ARGUMENT,
               std::string("expected ") + what + " on rank " +
                   std::to_string(context.rank()) + " to run, but cuDNN says " +
                   cudnn->cudnnGetErrorString(status));
  return false;
}

// The causal diagonal of the graph starts at the top left, ours ends at the
// bottom right: the same if there are as many queries as keys. Head sizes are
// those that every GPU from 8.0 on has engines for, in both directions.
bool GpuAttention::suitsCudnn(const AttentionCall &call) const {
  const sw_rt_attention_shape &x = call.shape;
  return handle && call.dtype == SW_RT_BF16 && x.s == x.t && x.s > 1 &&
         x.d % 8 == 0 && x.d <= 128 && x.softcap == 0 && x.alibi == 0 &&
         (x.window == 0 || x.causal);
}

int64_t GpuAttention::prepare(const sw_rt_device_code &code) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < code.num_attentions; ++i) {
    const sw_rt_attention_use &use = code.attentions[i];
    const AttentionCall call{static_cast<sw_rt_dtype>(use.dtype), *use.shape,
                             nullptr, nullptr, nullptr, nullptr, nullptr};
    if (const CudnnAttention *plan = planOf(call, use.backward))
      bytes = std::max(bytes, attentionScratch(*use.shape, false).statistics +
                                  plan->scratchBytes());
  }
  return bytes;
}

CudnnAttention *GpuAttention::planOf(const AttentionCall &call,
                                     bool isBackward) {
  if (!suitsCudnn(call))
    return nullptr;
  const sw_rt_attention_shape &x = call.shape;
  int64_t scaleBits = 0;
  std::memcpy(&scaleBits, &x.scale, sizeof(scaleBits));
  const Key key{x.s, x.t,      x.b,      x.n,       x.g,
                x.d, x.window, x.causal, scaleBits, isBackward};
  auto [at, isNew] = plans.try_emplace(key);
  if (isNew) {
    std::string why; // a shape without an engine is ours, and no failure
    const CudnnTarget target{cudnn, handle};
    at->second = isBackward ? CudnnAttention::backward(target, x, why)
                            : CudnnAttention::forward(target, x, why);
  }
  return at->second.get();
}

sw_rt_status GpuAttention::transpose(const void *input, void *output,
                                     int64_t rows, int64_t columns) {
  return gpu.launchOwn(
      "sw_transpose_f32",
      (rows * columns + kernels::threads - 1) / kernels::threads,
      kernels::threads,
      kernels::Transpose{static_cast<const float *>(input),
                         static_cast<float *>(output), rows, columns});
}

void GpuAttention::forward(const AttentionCall &call) {
  if (context.status != SW_RT_OK)
    return;
  CudnnAttention *plan = planOf(call, false);
  if (!plan)
    return own(call, false);
  const sw_rt_attention_shape &x = call.shape;
  const int64_t heads = x.b * x.n * x.g;
  const int64_t stats = attentionScratch(x, false).statistics;
  char *scratch = gpu.scratch(stats + plan->scratchBytes());
  if (!scratch || !check(plan->runForward(call.q, call.k, call.v, call.o,
                                          scratch, scratch + stats),
                         "attention"))
    return;
  transpose(scratch, call.lse, heads, x.s);
  ++byCudnn;
}

void GpuAttention::backward(const AttentionCall &call) {
  if (context.status != SW_RT_OK)
    return;
  CudnnAttention *plan = planOf(call, true);
  if (!plan)
    return own(call, true);
  const sw_rt_attention_shape &x = call.shape;
  const int64_t heads = x.b * x.n * x.g;
  const int64_t stats = attentionScratch(x, false).statistics;
  char *scratch = gpu.scratch(stats + plan->scratchBytes());
  if (!scratch || transpose(call.lse, scratch, x.s, heads) != SW_RT_OK ||
      gpu.fill(scratch + stats, 0, plan->zeroedBytes()) != SW_RT_OK)
    return;
  check(plan->runBackward(call.gradO, call.q, call.k, call.v, call.o, scratch,
                          call.gradQ, call.gradK, call.gradV, scratch + stats),
        "the gradient of attention");
  ++byCudnn;
}

const double *GpuAttention::slopesOf(const sw_rt_attention_shape &shape,
                                     bool &failed) {
  const std::vector<double> values = alibiSlopes(context, shape);
  failed = false;
  if (values.empty())
    return nullptr;
  auto [at, isNew] = slopes.try_emplace(values);
  if (isNew) {
    const int64_t bytes = static_cast<int64_t>(values.size()) * 8;
    std::string why;
    char *memory = gpu.allocate(bytes, why);
    // From the key, which stays.
    failed =
        !memory || gpu.toDevice(memory, at->first.data(), bytes) != SW_RT_OK;
    if (!memory)
      context.fail(SW_RT_OUT_OF_MEMORY,
                   "expected memory for slopes of attention, but " + why);
    if (!memory) {
      slopes.erase(at);
      return nullptr;
    }
    at->second = memory;
  }
  return reinterpret_cast<const double *>(at->second);
}

void GpuAttention::own(const AttentionCall &call, bool isBackward) {
  const sw_rt_attention_shape &x = call.shape;
  const char *suffix = call.dtype == SW_RT_BF16  ? "bf16"
                       : call.dtype == SW_RT_F32 ? "f32"
                       : call.dtype == SW_RT_F64 ? "f64"
                                                 : nullptr;
  if (!suffix || x.d > kernels::largestHead) {
    context.fail(SW_RT_UNSUPPORTED,
                 "expected attention in f64, f32 or bf16 with heads of up to " +
                     std::to_string(kernels::largestHead) + ", but got " +
                     name(call.dtype) + " with heads of " +
                     std::to_string(x.d));
    return;
  }
  bool failed = false;
  kernels::Attention parameters{};
  parameters.q = call.q;
  parameters.k = call.k;
  parameters.v = call.v;
  parameters.gradO = call.gradO;
  parameters.o = call.o;
  parameters.gradQ = call.gradQ;
  parameters.gradK = call.gradK;
  parameters.gradV = call.gradV;
  parameters.lse = call.lse;
  parameters.slopes = slopesOf(x, failed);
  parameters.s = x.s;
  parameters.t = x.t;
  parameters.b = x.b;
  parameters.n = x.n;
  parameters.g = x.g;
  parameters.d = x.d;
  parameters.window = x.window;
  parameters.scale = x.scale;
  parameters.softcap = x.softcap;
  parameters.causal = x.causal;
  if (failed)
    return;
  constexpr int64_t warps = kernels::threads / kernels::warpThreads;
  auto run = [&](const char *entry, int64_t count) {
    gpu.launchOwn(std::string(entry) + suffix, (count + warps - 1) / warps,
                  kernels::threads, parameters);
  };
  const int64_t queries = x.s * x.b * x.n * x.g;
  if (isBackward) {
    run("sw_attention_grad_q_", queries);
    run("sw_attention_grad_kv_", x.t * x.b * x.n);
  } else {
    run("sw_attention_forward_", queries);
  }
  ++byOwn;
}

} // namespace shardwright::runtime
