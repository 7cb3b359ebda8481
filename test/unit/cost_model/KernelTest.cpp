#include "cost_model/hardware/Kernel.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// TFLOP/s of a product with its traffic.
double rate(const Hardware &hardware, int64_t m, int64_t n, int64_t k) {
  const Device &device = hardware.device;
  const Seconds time =
      maximum(gemmComputeTime(device, {1, m, n, k}, DType::BF16),
              memoryTime(device, KernelClass::Gemm,
                         Bytes(2 * (m * k + k * n + m * n)))) +
      device.kernelLatency;
  return 2.0 * m * n * k / time.count() / 1e12;
}

} // namespace

TEST_CASE("the shape of a product follows from its factors") {
  IterationSpace space;
  space.kernel = KernelClass::Gemm;
  // sbh,ngdh->sbngd: rows s*b, columns n*g*d, depth h.
  space.factors = {{'s', Role::Seq, FactorKind::Parallel, 7},
                   {'b', Role::Batch, FactorKind::Parallel, 2},
                   {'n', Role::Heads, FactorKind::Parallel, 3},
                   {'g', Role::Group, FactorKind::Parallel, 5},
                   {'d', Role::HeadDim, FactorKind::Parallel, 11},
                   {'h', Role::Hidden, FactorKind::Sum, 13}};
  space.operands = {{0, 1, 5}, {2, 3, 4, 5}};
  space.results = {{0, 1, 2, 3, 4}};
  CHECK(gemmShapeOf(space) == GemmShape{1, 14, 165, 13});
}

TEST_CASE("no product is faster than the least for its flops") {
  std::mt19937 random(7);
  for (const char *name : {"dgx-a100", "dgx-h100", "dgx-b200"}) {
    Hardware hardware;
    Failure failure;
    REQUIRE(readHardware(shippedHardware(name), name, hardware, failure));
    const Device &device = hardware.device;
    double nearest = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto any = [&](int most) {
        return int64_t(1) + static_cast<int64_t>(std::exp2(
                   std::uniform_real_distribution<double>(0, most)(random)));
      };
      const GemmShape shape{any(6), any(15), any(15), any(15)};
      const auto kind = static_cast<Narrow>(random() % 5);
      const NarrowRate narrow = narrowRate(device, kind);
      const NarrowRate *rate = narrow.speedup > 0 ? &narrow : nullptr;
      const bool accumulates = random() % 2 == 0;
      const double time =
          gemmComputeTime(device, shape, DType::BF16, accumulates, rate).count();
      const double least =
          leastGemmTime(device,
                        2.0 * static_cast<double>(shape.batch * shape.m) *
                            static_cast<double>(shape.n * shape.k),
                        DType::BF16, accumulates, rate)
              .count();
      CAPTURE(name, shape.batch, shape.m, shape.n, shape.k);
      REQUIRE(least <= time * (1 + 1e-12));
      nearest = std::max(nearest, least / time);
    }
    CHECK(nearest > 0.95); // and some are nearly as fast
  }
}

TEST_CASE("one wave of one tile, by hand") {
  // One unit of one GF/s, half of it sustained: a tile of 4 x 4 over depth 8 +
  // 2 is 2 * 16 * 10 = 320 flops: 0.64 us. 5 x 4 needs two tiles.
  Device device;
  device.computeUnits = 1;
  device.peak.fill(FlopsPerSecond(1e9));
  device.gemm.sustainedFraction = 0.5;
  device.gemm.prologueDepth = 2;
  device.gemm.tiles = {{4, 4, 1}};
  CHECK(gemmComputeTime(device, {1, 4, 4, 8}, DType::F32).count() ==
        Approx(0.64e-6));
  CHECK(gemmComputeTime(device, {1, 5, 4, 8}, DType::F32).count() ==
        Approx(1.28e-6));
  CHECK(gemmComputeTime(device, {3, 4, 4, 8}, DType::F32).count() ==
        Approx(1.92e-6));
  // Two units: three tiles are two waves if quantized, else one and a half.
  device.computeUnits = 2;
  CHECK(gemmComputeTime(device, {3, 4, 4, 8}, DType::F32).count() ==
        Approx(2 * 1.28e-6));
  device.gemm.waveQuantization = 0;
  CHECK(gemmComputeTime(device, {3, 4, 4, 8}, DType::F32).count() ==
        Approx(1.5 * 1.28e-6));
  // Half the clock takes twice as long; accumulation costs its share again.
  device.gemm.powerFraction = 0.5;
  device.gemm.accumulateFraction = 0.8;
  CHECK(gemmComputeTime(device, {3, 4, 4, 8}, DType::F32).count() ==
        Approx(3 * 1.28e-6));
  CHECK(gemmComputeTime(device, {3, 4, 4, 8}, DType::F32, true).count() ==
        Approx(3 * 1.28e-6 / 0.8));
  // In 8 bits: 4 x 4 x 32 has the size 8, half way to four times the rate; at
  // half the clock that is four times as fast, and the limit allows two.
  const NarrowRate narrow{4, 8, 2};
  const auto gain = [&](int64_t k) {
    const GemmShape shape{1, 4, 4, k};
    return gemmComputeTime(device, shape, DType::F32).count() /
           gemmComputeTime(device, shape, DType::F32, false, &narrow).count();
  };
  device.gemm.powerFraction = 1;
  CHECK(gain(32) == Approx(2));
  device.gemm.powerFraction = 0.5;
  CHECK(gain(32) == Approx(2)); // 4 in a short run; the limit allows 2
  const NarrowRate slow{1, 8, 2};
  CHECK(gemmComputeTime(device, {1, 4, 4, 32}, DType::F32, false, &slow) ==
        gemmComputeTime(device, {1, 4, 4, 32}, DType::F32));
}

TEST_CASE("larger products are never faster") {
  for (const std::string &name : shippedHardwareNames()) {
    const Device device = shipped(name).device;
    Seconds before(0);
    for (int64_t size = 64; size <= 16384; size += 64) {
      const Seconds now =
          gemmComputeTime(device, {1, size, size, size}, DType::F32);
      REQUIRE(now >= before);
      before = now;
    }
  }
}

// TFLOP/s of bfloat16 products, ai-dynamo/aiconfigurator commit 095f58a.
TEST_CASE("measured products are met") {
  Hardware a100 = shipped("dgx-a100"), h100 = shipped("dgx-h100"),
           b200 = shipped("dgx-b200");
  // Long runs at the power limit: Azure/AI-benchmarking-guide commit 8fd0c6e,
  // and MooreThreads/SimuMax commit 4dcaae5 (0.487 of peak).
  CHECK(rate(a100, 16384, 16384, 16384) == Approx(256.5).epsilon(0.02));
  CHECK(rate(b200, 4096, 57344, 8192) == Approx(1095).epsilon(0.05));
  for (Hardware *shortRun : {&a100, &h100, &b200})
    shortRun->device.gemm.powerFraction = 1;
  CHECK(rate(a100, 8192, 12288, 12288) == Approx(262.2).epsilon(0.06));
  CHECK(rate(a100, 2048, 6144, 4096) == Approx(252.7).epsilon(0.06));
  CHECK(rate(a100, 8192, 1024, 4096) == Approx(222.9).epsilon(0.16));
  CHECK(rate(h100, 8192, 12288, 12288) == Approx(748).epsilon(0.06));
  CHECK(rate(h100, 2048, 8192, 1024) == Approx(653.8).epsilon(0.12));
  CHECK(rate(b200, 8192, 8192, 8192) == Approx(1528.9).epsilon(0.08));
}

TEST_CASE("narrow products run where the device has them") {
  const Device b200 = shipped("dgx-b200").device,
               h100 = shipped("dgx-h100").device,
               a100 = shipped("dgx-a100").device;
  for (Narrow narrow : narrows)
    CHECK((narrowRate(b200, narrow).speedup > 1) == (narrow != Narrow::None));
  CHECK(narrowRate(h100, Narrow::Fp8Block).speedup > 1);
  CHECK(narrowRate(h100, Narrow::Mxfp8).speedup == 0);
  CHECK(narrowRate(a100, Narrow::Fp8).speedup == 0);
}

TEST_CASE("the first kernel that the device has is used") {
  const Device a100 = shipped("dgx-a100").device,
               h100 = shipped("dgx-h100").device;
  const Profile core = profileOf("megatron-core"),
                old = profileOf("megatron-2022");
  AttentionCurve curve;
  REQUIRE(attentionCurve(h100, core, 128, curve));
  CHECK(curve.variant == AttentionVariant::Flash3);
  REQUIRE(attentionCurve(a100, core, 128, curve));
  CHECK(curve.variant == AttentionVariant::Flash2);
  CHECK_FALSE(attentionCurve(a100, old, 128, curve));
  CHECK(attentionIsUnfused(a100, old));
  // Between two head widths, half way.
  REQUIRE(attentionCurve(a100, core, 96, curve));
  CHECK(curve.forwardFraction == Approx((0.61 + 0.737) / 2));
  // Beyond the last one, the last one.
  REQUIRE(attentionCurve(a100, core, 256, curve));
  CHECK(curve.forwardFraction == Approx(0.737));
}

// FlashAttention-2 forward and backward, 16384 tokens, width 2048, TFLOP/s:
// Dao-AILab/flash-attention assets/flash2_a100_fwd_bwd_benchmark.png.
TEST_CASE("measured attention is met") {
  const Device device = shipped("dgx-a100").device;
  const Profile profile = profileOf("megatron-core");
  const auto measured = [&](int64_t sequence, int64_t width, bool causal) {
    AttentionShape shape{16384 / sequence, 2048 / width, sequence,
                         sequence,         width,        causal};
    const Seconds time =
        attentionTime(device, profile, shape, false, DType::F16, Bytes(0)) +
        attentionTime(device, profile, shape, true, DType::F16, Bytes(0));
    return 14.0 * 16384 * 2048 * static_cast<double>(sequence) /
           (causal ? 2 : 1) / time.count() / 1e12;
  };
  CHECK(measured(2048, 128, false) == Approx(187).epsilon(0.06));
  CHECK(measured(16384, 128, true) == Approx(189).epsilon(0.06));
  CHECK(measured(4096, 128, true) == Approx(173).epsilon(0.06));
  CHECK(measured(4096, 64, true) == Approx(156).epsilon(0.06));
}

TEST_CASE("unfused attention pays for its scores") {
  const Device device = shipped("dgx-a100").device;
  const AttentionShape shape{1, 12, 2048, 2048, 128, true};
  const Seconds fused = attentionTime(device, profileOf("megatron-core"), shape,
                                      false, DType::F16, Bytes(0));
  const Seconds unfused = attentionTime(device, profileOf("megatron-2022"),
                                        shape, false, DType::F16, Bytes(0));
  CHECK(unfused > 3.0 * fused);
}

TEST_CASE("heads of odd widths run padded to a width that has a kernel") {
  CHECK(kernelWidth(AttentionVariant::Flash1, 80) == 128);
  CHECK(kernelWidth(AttentionVariant::Flash2, 80) == 96);
  CHECK(kernelWidth(AttentionVariant::Flash2, 160) == 192);
  CHECK(kernelWidth(AttentionVariant::Flash3, 32) == 64);
  CHECK(kernelWidth(AttentionVariant::Flash3, 128) == 128);
  CHECK(kernelWidth(AttentionVariant::Flash2, 512) == 512);
  CHECK(kernelWidth(AttentionVariant::Host, 80) == 80);
  const Device device = shipped("dgx-a100").device;
  Profile profile;
  profile.attention = {AttentionVariant::Flash1};
  const auto timeOf = [&](int64_t width) {
    AttentionShape shape;
    shape.batch = 4;
    shape.heads = 32;
    shape.queries = shape.keys = 2048;
    shape.headDim = width;
    shape.causal = true;
    return attentionTime(device, profile, shape, false, DType::F16, Bytes(0))
        .count();
  };
  CHECK(timeOf(80) == Approx(timeOf(128)));
  CHECK(timeOf(64) < 0.9 * timeOf(80));
}
