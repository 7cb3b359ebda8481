//===- ClusterFile.h - A cluster file of an imported node -------*- C++ -*-===//
//
// How many devices there are, how they are linked and how many NICs serve them
// is the node's; what no topology says (the GPU's speed, NCCL's measured rates,
// latencies) is another cluster's, its *model*, or a flag's. Every figure names
// which.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_TOPOLOGY_CLUSTERFILE_H
#define SHARDWRIGHT_COMPILER_TOPOLOGY_CLUSTERFILE_H

#include "compiler/Topology/Findings.h"

#include <optional>

namespace shardwright::topology {

/// What the caller says beside the file.
struct ClusterChoices {
  std::string file;      ///< of the topology, as sources name it
  std::string name;      ///< of the cluster
  std::string model;     ///< whose figures are taken: "dgx-h100"
  std::string modelText; ///< its cluster file
  std::string why;       ///< "--like dgx-h100"
  std::optional<cost::BytesPerSecond> nicRate, nodeRate;
  std::optional<int64_t> nics;   ///< of a node
  std::optional<int64_t> domain; ///< GPUs of an NVLink domain of several nodes
};

/// A field of the file that is not the model's as it stands, or that a topology
/// would ideally say.
struct ClusterField {
  std::string pointer; ///< "/levels/0/size"
  std::string value;   ///< "450 GB/s"
  std::string from;
  bool isDefault = false; ///< of the model, as nobody says better
};

struct ClusterFile {
  std::string text; ///< shardwright.cluster/1
  std::vector<ClusterField> fields;
  std::vector<Warning> warnings;
};

/// Refuses a node whose links the model's figures say nothing of.
bool clusterOf(const Node &node, const Findings &findings,
               const ClusterChoices &choices, ClusterFile &result,
               cost::Failure &failure);

/// The GPU of a vendor and device of PCI ("10de:20b2"), as cluster files name
/// it; empty if it is not known.
std::string gpuOfPciId(std::string_view pciId);

/// Shipped clusters, one a GPU, whose device is `gpu` or begins with it; upper
/// and lower case are the same.
std::vector<std::string> clustersWithGpu(std::string_view gpu);
/// The names of their devices, in the order of shippedHardwareNames().
std::vector<std::string> shippedGpus();

} // namespace shardwright::topology

#endif // SHARDWRIGHT_COMPILER_TOPOLOGY_CLUSTERFILE_H
