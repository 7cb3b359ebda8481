//===- Node.h - A node as its own tools print it ----------------*- C++ -*-===//
//
// Two formats say how the GPUs and NICs of a node are connected: the table of
// `nvidia-smi topo -m`, and the XML that NCCL reads (NCCL_TOPO_FILE) and writes
// (NCCL_TOPO_DUMP_FILE). Either is read into a Node: facts of the file alone,
// nothing concluded (Findings.h does) and nothing added (ClusterFile.h does).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_TOPOLOGY_NODE_H
#define SHARDWRIGHT_COMPILER_TOPOLOGY_NODE_H

#include "cost_model/Units.h"
#include "cost_model/base/Failure.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::topology {

/// What lies between two devices, near to far, in the words of nvidia-smi.
enum class Path {
  Pix,  ///< one PCIe switch
  Pxb,  ///< several PCIe switches
  Phb,  ///< a PCIe host bridge
  Node, ///< several host bridges of one NUMA node
  Sys,  ///< the interconnect between NUMA nodes
};
std::string_view name(Path path); ///< "PIX"

enum class Format {
  SmiTable, ///< nvidia-smi topo -m
  NcclXml,  ///< <system>
};
std::string_view name(Format format);

struct Gpu {
  std::string name;  ///< "GPU0"
  std::string busId; ///< "0000:1a:00.0"; empty: not said
  std::string pciId; ///< vendor and device, "10de:20b2"; empty: not said
  std::string numa;  ///< "0"; empty: not said
  std::string cpus;  ///< "0-23,48-71"; empty: not said
  /// NVLinks to each GPU of the node, switched or not; 0: none.
  std::vector<int64_t> links;
  int64_t switchLinks = 0; ///< NVLinks to NVSwitches, where they are told apart
};

struct Nic {
  std::string name;   ///< "NIC0", "mlx5_0"
  std::string device; ///< of a legend: "mlx5_0"; else empty
  std::string busId;
  cost::BytesPerSecond rate; ///< one way; 0: not said
  bool noGpuDirect = false;  ///< the file says that NCCL found none
};

struct Node {
  Format format = Format::SmiTable;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  /// A file of PCI devices alone leaves NVLink to be found by NCCL.
  bool saysNvlink = true;
  std::vector<std::vector<Path>> toNic; ///< [gpu][nic]
  /// [gpu][gpu]; in a table Pix where NVLink is said instead.
  std::vector<std::vector<Path>> toGpu;
  std::vector<std::string> notes; ///< of the file: what was passed over
};

/// No node is larger, and all that is computed of one is small.
constexpr size_t mostDevices = 256;

/// Reads either format. What is another known file (a graph of NCCL, a matrix
/// of another tool, ...) is refused as what it is.
bool readNode(std::string_view text, const std::string &file, Node &node,
              cost::Failure &failure);

/// One of the two formats; `readNode` has told them apart.
bool readSmiTable(std::string_view text, const std::string &file, Node &node,
                  cost::Failure &failure);
bool readNcclXml(std::string_view text, const std::string &file, Node &node,
                 cost::Failure &failure);

/// What a text without a table is, if that is known: "a log of nccl-tests";
/// else empty.
std::string otherFormat(std::string_view text);
/// Whose table it is where `word` stands for a link; empty if none is known.
std::string otherTable(std::string_view word);
/// What XML with this root is; empty if none is known.
std::string otherRoot(std::string_view root);
/// Refuses a file that is in order, and is `what`. Returns false.
bool refuseOther(const std::string &file, const std::string &what,
                 cost::Failure &failure);

/// Lines without their ends and without what colours terminals.
std::vector<std::string> plainLines(std::string_view text);

} // namespace shardwright::topology

#endif // SHARDWRIGHT_COMPILER_TOPOLOGY_NODE_H
