//===- Collective.cpp - Time of a collective ------------------------------===//
#include "cost_model/hardware/Collective.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardwright::cost {
namespace {

constexpr double kGiga = 1e9; // NCCL's tables are in GB/s
constexpr double kMicro = 1e-6;

// Rows Volta, Ampere, Hopper, Blackwell; columns 1, 2 and more nodes. GB/s.
constexpr double kLlMaximum[4][3] = {
    {39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}};
constexpr double kRing128[4][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}};
constexpr double kTree128[4][3] = {
    {20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
constexpr double kTreeMaximum[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
constexpr double kNvlsTreeMaximum[4][3] = {
    {26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}};
constexpr double kNvlsEfficiency[4] = {0, 0, 0.85, 0.74};

// Latencies in microseconds, by protocol LL, LL128, Simple.
constexpr double kTreeBase[3] = {6.8, 14, 8.4};
constexpr double kRingBase[3] = {6.6, 14, 8.4};
// Hops by NodeLinks.
constexpr double kTreeLinkHop[2][3] = {{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}};
constexpr double kRingLinkHop[2][3] = {{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}};
constexpr double kTreeNetHop[3] = {5.0, 8.5, 14};
constexpr double kRingNetHop[3] = {2.7, 4.0, 14};
constexpr double kNvlsLinkHop = 25, kNvlsTreeNetHop = 20.9;

// What a tree reaches of its rate, by floor(log2(bytes / 64)).
constexpr double kTreeCorrection[3][24] = {
    {1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
     .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1},
    {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
     .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,  1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

struct Question {
  const CollectiveFabric &fabric;
  Collective collective;
  double bytes; ///< NCCL's size: the sum over ranks for an all-gather
  const Placement &at;
  double intra, inter; ///< GB/s of a whole ring, inside and between nodes
  int64_t steps;       ///< of a ring
};

/// Row of the tables of hops.
int linksRow(const CollectiveFabric &fabric) {
  return static_cast<int>(fabric.links);
}

/// Column of the tables.
int column(const Placement &at) {
  return static_cast<int>(std::min<int64_t>(at.nodes, 3)) - 1;
}

/// GB/s that all channels of a ring carry.
double ringRate(const Question &q) {
  return q.at.nodes == 1 ? q.intra : std::min(q.intra, q.inter);
}

double ringTime(const Question &q, Protocol protocol) {
  const int p = static_cast<int>(protocol), col = column(q.at);
  const int arch = q.fabric.architecture;
  double bus = ringRate(q);
  const double channels = static_cast<double>(q.fabric.ringChannels);
  if (protocol == Protocol::Ll)
    bus = std::min(kLlMaximum[q.at.nodes == 1 ? arch : std::min(arch, 1)][col],
                   bus * 0.5);
  else if (protocol == Protocol::Ll128)
    bus = std::min(bus * 0.92, channels * kRing128[arch][col]);
  const int64_t perRound = q.collective == Collective::AllReduce ? 2 : 1;
  const int64_t netSteps = q.at.nodes == 1 ? 0 : perRound * (q.at.nodes - 1);
  // A ring over nodes with one rank each has no link inside a node.
  double hop = kRingLinkHop[linksRow(q.fabric)][p];
  if (q.at.nodes > 1)
    hop = std::max(hop, protocol == Protocol::Simple ? 3.0 : 1.0);
  const double netHop = q.at.perNode == 1 ? kTreeNetHop[p] : kRingNetHop[p];
  double latency = kRingBase[p] +
                   static_cast<double>(q.steps - netSteps) * hop +
                   static_cast<double>(netSteps) * netHop;
  if (protocol == Protocol::Simple && q.collective == Collective::AllReduce &&
      q.at.nodes > 1 &&
      q.bytes / (channels * static_cast<double>(q.at.ranks)) >= 64)
    latency *= q.fabric.architecture == 0 ? 1.9 : 1.4;
  const double rate =
      bus * static_cast<double>(q.at.ranks) / static_cast<double>(q.steps);
  return latency * kMicro + q.bytes / (rate * kGiga);
}

double treeTime(const Question &q, Protocol protocol) {
  const int p = static_cast<int>(protocol), col = column(q.at);
  const int arch = q.fabric.architecture;
  const double channels = static_cast<double>(q.fabric.ringChannels);
  double bus = std::min(ringRate(q) * 0.92, channels * kTreeMaximum[arch][col]);
  if (protocol == Protocol::Ll)
    bus = std::min(bus / 3.8,
                   kLlMaximum[q.at.nodes == 1 ? arch : std::min(arch, 1)][col]);
  else if (protocol == Protocol::Ll128)
    bus = std::min(bus * (q.at.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                   channels * kTree128[arch][col]);
  // Between the table's powers of two we interpolate: with NCCL's steps more
  // bytes could be faster.
  const double position =
      std::clamp(std::log2(std::max(1.0, q.bytes / 64)), 0.0, 23.0);
  const int index = std::min(static_cast<int>(position), 22);
  const double share = position - index;
  const double correction = (1 - share) * kTreeCorrection[p][index] +
                            share * kTreeCorrection[p][index + 1];
  const double rate = bus * 0.5 * correction;
  const double depth = std::floor(std::log2(static_cast<double>(q.at.nodes)));
  const double latency =
      kTreeBase[p] + 2 * (static_cast<double>(q.at.perNode - 1) *
                              kTreeLinkHop[linksRow(q.fabric)][p] +
                          depth * kTreeNetHop[p]);
  return latency * kMicro + q.bytes / (rate * kGiga);
}

/// NVLS inside a node, NVLSTree between nodes; 0 if it does not exist.
double nvlsTime(const Question &q) {
  const CollectiveFabric &fabric = q.fabric;
  const int arch = fabric.architecture;
  const bool tree = q.at.nodes > 1;
  const bool reduce = q.collective == Collective::AllReduce;
  if (fabric.nvlsChannels < 2 || kNvlsEfficiency[arch] == 0 ||
      q.at.perNode < 2 || (tree && !reduce))
    return 0;
  const double channels = static_cast<double>(fabric.nvlsChannels);
  double intra = fabric.nvlsIntra.count() / kGiga * kNvlsEfficiency[arch] *
                 (channels - 1) / channels;
  intra *= reduce ? 2
                  : static_cast<double>(q.at.perNode - 1) /
                        static_cast<double>(q.at.perNode);
  double channel = std::min(intra, fabric.nvlsInter.count() / kGiga);
  if (tree)
    channel = std::min({channel, kNvlsTreeMaximum[arch][column(q.at)],
                        q.inter / channels * (q.at.nodes == 2 ? 2 : 1)});
  const double rate = channels * channel * static_cast<double>(q.at.ranks) /
                      static_cast<double>(q.steps);
  double latency = kNvlsLinkHop;
  if (tree)
    latency += 2 * std::floor(std::log2(static_cast<double>(q.at.nodes))) *
               kNvlsTreeNetHop;
  return latency * kMicro + q.bytes / (rate * kGiga);
}

/// GB/s that a node's NICs give to one of the groups that share them.
double networkRate(const Hardware &hardware, const Placement &at) {
  if (at.nodes == 1 || hardware.levels.size() < 2)
    return 0;
  const Level &net = hardware.levels[1];
  double rate = static_cast<double>(net.nics) * net.bandwidth.count() *
                hardware.fabric.nicFraction / static_cast<double>(at.sharing);
  // A farther level narrows it where the group spans one of its domains.
  int64_t domain = net.size;
  rate /= net.oversubscription;
  for (size_t i = 2; i < hardware.levels.size(); ++i) {
    if (domain == 0 || at.nodes * hardware.ranksPerNode() <= domain)
      break;
    rate /= hardware.levels[i].oversubscription;
    domain = hardware.levels[i].size;
  }
  return rate / kGiga;
}

/// GB/s of all channels of a ring inside a node.
double nodeRate(const CollectiveFabric &fabric, const Placement &at) {
  // A placement that does not say how far it reaches counts as far.
  if (at.perNode > 1 && at.perNode <= at.reach &&
      at.reach <= fabric.switchRanks)
    return fabric.switchBandwidth.count() / kGiga;
  return ringRate(fabric).count() / kGiga;
}

// All-to-all inside a node of NVLink: share of a link's rate that large
// messages reach, and the floor, by architecture as above: 8 A100 203 of 300
// GB/s and 13 us, 8 H100 315 of 450 and 8 us, 8 B200 563 of 900 and 11 us; the
// message at which a part of that is lost: nccl-tests rows of
// ai-dynamo/aiconfigurator commit 095f58a, nccl_perf tables.
constexpr double kExchangeFraction[4] = {0.68, 0.68, 0.70, 0.63};
constexpr double kExchangeFloor[4] = {13, 13, 8, 11};
constexpr double kExchangeRamp = 12e6;
// Of PCIe: share of a ring's rate; 4 RTX PRO 6000 24.2 and 8 18.4 of 24.6 GB/s
// and 9 us, same tables.
constexpr double kPcieExchangeFraction = 0.85;
constexpr double kPcieExchangeFloor = 9;

/// Different ones among `places` that `copies` independent draws hit, over the
/// copies.
double distinctShare(double places, double copies) {
  return places / copies * (1 - std::pow(1 - 1 / places, copies));
}

/// NCCL has no model of all-to-all: a group of sends and receives. Of `bytes`
/// of a rank's input, what is for other nodes leaves by its share of the NICs
/// while the rest crosses the links of the node; the slower one decides.
CollectiveTime exchange(const Hardware &hardware, Bytes payload,
                        const Placement &at, int64_t choices,
                        bool oncePerNode) {
  const CollectiveFabric &fabric = hardware.fabric;
  const int arch = fabric.architecture;
  const double bytes = static_cast<double>(payload.count());
  const double ranks = static_cast<double>(at.ranks);
  const double perNode = static_cast<double>(at.perNode);
  const bool pcie = fabric.links == NodeLinks::Pcie;
  const double slow = pcie ? fabric.rampBytes : kExchangeRamp;
  const double ramp = 1 + slow / (bytes + slow);
  const double link =
      pcie
          ? nodeRate(fabric, at) * kGiga * kPcieExchangeFraction
          : hardware.levels.front().bandwidth.count() * kExchangeFraction[arch];
  double inside = bytes * (perNode - 1) / ranks;
  double outside = bytes * (ranks - perNode) / ranks;
  if (oncePerNode) {
    const double nodes = static_cast<double>(at.nodes);
    const double copies = static_cast<double>(std::max<int64_t>(choices, 1));
    outside *= distinctShare(nodes, copies);
    inside = bytes * (perNode - 1) / perNode * distinctShare(ranks, copies);
  }
  double time = inside / link * ramp;
  double floor = (pcie ? kPcieExchangeFloor : kExchangeFloor[arch]) * kMicro;
  if (at.nodes > 1) {
    const double nic = networkRate(hardware, at) * kGiga / perNode;
    time = std::max(time, outside / nic);
    floor = std::max(floor, fabric.p2pLatency.count());
  }
  return {Seconds(floor + time), Algorithm::Direct, Protocol::Simple};
}

CollectiveTime sharedMemory(const Hardware &hardware, Collective collective,
                            Bytes payload, const Placement &at) {
  const CollectiveFabric &fabric = hardware.fabric;
  const double rate =
      hardware.levels.front().bandwidth.count() * fabric.wireFraction;
  // Every rank reads the parts it does not have, at the copy rate.
  return {fabric.launch +
              Seconds(wireBytes(collective, payload, at.ranks) / rate),
          Algorithm::Direct, Protocol::Simple};
}

} // namespace

std::string_view name(Algorithm algorithm) {
  switch (algorithm) {
  case Algorithm::None:
    return "none";
  case Algorithm::Ring:
    return "ring";
  case Algorithm::Tree:
    return "tree";
  case Algorithm::Nvls:
    return "nvls";
  case Algorithm::NvlsTree:
    return "nvls_tree";
  case Algorithm::Direct:
    return "direct";
  }
  return "";
}

std::string_view name(Protocol protocol) {
  switch (protocol) {
  case Protocol::Ll:
    return "ll";
  case Protocol::Ll128:
    return "ll128";
  case Protocol::Simple:
    return "simple";
  }
  return "";
}

Placement placeGroup(int64_t ranks, int64_t stride, int64_t ranksPerNode) {
  Placement at;
  at.ranks = ranks;
  const int64_t reach = std::min(checkedMul(ranks, stride), ranksPerNode);
  at.perNode = std::min(ranks, ceilDiv(reach, stride));
  at.reach = reach;
  at.nodes = ceilDiv(ranks, at.perNode);
  at.sharing =
      at.nodes == 1 ? 1 : std::max<int64_t>(1, ranksPerNode / at.perNode);
  return at;
}

CollectiveTime priceCollective(const Hardware &hardware, Collective collective,
                               Bytes payload, const Placement &at,
                               Algorithm only) {
  if (at.ranks <= 1 || payload.count() == 0 || collective == Collective::Slice)
    return {};
  const CollectiveFabric &fabric = hardware.fabric;
  if (fabric.model == CollectiveModel::SharedMemory)
    return sharedMemory(hardware, collective, payload, at);
  if (collective == Collective::AllToAll)
    return exchange(hardware, payload, at, 1, false);

  const bool reduce = collective == Collective::AllReduce;
  const double total =
      static_cast<double>(payload.count()) *
      (collective == Collective::AllGather ? static_cast<double>(at.ranks) : 1);
  const Question question{fabric,
                          collective,
                          total,
                          at,
                          nodeRate(fabric, at),
                          networkRate(hardware, at),
                          (reduce ? 2 : 1) * (at.ranks - 1)};

  CollectiveTime best;
  double least = 0;
  auto consider = [&](double time, Algorithm algorithm, Protocol protocol) {
    const bool allowed = only == Algorithm::None || only == algorithm;
    if (allowed && time > 0 && (least == 0 || time < least)) {
      least = time;
      best.algorithm = algorithm;
      best.protocol = protocol;
    }
  };
  for (Protocol protocol : {Protocol::Ll, Protocol::Ll128, Protocol::Simple}) {
    if (protocol == Protocol::Ll128 && fabric.links == NodeLinks::Pcie)
      continue; // NCCL stores 128 bytes at once over NVLink alone
    consider(ringTime(question, protocol), Algorithm::Ring, protocol);
    if (reduce)
      consider(treeTime(question, protocol), Algorithm::Tree, protocol);
  }
  consider(nvlsTime(question),
           at.nodes > 1 ? Algorithm::NvlsTree : Algorithm::Nvls,
           Protocol::Simple);
  if (least == 0)
    return {};

  // From the tuner's ranking to wall time: a floor, the share of the rate that
  // is reached and, for the protocol of large messages, a ramp that costs up to
  // `rampBytes` more on the wire.
  const double busBytes = static_cast<double>(question.steps) /
                          static_cast<double>(at.ranks) * total;
  const double bus =
      at.nodes == 1 ? question.intra : std::min(question.intra, question.inter);
  const double ramp = best.protocol == Protocol::Simple && total > 0
                          ? busBytes / bus / kGiga *
                                (fabric.rampBytes / (total + fabric.rampBytes))
                          : 0;
  best.time = fabric.launch + Seconds(least / fabric.wireFraction + ramp);
  return best;
}

Seconds exchangeTime(const Hardware &hardware, Bytes payload,
                     const Placement &at, int64_t choices, bool oncePerNode) {
  if (at.ranks <= 1 || payload.count() == 0)
    return Seconds(0);
  if (hardware.fabric.model == CollectiveModel::SharedMemory)
    return collectiveTime(hardware, Collective::AllToAll, payload, at);
  return exchange(hardware, payload, at, choices, oncePerNode).time;
}

Seconds transferTime(const Hardware &hardware, Bytes bytes, int64_t stride,
                     int64_t stages) {
  if (bytes.count() == 0 || stages <= 1)
    return Seconds(0);
  const CollectiveFabric &fabric = hardware.fabric;
  const int64_t perNode = hardware.ranksPerNode();
  if (checkedMul(stride, stages) <= perNode || hardware.levels.size() < 2)
    return fabric.launch +
           bytes / BytesPerSecond(hardware.levels.front().bandwidth.count() *
                                  fabric.p2pFraction);
  const Level &net = hardware.levels[1];
  const double senders = static_cast<double>(std::min(stride, perNode));
  const double share = static_cast<double>(net.nics) * net.bandwidth.count() /
                       senders / net.oversubscription;
  return fabric.p2pLatency +
         bytes / BytesPerSecond(fabric.nicFraction *
                                std::min(net.bandwidth.count(), share));
}

double wireBytes(Collective collective, Bytes payload, int64_t ranks) {
  const double bytes = static_cast<double>(payload.count());
  const double n = static_cast<double>(ranks);
  switch (collective) {
  case Collective::AllReduce:
    return 2 * (n - 1) / n * bytes;
  case Collective::AllGather:
    return (n - 1) * bytes;
  case Collective::ReduceScatter:
  case Collective::AllToAll:
    return (n - 1) / n * bytes;
  case Collective::Send:
  case Collective::Recv:
    return bytes;
  case Collective::Slice:
    return 0;
  }
  return 0;
}

} // namespace shardwright::cost
