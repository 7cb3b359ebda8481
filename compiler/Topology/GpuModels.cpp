//===- GpuModels.cpp - Which GPU a file is about --------------------------===//
#include "compiler/Topology/ClusterFile.h"

#include "cost_model/hardware/Hardware.h"

#include <algorithm>
#include <cassert>
#include <cctype>

namespace shardwright::topology {

using namespace cost;

namespace {

struct Model {
  std::string_view pciId, gpu;
};

// Source: pci.ids (https://pci-ids.ucw.cz). In the words of cluster files where
// one has the GPU; others are known so that a refusal can name them.
constexpr Model models[] = {
    {"10de:1db1", "V100-SXM2-16GB"},
    {"10de:1db5", "V100-SXM2-32GB"},
    {"10de:20b0", "A100-SXM4-40GB"},
    {"10de:20b2", "A100-SXM4-80GB"},
    {"10de:20b5", "A100-PCIe-80GB"},
    {"10de:2324", "H800-SXM5-80GB"},
    {"10de:2330", "H100-SXM5-80GB"},
    {"10de:2331", "H100-PCIe-80GB"},
    {"10de:2335", "H200-SXM-141GB"},
    {"10de:26b9", "L40S"},
    {"10de:27b8", "L4"},
    {"10de:2901", "B200-SXM-180GB"},
    {"10de:2941", "GB200-186GB"},
    {"10de:31c2", "GB300-288GB"},
};

bool beginsWith(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) {
                      return std::tolower(static_cast<unsigned char>(a)) ==
                             std::tolower(static_cast<unsigned char>(b));
                    });
}

/// The device of a shipped cluster; empty if it is no GPU of a node.
std::string gpuOf(const std::string &cluster) {
  Hardware hardware;
  Failure failure;
  [[maybe_unused]] const bool read =
      readHardware(shippedHardware(cluster), cluster, hardware, failure);
  assert(read && "a shipped cluster is right");
  return hardware.fabric.model == CollectiveModel::Nccl ? hardware.device.name
                                                        : "";
}

} // namespace

std::string gpuOfPciId(std::string_view pciId) {
  for (const Model &model : models)
    if (model.pciId == pciId)
      return std::string(model.gpu);
  return "";
}

std::vector<std::string> clustersWithGpu(std::string_view gpu) {
  std::vector<std::string> clusters;
  for (const std::string &cluster : shippedHardwareNames())
    if (const std::string device = gpuOf(cluster);
        !device.empty() && beginsWith(device, gpu)) {
      if (device.size() == gpu.size())
        return {cluster}; // the whole name is no beginning of others
      clusters.push_back(cluster);
    }
  return clusters;
}

std::vector<std::string> shippedGpus() {
  std::vector<std::string> gpus;
  for (const std::string &cluster : shippedHardwareNames())
    if (std::string device = gpuOf(cluster); !device.empty())
      gpus.push_back(std::move(device));
  return gpus;
}

} // namespace shardwright::topology
