//===- Findings.h - What follows from how a node is connected ---*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_TOPOLOGY_FINDINGS_H
#define SHARDWRIGHT_COMPILER_TOPOLOGY_FINDINGS_H

#include "compiler/Topology/Node.h"

namespace shardwright::topology {

enum class NvlinkShape {
  Unknown, ///< the file does not say
  None,
  Switch,  ///< every GPU reaches every other at its full rate
  Mesh,    ///< every GPU has links of its own to every other
  Partial, ///< all are connected, some pairs through others only
  Islands, ///< several domains, or GPUs in none
};
std::string_view name(NvlinkShape shape); ///< "switch"

/// What whoever plans on the node should know and can act on.
struct Warning {
  std::string kind; ///< stable: "no_gpudirect"
  std::string text;
};

/// The NICs of a GPU.
struct NearNics {
  std::vector<size_t> nearest; ///< indices of NICs, all of one path
  Path path = Path::Sys;
  size_t assigned = 0; ///< the one of them that fewest GPUs before it have
  double share = 0;    ///< of its nearest NICs; of all GPUs, the used
};

struct Findings {
  NvlinkShape shape = NvlinkShape::Unknown;
  std::vector<std::vector<size_t>> domains; ///< of NVLink; GPUs alone included
  std::vector<int64_t> links;               ///< NVLinks of each GPU
  int64_t pairLinks =
      0; ///< fewest links of a pair that has any; Switch: of a GPU
  std::vector<std::vector<size_t>> switches; ///< GPUs behind one PCIe switch
  std::vector<NearNics> near; ///< of each GPU; empty without NICs
  std::vector<size_t> unused; ///< NICs nearest to no GPU
  std::vector<Warning> warnings;

  int64_t leastLinks() const; ///< of any GPU
  size_t usedNics(const Node &node) const {
    return node.nics.size() - unused.size();
  }
};

Findings findingsOf(const Node &node);

/// "GPU0, GPU1 and GPU5 to GPU7"
std::string gpuList(const std::vector<size_t> &gpus);

/// "400 Gb/s"
std::string gigabits(cost::BytesPerSecond rate);

} // namespace shardwright::topology

#endif // SHARDWRIGHT_COMPILER_TOPOLOGY_FINDINGS_H
