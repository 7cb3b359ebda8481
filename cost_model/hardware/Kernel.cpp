//===- Kernel.cpp - Time of local work on a device ------------------------===//
#include "cost_model/hardware/Kernel.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shardwright::cost {

NarrowRate narrowRate(const Device &device, Narrow narrow) {
  switch (narrow) {
  case Narrow::None: break;
  case Narrow::Fp8: return device.gemm.fp8Tensor;
  case Narrow::Mxfp8: // in the tensor cores that take blocks of fp4
    return device.gemm.fp4Block.speedup > 0 ? device.gemm.fp8Block
                                            : NarrowRate();
  case Narrow::Fp8Block: return device.gemm.fp8Block;
  case Narrow::Fp4Block: return device.gemm.fp4Block;
  }
  return {};
}

namespace {

/// The product of `space` with factor i as large as `sizeOf(i)`.
template <typename SizeOf>
GemmShape shapeOf(const IterationSpace &space, const SizeOf &sizeOf) {
  assert(space.operands.size() >= 2 && !space.results.empty() &&
         "a product has two operands and a result");
  GemmShape shape;
  auto uses = [](const std::vector<int> &dims, int factor) {
    return std::find(dims.begin(), dims.end(), factor) != dims.end();
  };
  for (size_t i = 0; i < space.factors.size(); ++i) {
    const int factor = static_cast<int>(i);
    const int64_t size = sizeOf(space.factors[i]);
    if (!uses(space.results[0], factor))
      shape.k *= size;
    else if (!uses(space.operands[1], factor))
      shape.m *= size;
    else if (!uses(space.operands[0], factor))
      shape.n *= size;
    else
      shape.batch *= size;
  }
  return shape;
}

} // namespace

GemmShape gemmShapeOf(const IterationSpace &space) {
  return shapeOf(space, [](const Factor &factor) { return factor.size; });
}

GemmShape groupedShapeOf(const IterationSpace &space, double busiest) {
  int64_t experts = 1;
  for (const Factor &factor : space.factors)
    if (factor.role == Role::Experts)
      experts = factor.size;
  // The product of one expert.
  GemmShape shape = shapeOf(space, [&](const Factor &factor) -> int64_t {
    if (factor.role == Role::Experts)
      return 1;
    if (factor.role == Role::Rows)
      return static_cast<int64_t>(
          std::ceil(busiest * static_cast<double>(factor.size) /
                    static_cast<double>(experts)));
    return factor.size;
  });
  shape.batch = checkedMul(shape.batch, experts);
  return shape;
}

double arithmeticRate(const Device &device, DType dtype) {
  const double peak = device.peakOf(dtype).count();
  return peak > 0 ? peak : device.peakOf(DType::F32).count();
}

Seconds gemmComputeTime(const Device &device, const GemmShape &shape,
                        DType dtype, bool accumulates,
                        const NarrowRate *narrow) {
  const GemmCurve &curve = device.gemm;
  const double kind = accumulates ? curve.accumulateFraction : 1;
  const double peak = arithmeticRate(device, dtype);
  const double units = static_cast<double>(device.computeUnits);
  // Depth over the share of the sustained rate that is reached.
  const double paid = static_cast<double>(shape.k + curve.prologueDepth);
  double depth = paid / curve.powerFraction;
  if (narrow != nullptr) {
    const double size = std::cbrt(static_cast<double>(shape.m) *
                                  static_cast<double>(shape.n) *
                                  static_cast<double>(shape.k));
    const double speedup = narrow->speedup * size / (size + narrow->halfSize);
    depth = std::min(depth,
                     std::max(paid / speedup, depth / narrow->perEnergy));
  }
  double best = 0;
  for (const GemmTile &tile : curve.tiles) {
    const double tiles = static_cast<double>(shape.batch) *
                         static_cast<double>(ceilDiv(shape.m, tile.m)) *
                         static_cast<double>(ceilDiv(shape.n, tile.n));
    const double even = std::max(1.0, tiles / units);
    const double waves = curve.waveQuantization * std::ceil(tiles / units) +
                         (1 - curve.waveQuantization) * even;
    const double rate =
        peak / units * curve.sustainedFraction * kind * tile.fraction;
    const double time = waves * 2 * static_cast<double>(tile.m) *
                        static_cast<double>(tile.n) * depth / rate;
    if (best == 0 || time < best)
      best = time;
  }
  return Seconds(best);
}

Seconds leastGemmTime(const Device &device, double flops, DType dtype,
                      bool accumulates, const NarrowRate *narrow) {
  const GemmCurve &curve = device.gemm;
  double tile = 0;
  for (const GemmTile &each : curve.tiles)
    tile = std::max(tile, each.fraction);
  double depth = 1 / curve.powerFraction;
  if (narrow != nullptr)
    depth = std::min(depth, std::max(1 / narrow->speedup,
                                     depth / narrow->perEnergy));
  return Seconds(flops * depth /
                 (arithmeticRate(device, dtype) * curve.sustainedFraction *
                  (accumulates ? curve.accumulateFraction : 1) * tile));
}

Seconds memoryTime(const Device &device, KernelClass kernel, Bytes bytes) {
  return bytes /
         BytesPerSecond(device.memoryBandwidth.count() *
                        device.memoryFraction[static_cast<size_t>(kernel)]);
}

AttentionShape attentionShapeOf(const IterationSpace &space) {
  AttentionShape shape;
  shape.causal = space.causal;
  shape.window = space.window;
  shape.chunk = space.chunk;
  const AttentionWidths widths = attentionWidths(space);
  shape.headDim = widths.keys;
  shape.valueDim = widths.values;
  for (const Factor &factor : space.factors)
    switch (factor.role) {
    case Role::Batch:
      shape.batch *= factor.size;
      break;
    case Role::Heads:
    case Role::Group:
      shape.heads *= factor.size;
      break;
    case Role::Seq:
      shape.queries *= factor.size;
      break;
    case Role::KvSeq:
      shape.keys *= factor.size;
      break;
    case Role::HeadDim:
    case Role::ValueDim:
    case Role::Experts:
    case Role::Choice:
    case Role::Rows:
    case Role::Latent:
    case Role::Hidden:
    case Role::Ffn:
    case Role::Vocab:
    case Role::Position:
    case Role::Flat:
      break;
    }
  return shape;
}

int64_t kernelWidth(AttentionVariant variant, int64_t headDim) {
  // Dao-AILab/flash-attention: v1 csrc/flash_attn/fmha_api.cpp; v2
  // csrc/flash_attn/src/static_switch.h, HEADDIM_SWITCH; v3 hopper/
  // flash_api.cpp, round_up_headdim.
  static constexpr int64_t first[] = {32, 64, 128};
  static constexpr int64_t second[] = {32, 64, 96, 128, 192, 256};
  static constexpr int64_t third[] = {64, 96, 128, 192, 256};
  const auto padded = [&](const auto &widths) {
    const auto found = std::lower_bound(std::begin(widths), std::end(widths),
                                        headDim);
    return found == std::end(widths) ? headDim : *found;
  };
  switch (variant) {
  case AttentionVariant::Flash1: return padded(first);
  case AttentionVariant::Flash2: return padded(second);
  case AttentionVariant::Flash3: return padded(third);
  case AttentionVariant::Unfused:
  case AttentionVariant::Host: return headDim;
  }
  return headDim;
}

bool attentionCurve(const Device &device, const Profile &profile,
                    int64_t headDim, AttentionCurve &curve) {
  for (AttentionVariant variant : profile.attention) {
    if (variant == AttentionVariant::Unfused)
      return false;
    const int64_t width = kernelWidth(variant, headDim);
    const AttentionCurve *below = nullptr, *above = nullptr;
    for (const AttentionCurve &entry : device.attention) {
      if (entry.variant != variant)
        continue;
      if (entry.headDim <= width &&
          (below == nullptr || entry.headDim > below->headDim))
        below = &entry;
      if (entry.headDim >= width &&
          (above == nullptr || entry.headDim < above->headDim))
        above = &entry;
    }
    if (below == nullptr && above == nullptr)
      continue;
    if (below == nullptr)
      below = above;
    if (above == nullptr)
      above = below;
    curve = *below;
    curve.headDim = width;
    if (above != below) {
      const double share = static_cast<double>(width - below->headDim) /
                           static_cast<double>(above->headDim - below->headDim);
      auto mix = [&](double a, double b) { return a + share * (b - a); };
      curve.forwardFraction =
          mix(below->forwardFraction, above->forwardFraction);
      curve.backwardFraction =
          mix(below->backwardFraction, above->backwardFraction);
      curve.halfSequence = mix(below->halfSequence, above->halfSequence);
      curve.halfSequenceCausal =
          mix(below->halfSequenceCausal, above->halfSequenceCausal);
    }
    return true;
  }
  return false;
}

bool attentionIsUnfused(const Device &device, const Profile &profile) {
  AttentionCurve curve;
  return !attentionCurve(device, profile, 128, curve);
}

namespace {

/// One batched product of unfused attention, with the traffic of its matrices.
Seconds scoreProduct(const Device &device, const Profile &profile,
                     const GemmShape &shape, DType dtype) {
  const int64_t elements = checkedMul(
      shape.batch, checkedAdd(checkedAdd(checkedMul(shape.m, shape.k),
                                         checkedMul(shape.k, shape.n)),
                              checkedMul(shape.m, shape.n)));
  return kernelTime(device, profile, gemmComputeTime(device, shape, dtype),
                    memoryTime(device, KernelClass::Gemm,
                               Bytes(checkedMul(elements, byteWidth(dtype)))));
}

} // namespace

Seconds attentionTime(const Device &device, const Profile &profile,
                      const AttentionShape &shape, bool backward, DType dtype,
                      Bytes bytes) {
  const KernelClass kernel =
      backward ? KernelClass::AttentionGrad : KernelClass::Attention;
  AttentionCurve curve;
  if (attentionCurve(device, profile, shape.headDim, curve)) {
    double pairs = shape.causal ? static_cast<double>(shape.queries) *
                                      static_cast<double>(shape.keys + 1) / 2
                                : static_cast<double>(shape.queries) *
                                      static_cast<double>(shape.keys);
    // A query's row of scores is as long as its window or chunk.
    int64_t row = shape.keys;
    for (int64_t bound : {shape.window, shape.chunk})
      if (bound > 0)
        row = std::min(row, bound);
    if (row < shape.keys)
      pairs = static_cast<double>(
          attentionPairs(shape.queries, shape.keys, shape.causal, shape.window,
                         shape.chunk));
    const double wide = static_cast<double>(curve.headDim);
    const double values =
        shape.valueDim > 0 ? static_cast<double>(shape.valueDim) : wide;
    const double perPair =
        backward ? 6.0 * wide + 4.0 * values : 2.0 * wide + 2.0 * values;
    const double flops = perPair * pairs * static_cast<double>(shape.batch) *
                         static_cast<double>(shape.heads);
    const double half =
        shape.causal ? curve.halfSequenceCausal : curve.halfSequence;
    const double keys = static_cast<double>(row);
    const double fraction =
        (backward ? curve.backwardFraction : curve.forwardFraction) * keys /
        (keys + half);
    return kernelTime(
        device, profile,
        Seconds(flops / (arithmeticRate(device, dtype) * fraction)),
        memoryTime(device, kernel, bytes));
  }
  const int64_t batch = checkedMul(shape.batch, shape.heads);
  // Forward: Q K^T sums over the head width, P V over the keys. Backward, with
  // P saved: dP is of the first form, dV, dQ and dK of the second.
  const Seconds wide =
      scoreProduct(device, profile,
                   {batch, shape.queries, shape.keys, shape.headDim}, dtype);
  const Seconds deep =
      scoreProduct(device, profile,
                   {batch, shape.queries, shape.headDim, shape.keys}, dtype);
  const double scores = static_cast<double>(batch) *
                        static_cast<double>(shape.queries) *
                        static_cast<double>(shape.keys);
  const double traffic = scores * (backward ? profile.scoreBytesBackward
                                            : profile.scoreBytesForward);
  const Seconds softmax = kernelTime(
      device, profile, Seconds(0),
      memoryTime(device, kernel, Bytes(static_cast<int64_t>(traffic))));
  const Seconds products = backward ? wide + deep + deep + deep : wide + deep;
  return products + softmax;
}

} // namespace shardwright::cost
