//===- Hardware.h - A cluster as an immutable value -------------*- C++ -*-===//
//
// What a machine can do, and nothing about any model. Schema of the files:
// "shardwright.cluster/1" (data/hardware/*.json); every figure has a source.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_HARDWARE_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_HARDWARE_H

#include "cost_model/base/Failure.h"
#include "cost_model/hardware/Operations.h"
#include "cost_model/plan/Plan.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

inline constexpr int kDTypeCount = 5;        ///< enumerators of DType
inline constexpr int kKernelClassCount = 12; ///< enumerators of KernelClass

/// A block of the result that one compute unit makes at a time.
struct GemmTile {
  int64_t m, n;
  double fraction; ///< of the sustained rate that this tile reaches
};

/// Products of 8 or 4 bits against those of 16. In short runs a product of
/// m x n x k is speedup * g / (g + halfSize) times faster, g the cube root of
/// m n k.
struct NarrowRate {
  double speedup = 0; ///< of the largest; 0: cannot
  double halfSize = 0;
  /// Products for the energy of one of 16 bits: the power limit allows as many
  /// times its rate.
  double perEnergy = 1;
};

/// Rate of matrix products. See gemmComputeTime in Kernel.h for the formula.
struct GemmCurve {
  double sustainedFraction = 1; ///< of peak, best tile, deep and large
  /// Clock under minutes of products at the power limit / the clock of the
  /// short runs that the rest of the curve is fitted to.
  double powerFraction = 1;
  double waveQuantization = 1; ///< share of the last wave's idle units paid
  double accumulateFraction =
      1; ///< of the rate, where the result is added to an f32 matrix
  int64_t prologueDepth = 0; ///< depth (k) whose time a tile pays extra
  std::vector<GemmTile> tiles;
  NarrowRate fp8Tensor, fp8Block, fp4Block; ///< by how they are scaled
};

/// How attention is computed.
enum class AttentionVariant { Unfused, Flash1, Flash2, Flash3, Host };
std::string_view name(AttentionVariant variant);

/// Fractions of peak that a fused attention kernel reaches on long sequences,
/// and the sequence length at which it reaches half of that.
struct AttentionCurve {
  AttentionVariant variant;
  int64_t headDim;
  double forwardFraction, backwardFraction;
  double halfSequence, halfSequenceCausal;
};

struct Device {
  std::string name;
  int64_t computeUnits = 1;
  std::array<FlopsPerSecond, kDTypeCount> peak{}; ///< 0: cannot
  BytesPerSecond memoryBandwidth;                 ///< datasheet
  Bytes capacity;
  Bytes usable;          ///< what the driver leaves of it
  Seconds kernelLatency; ///< start and end of one kernel on the device
  /// Standard deviation of the speed of devices of this kind, relative. Ranks
  /// that meet in a step wait for the slowest of them.
  double speedDeviation = 0;
  GemmCurve gemm;
  std::vector<AttentionCurve> attention;
  /// Fraction of memoryBandwidth that kernels of a class reach.
  std::array<double, kKernelClassCount> memoryFraction{};

  FlopsPerSecond peakOf(DType dtype) const {
    return peak[static_cast<size_t>(dtype)];
  }
};

/// A domain of the network: all ranks with the same index / size.
struct Level {
  std::string name;
  int64_t size = 1;            ///< ranks in one domain; 0: all ranks
  BytesPerSecond bandwidth;    ///< of one link, one direction, as rated
  Seconds latency;             ///< of one hop, as rated
  int64_t nics = 1;            ///< links of one lower domain (or rank) into it
  double oversubscription = 1; ///< >= 1: share of the links that is missing
  std::string source;
};

/// Which formulas price a collective.
enum class CollectiveModel {
  Nccl,         ///< algorithm and protocol chosen as NCCL chooses
  SharedMemory, ///< ranks in order read each other's memory (host backend)
};

/// What carries bytes between the devices of a node.
enum class NodeLinks { NvLink, Pcie };

/// What NCCL finds on a node, and how its tuner's times relate to real ones.
struct CollectiveFabric {
  CollectiveModel model = CollectiveModel::Nccl;
  int architecture =
      1; ///< row of NCCL's tables: 0 Volta 1 Ampere 2 Hopper 3 Blackwell
  NodeLinks links = NodeLinks::NvLink;
  int64_t ringChannels = 1;
  BytesPerSecond channelBandwidth;     ///< per ring channel, inside a node
  /// Neighbours behind one PCIe switch, and the rate of a ring that stays there;
  /// 1: each device has a port of its own.
  int64_t switchRanks = 1;
  BytesPerSecond switchBandwidth;
  int64_t nvlsChannels = 0;            ///< 0: no NVLS
  BytesPerSecond nvlsIntra, nvlsInter; ///< per NVLS channel
  double wireFraction = 1; ///< measured large-message rate / graph rate
  double rampBytes = 0;    ///< message at which half the rate is reached
  Seconds launch;          ///< measured floor beyond the tuner's latency
  double nicFraction = 1;  ///< of a NIC's rate that transfers reach
  double p2pFraction = 1;  ///< of an NVLink path that a send reaches
  Seconds p2pLatency;      ///< of one send and receive, between nodes
};

/// Of all channels of a ring inside a node.
constexpr BytesPerSecond ringRate(const CollectiveFabric &fabric) {
  return static_cast<double>(fabric.ringChannels) * fabric.channelBandwidth;
}

/// The host's memory, to which the optimizer may move; rates and bytes of one
/// device's share.
struct HostMemory {
  BytesPerSecond link;   ///< to the device, one way, as rated; 0: unknown
  BytesPerSecond memory; ///< as rated
  Bytes capacity;
  bool known() const { return link.count() > 0; }
};
/// Shares of its rates that transfers and an update reach; sources: Constants.
inline constexpr double kHostLinkFraction = 0.86;
inline constexpr double kHostUpdateFraction = 0.33;

/// A device that is slower than its kind: all its compute takes 1 / speed.
struct SlowRank {
  int64_t rank;
  double speed; ///< (0, 1]
};

/// A cluster. Ranks are numbered node by node.
struct Hardware {
  std::string name;
  std::string description;
  int64_t nodes = 1;
  Device device;
  std::vector<Level> levels; ///< inner to outer; levels[0] is the node
  CollectiveFabric fabric;
  HostMemory host;
  Operations operations;           ///< what the file says of storage and money
  std::vector<SlowRank> slowRanks; ///< in no file; a question may ask

  int64_t ranksPerNode() const { return levels.front().size; }
  int64_t ranks() const { return nodes * ranksPerNode(); }
};

/// The same kind of cluster with `ranks` devices: whole nodes, or part of one.
/// Returns false with a Usage failure if `ranks` is neither.
bool resized(const Hardware &hardware, int64_t ranks, Hardware &result,
             Failure &failure);

/// Reads a cluster file. Unknown, missing and duplicate keys are errors.
bool readHardware(std::string_view text, std::string_view file,
                  Hardware &hardware, Failure &failure);

/// Text of a shipped cluster file, or null; names in alphabetical order.
const char *shippedHardware(std::string_view name);
std::vector<std::string> shippedHardwareNames();

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_HARDWARE_H
