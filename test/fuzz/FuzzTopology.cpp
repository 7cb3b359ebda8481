//===- FuzzTopology.cpp - What nvidia-smi and NCCL say of a node ----------===//
#include "compiler/Topology/ClusterFile.h"
#include "cost_model/hardware/Hardware.h"
#include "test/fuzz/FuzzTarget.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  topology::Node node;
  cost::Failure failure;
  if (!topology::readNode(textOf(data, size), "topo.txt", node, failure)) {
    requireRefusal(failure);
    return 0;
  }
  require(!node.gpus.empty() && node.toGpu.size() == node.gpus.size() &&
              node.toNic.size() == node.gpus.size(),
          "a node that is accepted has GPUs");
  const topology::Findings found = topology::findingsOf(node);
  require(found.unused.size() < node.nics.size() || node.nics.empty(),
          "a GPU has a nearest NIC");
  for (const char *model : {"dgx-h100", "rtx-pro-6000"}) {
    topology::ClusterChoices choices;
    choices.file = "topo.txt";
    choices.name = "fuzzed";
    choices.model = model;
    choices.modelText = cost::shippedHardware(model);
    topology::ClusterFile cluster;
    cost::Failure refusal;
    cost::Hardware hardware;
    if (!topology::clusterOf(node, found, choices, cluster, refusal))
      requireRefusal(refusal);
    else
      require(
          cost::readHardware(cluster.text, "fuzzed.json", hardware, refusal) &&
              hardware.ranksPerNode() == static_cast<int64_t>(node.gpus.size()),
          "a cluster file is read back");
  }
  return 0;
}
