//===- HardwareJson.cpp - Reads shardwright.cluster/1 ---------------------===//
#include "cost_model/hardware/Hardware.h"
#include "cost_model/base/JsonReader.h"

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

void readDevice(JsonObject object, Device &device) {
  device.name = object.string("name");
  device.computeUnits = object.integer("compute_units", 1);
  {
    JsonObject peak = object.child("peak_flops_per_second");
    for (DType dtype : kPeakTypes) {
      const std::string key(name(dtype));
      const double value = peak.number(key);
      if (value > 0 && value < 1)
        peak.complain("/" + key, "expected 0 or a number >= 1, but got " +
                                     nlohmann::json(value).dump());
      device.peak[static_cast<size_t>(dtype)] = FlopsPerSecond(value);
    }
    peak.source();
    peak.finish();
  }
  {
    JsonObject memory = object.child("memory");
    device.memoryBandwidth =
        BytesPerSecond(memory.number("bytes_per_second", 1));
    device.capacity = Bytes(memory.integer("capacity_bytes", 1));
    device.usable = Bytes(memory.integer("usable_bytes", 1));
    if (device.usable > device.capacity)
      memory.complain("/usable_bytes", "expected at most capacity_bytes");
    memory.source();
    memory.finish();
  }
  {
    JsonObject latency = object.child("kernel_latency");
    device.kernelLatency = Seconds(latency.number("seconds"));
    latency.source();
    latency.finish();
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
      fabric.switchBandwidth =
          BytesPerSecond(behind.number("bytes_per_second", 1));
      behind.finish();
    }
    fabric.ringChannels = object.integer("ring_channels", 1);
    fabric.channelBandwidth =
        BytesPerSecond(object.number("channel_bytes_per_second", 1));
    fabric.nvlsChannels = object.integer("nvls_channels", 0);
    fabric.nvlsIntra =
        BytesPerSecond(object.number("nvls_intra_bytes_per_second"));
    fabric.nvlsInter =
        BytesPerSecond(object.number("nvls_inter_bytes_per_second"));
    fabric.rampBytes = object.number("ramp_bytes");
    fabric.nicFraction = object.fraction("nic_fraction");
  } else if (model == "shared_memory") {
    fabric.model = CollectiveModel::SharedMemory;
  } else {
    object.complain("/model",
                    "expected nccl or shared_memory, but got '" + model + "'");
  }
  fabric.wireFraction = object.fraction("wire_fraction");
  fabric.launch = Seconds(object.number("launch_seconds"));
  fabric.p2pFraction = object.fraction("p2p_fraction");
  fabric.p2pLatency = Seconds(object.number("p2p_latency_seconds"));
  object.source();
  object.finish();
}

/// What a cluster file may say beside the machine; absent means unknown.
void readOperations(JsonObject &object, Operations &operations) {
  if (object.has("storage")) {
    JsonObject storage = object.child("storage");
    operations.storageWrite =
        BytesPerSecond(storage.number("bytes_per_second", 1));
    if (storage.has("node_bytes_per_second")) {
      operations.nodeWrite =
          BytesPerSecond(storage.number("node_bytes_per_second", 1));
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
    level.bandwidth = BytesPerSecond(entry.number("bytes_per_second", 1));
    level.latency = Seconds(entry.number("latency_seconds"));
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
    result.host.link = BytesPerSecond(host.number("link_bytes_per_second", 1));
    result.host.memory =
        BytesPerSecond(host.number("memory_bytes_per_second", 1));
    result.host.capacity = Bytes(host.integer("capacity_bytes", 1));
    host.source();
    host.finish();
  }
  readOperations(object, result.operations);
  object.finish();
  if (failure.messages.size() != before)
    return false;
  hardware = std::move(result);
  return true;
}

} // namespace shardwright::cost
