//===- Kernel.h - Time of local work on a device ----------------*- C++ -*-===//
//
// Roofline: the later of arithmetic and memory, each at the rate that the
// device reaches at this shape (curves of the cluster file), plus the latency
// of a kernel. Sizes are local: what one rank computes.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_KERNEL_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_KERNEL_H

#include "cost_model/hardware/Profile.h"

namespace shardwright::cost {

/// `batch` independent products of an m x k with a k x n matrix.
struct GemmShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool operator==(const GemmShape &) const = default;
};

/// What products in `narrow` reach; speedup 0 if the device has none. Both kinds
/// of fp8 in blocks are on one curve: the tables do not tell them apart.
NarrowRate narrowRate(const Device &device, Narrow narrow);

/// The product that a Gemm space is: factors of the result alone are batch if
/// both operands have them, m if only the first has, n if only the second has;
/// factors of no result are k.
GemmShape gemmShapeOf(const IterationSpace &space);

/// The products that a GroupedGemm space is: one per expert of this rank
/// (batch), over its share of the rows, all alike (rows / experts, rounded up).
/// `busiest`: rows of the expert with most work over the mean.
GemmShape groupedShapeOf(const IterationSpace &space, double busiest = 1);

/// Flops per second of a type; f32's where the device has none of its own and
/// converts.
double arithmeticRate(const Device &device, DType dtype);

/// Arithmetic time of a product: for the best tile (tm, tn, e),
///   tiles = batch * ceil(m / tm) * ceil(n / tn),  w = tiles / units,
///   waves = q * ceil(w) + (1 - q) * max(1, w)     (q: wave_quantization)
///   time  = waves * 2 tm tn (k + prologue_depth)
///           / (peak / units * sustained * power * e)
/// Tiles are padded, so that narrow products waste what a tile wastes; the
/// last wave is idle in part, unless the library splits work evenly (q = 0).
/// `accumulates`: the result is added to an f32 matrix. `narrow`: of 8 or 4
/// bits, faster by the speedup of its size in short runs, but no faster than
/// perEnergy times the rate at the power limit, and no slower than in 16 bits.
Seconds gemmComputeTime(const Device &device, const GemmShape &shape,
                        DType dtype, bool accumulates = false,
                        const NarrowRate *narrow = nullptr);

/// No product of `flops` takes less arithmetic time, whatever its shape: what is
/// left of gemmComputeTime without padding, waves and prologue.
Seconds leastGemmTime(const Device &device, double flops, DType dtype,
                      bool accumulates, const NarrowRate *narrow);

/// Time to stream `bytes` by kernels of a class.
Seconds memoryTime(const Device &device, KernelClass kernel, Bytes bytes);

/// Sequences, query heads, queries, keys and head width of local attention.
struct AttentionShape {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t headDim = 1;  ///< of queries and keys
  bool causal = false;
  int64_t window = 0; ///< keys that a query sees at most; 0 if all
  int64_t chunk = 0;  ///< positions that meet each other alone; 0 if all
  int64_t valueDim = 0; ///< width of values; 0: headDim
};
AttentionShape attentionShapeOf(const IterationSpace &space);

/// The head width that the kernel runs with: heads of widths between those that
/// it was compiled for are padded to the next.
int64_t kernelWidth(AttentionVariant variant, int64_t headDim);

/// The curve of the first of the profile's kernels that the device has, of its
/// kernelWidth, interpolated between the two nearest; false for Unfused.
bool attentionCurve(const Device &device, const Profile &profile,
                    int64_t headDim, AttentionCurve &curve);

/// Whether attention runs as separate products and a softmax.
bool attentionIsUnfused(const Device &device, const Profile &profile);

/// Fused: flops of the unmasked pairs, heads padded to kernelWidth, over the
/// curve's rate; `bytes` is the
/// traffic of its operands and results.
/// Unfused: 2 (forward) or 4 (backward) batched products over all pairs, and
/// the memory traffic of the scores.
Seconds attentionTime(const Device &device, const Profile &profile,
                      const AttentionShape &shape, bool backward, DType dtype,
                      Bytes bytes);

/// Time of one kernel: arithmetic and memory overlap, then its latency. (What
/// the host needs to launch it runs ahead: see LayerProfile.)
inline Seconds kernelTime(const Device &device, const Profile &,
                          Seconds compute, Seconds memory) {
  return maximum(compute, memory) + device.kernelLatency;
}

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_KERNEL_H
