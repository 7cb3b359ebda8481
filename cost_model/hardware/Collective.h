//===- Collective.h - Time of a collective ----------------------*- C++ -*-===//
//
// NCCL's own model: every algorithm and protocol is priced and the cheapest
// one runs. Formulas and constants: NCCL 2.30 src/graph/tuning.cc, in our own
// words and code. How the tuner's times relate to measured ones (a floor, a
// ramp, a rate) is data of the cluster file.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_COLLECTIVE_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_COLLECTIVE_H

#include "cost_model/hardware/Hardware.h"
#include "cost_model/partition/Reshard.h"

#include <string_view>

namespace shardwright::cost {

/// How a group lies on the nodes of a cluster.
struct Placement {
  int64_t ranks = 1;   ///< members
  int64_t perNode = 1; ///< members on one node
  int64_t nodes = 1;
  int64_t sharing = 1; ///< groups of the same kind that use a node's NICs
  /// Ranks of a node from the first member to the last one, both included or
  /// rounded up to the stride.
  int64_t reach = 1;
  bool operator==(const Placement &) const = default;
};

/// A group of `ranks` members, `stride` ranks apart, on nodes of
/// `ranksPerNode`. The other ranks of the nodes are in groups of the same kind
/// that communicate at the same time.
///   nodes of 8, stride 1, 8 ranks:  8 per node, 1 node,  1 sharing, reach 8
///   nodes of 8, stride 8, 4 ranks:  1 per node, 4 nodes, 8 sharing, reach 8
///   nodes of 8, stride 2, 16 ranks: 4 per node, 4 nodes, 2 sharing, reach 8
///   nodes of 8, stride 2, 2 ranks:  2 per node, 1 node,  1 sharing, reach 4
Placement placeGroup(int64_t ranks, int64_t stride, int64_t ranksPerNode);

enum class Algorithm { None, Ring, Tree, Nvls, NvlsTree, Direct };
enum class Protocol { Ll, Ll128, Simple };
std::string_view name(Algorithm algorithm);
std::string_view name(Protocol protocol);

struct CollectiveTime {
  Seconds time;
  Algorithm algorithm = Algorithm::None;
  Protocol protocol = Protocol::Simple;
};

/// Time of one all-reduce, all-gather, reduce-scatter or all-to-all. `payload` is the
/// bytes of a rank's input. Zero for one rank, no bytes or a slice. `only`: what
/// NCCL_ALGO leaves to choose from; a device that lacks it gives no algorithm.
CollectiveTime priceCollective(const Hardware &hardware, Collective collective,
                               Bytes payload, const Placement &placement,
                               Algorithm only = Algorithm::None);

inline Seconds collectiveTime(const Hardware &hardware, Collective collective,
                              Bytes payload, const Placement &placement) {
  return priceCollective(hardware, collective, payload, placement).time;
}

/// Time of an all-to-all of rows, `choices` (top-k) copies of each token, sent
/// to nodes drawn evenly. `oncePerNode`: a token goes to a node once,
///   network bytes = payload (nodes - 1) / nodes * f(nodes),
///   f(n) = distinct places / copies = n / choices * (1 - (1 - 1/n)^choices)
/// and over the links of the node once to each rank: payload * f(ranks).
Seconds exchangeTime(const Hardware &hardware, Bytes payload,
                     const Placement &placement, int64_t choices,
                     bool oncePerNode);

/// Time of one send and its receive between neighbours of a pipeline of
/// `stages` stages, `stride` ranks apart, over its slowest border: one between
/// nodes if the pipeline leaves a node. All ranks of a stage send at once.
Seconds transferTime(const Hardware &hardware, Bytes bytes, int64_t stride,
                     int64_t stages);

/// Bytes that leave a rank under a ring: all-reduce 2(n-1)/n of the payload,
/// reduce-scatter (n-1)/n, all-gather (n-1) payloads. Derived, for display.
double wireBytes(Collective collective, Bytes payload, int64_t ranks);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_COLLECTIVE_H
