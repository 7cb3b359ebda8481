//===- Bench.cpp - Times of products and attention on a GPU ---------------===//
//
// Calls what compiled programs call. One JSON object a line; times are of the
// whole call on the device, the median of up to 20 batches.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/Job.h"
#include "runtime/src/backend/cuda/OpenCudaDevice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace shardwright::runtime;

namespace {

constexpr int batches = 20, calls = 10;
/// Of a measurement: a slow call is not repeated as often.
constexpr double longest = 2;

double medianSeconds(sw_rt_context &context,
                     const std::function<void()> &call) {
  call();
  context.device->wait();
  const auto begin = Clock::now();
  call();
  context.device->wait();
  std::vector<double> seconds{secondsSince(begin)};
  if (seconds[0] * calls < longest)
    seconds.clear(); // that was the second call: clocks still rise
  while (seconds.size() < batches && secondsSince(begin) < longest) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i)
      call();
    context.device->wait();
    seconds.push_back(secondsSince(start) / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

sw_rt_status run(sw_rt_context &context) {
  std::string why;
  DeviceMemory memory;
  constexpr int64_t bytes = int64_t(6) << 30;
  if (!memory.create(*context.device, bytes, why))
    return context.fail(SW_RT_OUT_OF_MEMORY, why);
  // Finite numbers that are not all alike: power and so clocks depend on them.
  std::vector<uint16_t> values(1 << 24);
  uint32_t state = 1;
  for (uint16_t &value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>(0x3f00 + (state >> 25) +
                                  (state >> 9 & 0x8000)); // +-0.5 to +-2
  }
  for (int64_t at = 0; at < bytes;
       at += static_cast<int64_t>(values.size()) * 2)
    if (sw_rt_status status = context.device->toDevice(
            memory.at() + at, values.data(),
            static_cast<int64_t>(values.size()) * 2))
      return status;
  const int64_t part = bytes / 6;

  struct Product {
    int64_t m, n, k;
    bool ta, tb;
    sw_rt_dtype out;
  };
  // A layer of 4096 hidden at 4096 tokens: forward, data and weight gradient;
  // a square one; a narrow one.
  for (const Product &x :
       {Product{4096, 4096, 4096, false, true, SW_RT_BF16},
        Product{4096, 11008, 4096, false, true, SW_RT_BF16},
        Product{4096, 4096, 11008, false, false, SW_RT_BF16},
        Product{11008, 4096, 4096, true, false, SW_RT_F32},
        Product{8192, 8192, 8192, false, true, SW_RT_BF16},
        Product{4096, 256, 4096, false, true, SW_RT_BF16}}) {
    const double seconds = medianSeconds(context, [&] {
      sw_rt_matmul(&context, SW_RT_BF16, x.out, x.ta, x.tb, x.m, x.n, x.k,
                   memory.at(), memory.at() + part, memory.at() + 2 * part, 0);
    });
    std::printf("{\"what\": \"matmul\", \"m\": %ld, \"n\": %ld, \"k\": %ld, "
                "\"transpose_a\": %d, \"transpose_b\": %d, \"output\": \"%s\", "
                "\"seconds\": %.9f, \"flops_per_second\": %.6g}\n",
                x.m, x.n, x.k, x.ta, x.tb, name(x.out), seconds,
                2.0 * x.m * x.n * x.k / seconds);
    std::fflush(stdout); // who ends this early wants what there is
  }

  struct Shape {
    int64_t s, b, n, g, d;
  };
  for (const Shape &x :
       {Shape{1024, 8, 8, 4, 128}, Shape{2048, 4, 8, 4, 128},
        Shape{4096, 2, 8, 4, 128}, Shape{8192, 1, 8, 4, 128},
        Shape{16384, 1, 8, 4, 128}, Shape{1024, 16, 12, 1, 64}})
    for (bool isBackward : {false, true}) {
      sw_rt_attention_shape shape{};
      shape.s = shape.t = x.s;
      shape.b = x.b;
      shape.n = x.n;
      shape.g = x.g;
      shape.d = x.d;
      shape.scale = 1 / std::sqrt(double(x.d));
      shape.causal = 1;
      char *const at = memory.at();
      const int64_t piece = part / 2; // 512 MiB; the largest q is 128 MiB
      sw_rt_attention_fwd(&context, SW_RT_BF16, &shape, at, at + piece,
                          at + 2 * piece, at + 3 * piece, at + 4 * piece);
      const double seconds = medianSeconds(context, [&] {
        if (isBackward)
          sw_rt_attention_bwd(&context, SW_RT_BF16, &shape, at + 5 * piece, at,
                              at + piece, at + 2 * piece, at + 3 * piece,
                              at + 4 * piece, at + 6 * piece, at + 7 * piece,
                              at + 8 * piece);
        else
          sw_rt_attention_fwd(&context, SW_RT_BF16, &shape, at, at + piece,
                              at + 2 * piece, at + 3 * piece, at + 4 * piece);
      });
      const double pairs = 0.5 * x.s * (x.s + 1.0);
      std::printf("{\"what\": \"attention\", \"backward\": %s, \"s\": %ld, "
                  "\"b\": %ld, \"kv_heads\": %ld, \"group\": %ld, \"d\": %ld, "
                  "\"seconds\": %.9f, \"flops_per_second\": %.6g}\n",
                  isBackward ? "true" : "false", x.s, x.b, x.n, x.g, x.d,
                  seconds,
                  (isBackward ? 10.0 : 4.0) * x.b * x.n * x.g * x.d * pairs /
                      seconds);
      std::fflush(stdout);
    }
  return context.status;
}

} // namespace

int main() {
  JobOptions options{Mesh({{"tp", 1}}), 120};
  options.openDevice = [](sw_rt_context &context, sw_rt_status &failure,
                          std::string &why) {
    return openCudaDevice(context, nullptr, {}, failure, why);
  };
  const JobResult result = runOnThreads(options, run);
  if (result.status == SW_RT_OK)
    return 0;
  std::fprintf(stderr, "error: %s\n", result.message.c_str());
  return result.status == SW_RT_UNSUPPORTED ? 3 : 2;
}
