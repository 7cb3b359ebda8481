//===- OtherFormats.cpp - Files that are taken for topologies -------------===//
#include "compiler/Topology/Node.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace shardwright::topology {

namespace {

/// Words that only one kind of file has, and what it is.
struct Mark {
  std::string_view words, what;
};

// In this order: what comes first may quote what comes later.
constexpr std::array marks = {
    Mark{"ROCm System Management Interface",
         "the output of rocm-smi, of AMD's GPUs"},
    Mark{"MetaX System Management Interface",
         "the output of mx-smi, of MetaX's GPUs"},
    Mark{"algbw",
         "a log of nccl-tests, which says how fast collectives were and "
         "not what they ran over"},
    Mark{"NCCL INFO", "a log of NCCL"},
    Mark{"SwitchName=",
         "a topology.conf of Slurm, of the switches between nodes"},
    Mark{"| NVIDIA-SMI", "the list of nvidia-smi without topo -m"},
    Mark{"\"shardwright.cluster/1\"",
         "a cluster file already, as --cluster takes it"},
    Mark{"\nswitches:\n", "a model of the switches between nodes (topograph)"},
};

constexpr std::array roots = {
    Mark{"graphs",
         "a graph of NCCL (NCCL_GRAPH_FILE), which says in which order "
         "channels visit GPUs and not what connects them"},
    Mark{"topology", "a topology of hwloc (lstopo)"},
    Mark{"nvidia_smi_log", "a log of nvidia-smi -x"},
};

constexpr std::string_view capabilities[] = {"OK",  "CNS", "GNS",
                                             "TNS", "NS",  "U"};

bool isNumber(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

} // namespace

std::string otherFormat(std::string_view text) {
  for (const Mark &mark : marks)
    if (text.find(mark.words) != text.npos)
      return std::string(mark.what);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '{' || text[first] == '[')
             ? "JSON"
             : "";
}

std::string otherTable(std::string_view word) {
  if (std::count(std::begin(capabilities), std::end(capabilities), word))
    return "the matrix of nvidia-smi topo -p2p, which says what is allowed and "
           "not "
           "what connects GPUs";
  if (word == "MX")
    return "a matrix of mx-smi, of MetaX's GPUs";
  if (word == "XGMI" || word == "PCIE" || isNumber(word))
    return "a matrix of rocm-smi, of AMD's GPUs";
  return "";
}

std::string otherRoot(std::string_view root) {
  for (const Mark &mark : roots)
    if (root == mark.words)
      return std::string(mark.what);
  return "";
}

bool refuseOther(const std::string &file, const std::string &what,
                 cost::Failure &failure) {
  return refuse(failure, cost::Diag::unsupported_topology,
                file + ": valid, but " + what +
                    "; expected the table of nvidia-smi topo -m of a node, or "
                    "what NCCL writes to NCCL_TOPO_DUMP_FILE");
}

} // namespace shardwright::topology
