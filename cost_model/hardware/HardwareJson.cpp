//===- HardwareJson.cpp - Reads shardwright.cluster/1 ---------------------===//
#include "cost_model/hardware/Hardware.h"
#include "cost_model/base/Format.h"
#include "cost_model/base/JsonReader.h"

#include <cmath>

namespace shardwright::cost {
namespace {

constexpr DType kPeakTypes[] = {DType::F64, DType::F32, DType::BF16,
                                DType::F16};
constexpr KernelClass kMemoryClasses[] = {
    KernelClass::RowNorm,  KernelClass::Elementwise, KernelClass::ColumnSum,
    KernelClass::Gather,   KernelClass::Scatter,     KernelClass::CrossEntropy,
    KernelClass::Optimizer};
constexpr AttentionVariant kVariants[] = {
    AttentionVariant::Flash1, AttentionVariant::Flash2,
    AttentionVariant::Flash3, AttentionVariant::Host};

// Ends a thousand times and more beyond any machine, that of a desk or of 2030.
constexpr Unit kRate{"bytes a second", 1e7, 1e15, "GB/s", 1e9};
constexpr Unit kBytes{"bytes", 1e6, 1e15, "GB", 1e9};
constexpr Unit kMessage{"bytes", 1e3, 1e12, "MB", 1e6};
constexpr Unit kFlops{"FLOP a second", 1e9, 1e18, "TFLOP/s", 1e12};
constexpr Unit kLatency{"seconds", 0, 0.1, "microseconds", 1e-6};

BytesPerSecond bandwidth(JsonObject &object, const std::string &key,
                         bool orZero = false) {
  return BytesPerSecond(object.figure(key, kRate, orZero));
}

Bytes bytes(JsonObject &object, const std::string &key) {
  const double count = object.figure(key, kBytes);
  if (count != std::floor(count))
    object.complain("/" + key, "expected whole bytes, but got " +
                                   nlohmann::json(count).dump());
  return Bytes(static_cast<int64_t>(count));
}

Seconds latency(JsonObject &object, const std::string &key) {
  return Seconds(object.figure(key, kLatency));
}

void readDevice(JsonObject object, Device &device) {
  device.name = object.string("name");
  device.computeUnits = object.integer("compute_units", 1);
  {
    JsonObject peak = object.child("peak_flops_per_second");
    for (DType dtype : kPeakTypes) {
      const std::string key(name(dtype));
      device.peak[static_cast<size_t>(dtype)] =
          FlopsPerSecond(peak.figure(key, kFlops, /*orZero=*/true));
    }
    peak.source();
    peak.finish();
  }
  {
    JsonObject memory = object.child("memory");
    device.memoryBandwidth = bandwidth(memory, "bytes_per_second");
    device.capacity = bytes(memory, "capacity_bytes");
    device.usable = bytes(memory, "usable_bytes");
    memory.source();
    memory.finish();
  }
  {
    JsonObject kernel = object.child("kernel_latency");
    device.kernelLatency = latency(kernel, "seconds");
    kernel.source();
    kernel.finish();
  }
  {
    JsonObject variation = object.child("speed_variation");
    device.speedDeviation = variation.number("deviation");
    variation.source();
    variation.finish();
  }
  {
    JsonObject gemm = object.child("gemm");
    device.gemm.sustainedFraction = gemm.fraction("sustained_fraction");
    device.gemm.powerFraction = gemm.fraction("power_fraction");
    device.gemm.accumulateFraction = gemm.fraction("accumulate_fraction");
    {
      JsonObject narrow = gemm.child("narrow_speedup");
      JsonObject size = narrow.child("half_size");
      // The energy of a product goes with the width of its operands.
      const auto rate = [&](const char *key, double perEnergy,
                            NarrowRate &result) {
        result = {narrow.number(key), size.number(key), perEnergy};
      };
      rate("fp8_tensor", 2, device.gemm.fp8Tensor);
      rate("fp8_block", 2, device.gemm.fp8Block);
      rate("fp4_block", 4, device.gemm.fp4Block);
      size.finish();
      narrow.source();
      narrow.finish();
    }
    device.gemm.waveQuantization = gemm.number("wave_quantization");
    device.gemm.prologueDepth = gemm.integer("prologue_depth", 0);
    for (JsonObject &tile : gemm.objects("tiles")) {
      device.gemm.tiles.push_back({tile.integer("m", 1), tile.integer("n", 1),
                                   tile.fraction("fraction")});
      tile.finish();
    }
    if (device.gemm.tiles.empty())
      gemm.complain("/tiles", "expected at least one tile");
    gemm.source();
    gemm.finish();
  }
  for (JsonObject &curve : object.objects("attention")) {
    AttentionCurve entry{};
    const std::string variant = curve.string("variant");
    bool known = false;
    for (AttentionVariant candidate : kVariants)
      if (variant == name(candidate)) {
        entry.variant = candidate;
        known = true;
      }
    if (!known)
      curve.complain("/variant", "expected flash1, flash2, flash3 or host, but "
                                 "got '" +
                                     variant + "'");
    entry.headDim = curve.integer("head_dim", 1);
    entry.forwardFraction = curve.fraction("forward_fraction");
    entry.backwardFraction = curve.fraction("backward_fraction");
    entry.halfSequence = curve.number("half_sequence");
    entry.halfSequenceCausal = curve.number("half_sequence_causal");
    curve.source();
    curve.finish();
    device.attention.push_back(entry);
  }
  {
    JsonObject fractions = object.child("memory_bound_fraction");
    for (KernelClass kernel : kMemoryClasses)
      device.memoryFraction[static_cast<size_t>(kernel)] =
          fractions.fraction(std::string(name(kernel)));
    // Products and attention that are short of bandwidth stream like maps.
    for (KernelClass kernel :
         {KernelClass::Gemm, KernelClass::Attention, KernelClass::AttentionGrad,
          KernelClass::GroupedGemm})
      device.memoryFraction[static_cast<size_t>(kernel)] =
          device.memoryFraction[static_cast<size_t>(KernelClass::Elementwise)];
    // Whole rows of the hidden width, in another order: as a lookup.
    device.memoryFraction[static_cast<size_t>(KernelClass::Permute)] =
        device.memoryFraction[static_cast<size_t>(KernelClass::Gather)];
    fractions.source();
    fractions.finish();
  }
  object.finish();
}

void readFabric(JsonObject object, CollectiveFabric &fabric) {
  const std::string model = object.string("model");
  if (model == "nccl") {
    fabric.model = CollectiveModel::Nccl;
    constexpr std::string_view architectures[] = {"volta", "ampere", "hopper",
                                                  "blackwell"};
    const std::string architecture = object.string("architecture");
    fabric.architecture = -1;
    for (int i = 0; i < 4; ++i)
      if (architecture == architectures[i])
        fabric.architecture = i;
    if (fabric.architecture < 0)
      object.complain("/architecture", "expected volta, ampere, hopper or "
                                       "blackwell, but got '" +
                                           architecture + "'");
    if (object.has("links")) {
      const std::string links = object.string("links");
      if (links == "pcie")
        fabric.links = NodeLinks::Pcie;
      else if (links != "nvlink")
        object.complain("/links",
                        "expected nvlink or pcie, but got '" + links + "'");
    }
    if (object.has("switch")) {
      JsonObject behind = object.child("switch");
      fabric.switchRanks = behind.integer("ranks", 2);
      fabric.switchBandwidth = bandwidth(behind, "bytes_per_second");
      behind.finish();
    }
    fabric.ringChannels = object.integer("ring_channels", 1);
    fabric.channelBandwidth = bandwidth(object, "channel_bytes_per_second");
    fabric.nvlsChannels = object.integer("nvls_channels", 0);
    fabric.nvlsIntra = bandwidth(object, "nvls_intra_bytes_per_second", true);
    fabric.nvlsInter = bandwidth(object, "nvls_inter_bytes_per_second", true);
    fabric.rampBytes = object.figure("ramp_bytes", kMessage, /*orZero=*/true);
    fabric.nicFraction = object.fraction("nic_fraction");
  } else if (model == "shared_memory") {
    fabric.model = CollectiveModel::SharedMemory;
  } else {
    object.complain("/model",
                    "expected nccl or shared_memory, but got '" + model + "'");
  }
  fabric.wireFraction = object.fraction("wire_fraction");
  fabric.launch = latency(object, "launch_seconds");
  fabric.p2pFraction = object.fraction("p2p_fraction");
  fabric.p2pLatency = latency(object, "p2p_latency_seconds");
  object.source();
  object.finish();
}

/// Figures that are right alone and not together.
void checkTogether(JsonObject &object, const Hardware &hardware) {
  if (hardware.device.usable > hardware.device.capacity)
    object.complain("/device/memory/usable_bytes",
                    "expected at most capacity_bytes");
  // A ring runs over the links of the node: it cannot be faster than they are.
  const double rings = ringRate(hardware.fabric).count();
  const double links = hardware.levels.front().bandwidth.count();
  if (hardware.fabric.model == CollectiveModel::Nccl && rings > links)
    object.complain("/levels/0/bytes_per_second",
                    "expected at least ring_channels * "
                    "channel_bytes_per_second of /collectives (" +
                        siText(rings) + "B/s), by which reductions and gathers "
                        "inside a node are priced, but got " +
                        siText(links) + "B/s");
}

/// What a cluster file may say beside the machine; absent means unknown.
void readOperations(JsonObject &object, Operations &operations) {
  if (object.has("storage")) {
    JsonObject storage = object.child("storage");
    operations.storageWrite = bandwidth(storage, "bytes_per_second");
    if (storage.has("node_bytes_per_second")) {
      operations.nodeWrite = bandwidth(storage, "node_bytes_per_second");
      operations.nodeLossShare = storage.number("node_loss_share", 0, 1);
    }
    operations.storageSource = storage.source();
    storage.finish();
  }
  if (object.has("failures")) {
    JsonObject failures = object.child("failures");
    operations.failuresPerDeviceDay = failures.number("per_device_day", 0, 1e4);
    operations.restart = Seconds(failures.number("restart_seconds"));
    operations.failureSource = failures.source();
    failures.finish();
  }
  if (object.has("price")) {
    JsonObject price = object.child("price");
    operations.pricePerDeviceHour = price.number("per_device_hour");
    operations.currency = price.string("currency");
    operations.priceSource = price.source();
    price.finish();
  }
}

} // namespace

bool readHardware(std::string_view text, std::string_view file,
                  Hardware &hardware, Failure &failure) {
  nlohmann::json root;
  const std::string where(file);
  const size_t before = failure.messages.size();
  failure.kind = FailureKind::Input;
  if (!parseStrictly(text, where, root, failure))
    return false;
  JsonObject object(root, where + "#", failure);
  object.schema("shardwright.cluster/1");
  Hardware result;
  result.name = object.string("name");
  result.description = object.string("description");
  result.nodes = object.integer("nodes", 1);
  readDevice(object.child("device"), result.device);
  for (JsonObject &entry : object.objects("levels")) {
    Level level;
    level.name = entry.string("name");
    level.size = entry.integer("size", 0);
    level.bandwidth = bandwidth(entry, "bytes_per_second");
    level.latency = latency(entry, "latency_seconds");
    level.nics = entry.integer("nics", 1);
    level.oversubscription = entry.number("oversubscription", 1);
    level.source = entry.source();
    entry.finish();
    result.levels.push_back(level);
  }
  if (result.levels.empty() || result.levels.front().size < 1)
    object.complain("/levels", "expected the node first, with its size");
  else if (result.nodes > 1 && result.levels.size() < 2)
    object.complain("/levels", "expected a level between nodes (nodes > 1)");
  readFabric(object.child("collectives"), result.fabric);
  if (object.has("host")) {
    JsonObject host = object.child("host");
    result.host.link = bandwidth(host, "link_bytes_per_second");
    result.host.memory = bandwidth(host, "memory_bytes_per_second");
    result.host.capacity = bytes(host, "capacity_bytes");
    host.source();
    host.finish();
  }
  readOperations(object, result.operations);
  object.finish();
  if (failure.messages.size() == before)
    checkTogether(object, result);
  if (failure.messages.size() != before)
    return false;
  hardware = std::move(result);
  return true;
}

} // namespace shardwright::cost
