//===- Constants.cpp - Every fitted figure of the model -------------------===//
#include "cost_model/hardware/Constants.h"
#include "cost_model/hardware/Imbalance.h"
#include "cost_model/hardware/Profile.h"

#include <cstdio>

namespace shardwright::cost {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

constexpr const char *kGemmTables =
    "ai-dynamo/aiconfigurator commit 095f58a, bf16 GEMM tables, m >= 1024";
constexpr const char *kNarrowTables =
    "ai-dynamo/aiconfigurator commit 095f58a, fp8 and nvfp4 GEMM tables, "
    "m >= 1024, n and k >= 2048";
constexpr const char *kNcclTests =
    "nccl-tests rows of one node, >= 1 MiB, 4 and 8 ranks "
    "(ai-dynamo/aiconfigurator commit 095f58a, stas00/ml-engineering)";

void addDevice(const Hardware &hardware,
               std::vector<FittedConstant> &constants) {
  const std::string at = "device/" + hardware.name + "/";
  const GemmCurve &gemm = hardware.device.gemm;
  const CollectiveFabric &fabric = hardware.fabric;
  const auto add = [&](const char *name, double value, const char *source) {
    constants.push_back({at + name, shown(value), source});
  };
  add("gemm sustained fraction", gemm.sustainedFraction, kGemmTables);
  add("gemm wave quantization", gemm.waveQuantization, kGemmTables);
  add("gemm prologue depth", static_cast<double>(gemm.prologueDepth),
      kGemmTables);
  if (gemm.fp8Tensor.speedup > 0) {
    add("fp8 product speedup", gemm.fp8Tensor.speedup, kNarrowTables);
    add("fp8 product half size", gemm.fp8Tensor.halfSize,
        kNarrowTables);
    add("block-scaled fp8 product speedup", gemm.fp8Block.speedup,
        kNarrowTables);
    add("block-scaled fp8 product half size",
        gemm.fp8Block.halfSize, kNarrowTables);
  }
  if (gemm.fp4Block.speedup > 0) {
    add("fp4 product speedup", gemm.fp4Block.speedup, kNarrowTables);
    add("fp4 product half size", gemm.fp4Block.halfSize,
        kNarrowTables);
  }
  add("gemm power fraction", gemm.powerFraction,
      "longest kernels of the tables, or op tables of a training process; see "
      "the source of the cluster file");
  add("collective wire fraction", fabric.wireFraction, kNcclTests);
  add("collective ramp bytes", fabric.rampBytes, kNcclTests);
  add("collective launch seconds", fabric.launch.count(), kNcclTests);
}

void addShared(const Hardware &hardware,
               std::vector<FittedConstant> &constants) {
  const auto add = [&](const char *name, double value, const char *source) {
    constants.push_back({std::string("shared/") + name, shown(value), source});
  };
  add("weight gradient rate", hardware.device.gemm.accumulateFraction,
      "op tables of MooreThreads/SimuMax commit 4dcaae5: products that add to "
      "f32 against the others, A100 0.95, B200 0.945");
  add("device speed deviation", hardware.device.speedDeviation,
      "Sinha et al., SC 2022: spread of 8 % over the GPUs of a cluster, taken "
      "as 8 deviations; not fitted");
  add("allocator slack", 0.05,
      "reserved over allocated memory, 33 runs of MooreThreads/SimuMax commit "
      "4dcaae5: mean 1.049");
  add("routing concentration", kRoutingConcentration,
      "Grok-1 rows of NVIDIA/dgxc-benchmarking, whose routers nobody forces: "
      "100 "
      "to 160 does as well; Qwen3-235B forced and not (step time 1.15 and 1.24 "
      "times) wants less");
  add("kernel latency seconds", hardware.device.kernelLatency.count(),
      "ai-dynamo/aiconfigurator commit 095f58a, "
      "mem_empirical_constant_latency");
  add("launch of an operator", kLaunchOfLoop, "order of magnitude; not fitted");
  add("host link fraction", kHostLinkFraction,
      "128/130 of PCIe's bits, 24 bytes of header for 128 to 256 of payload; "
      "not "
      "fitted");
  add("host update fraction", kHostUpdateFraction,
      "Qwen3-30B-A3B on 16 H100, TP2 PP2 EP4: 0.996 s a step, 4.189 s with the "
      "optimizer on the host, of which the link takes 0.31 s "
      "(NVIDIA-NeMo/Megatron-Bridge commit b00deab, "
      "skills/perf-techniques/cpu-offloading/card.yaml); CPU-Adam alone on a "
      "machine is said to reach 0.49 (Ren et al., ZeRO-Offload, arXiv "
      "2101.06840, table 4; second-hand)");
}

constexpr const char *kRoughCount =
    "rough count in its code, held against the fp8 rows of Qwen3-30B of "
    "NVIDIA/Megatron-Bridge (about 9.3 ms of host time a layer)";

void addProfile(const Profile &profile,
                std::vector<FittedConstant> &constants) {
  const std::string at = "profile/" + profile.name + "/";
  const auto add = [&](const char *name, double value, const char *source) {
    constants.push_back({at + name, shown(value), source});
  };
  add("operator seconds", profile.launch.count(),
      "order of magnitude of eager PyTorch on hosts of its years; not fitted");
  add("operators forward", profile.forwardOperators, "counted in its code");
  add("operators backward", profile.backwardOperators, "counted in its code");
  add("operators of an op of experts", profile.expertOperators, kRoughCount);
  add("operators of a narrow product", profile.narrowOperators, kRoughCount);
  add("framework bytes", static_cast<double>(profile.frameworkBytes.count()),
      "CUDA context and libraries; order of magnitude");
}

} // namespace

std::vector<FittedConstant> fittedConstants() {
  std::vector<FittedConstant> constants;
  bool shared = false;
  for (const std::string &name : shippedHardwareNames()) {
    Hardware hardware;
    Failure failure;
    if (name == "host" ||
        !readHardware(shippedHardware(name), name, hardware, failure))
      continue;
    if (!shared)
      addShared(hardware, constants);
    shared = true;
    addDevice(hardware, constants);
  }
  for (const std::string &name : shippedProfileNames()) {
    Profile profile;
    Failure failure;
    if (readProfile(shippedProfile(name), name, profile, failure))
      addProfile(profile, constants);
  }
  return constants;
}

} // namespace shardwright::cost
