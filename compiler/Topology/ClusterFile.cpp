#include "compiler/Topology/ClusterFile.h"

#include "cost_model/base/Format.h"
#include "cost_model/hardware/Hardware.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>

namespace shardwright::topology {

using namespace cost;

namespace {

using Json = nlohmann::ordered_json;

/// Of one NVLink, one way, by CollectiveFabric::architecture. Source: NVIDIA's
/// NVLink page, generations 2 to 5: 25, 25, 25 and 50 GB/s each way.
constexpr std::array<double, 4> nvlinkRate = {25e9, 25e9, 25e9, 50e9};

std::string figure(double value) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.4g", value);
  return buffer.data();
}

std::string rateText(double bytesPerSecond) {
  return figure(bytesPerSecond / 1e9) + " GB/s";
}

class Builder {
public:
  Builder(const Node &node, const Findings &findings,
          const ClusterChoices &choices, ClusterFile &result, Failure &failure)
      : node(node), findings(findings), choices(choices), result(result),
        failure(failure), count(static_cast<int64_t>(node.gpus.size())) {}

  bool build() {
    if (!readHardware(choices.modelText, choices.model, model, failure) ||
        !checkModel() || !checkDomain())
      return false;
    json = Json::parse(choices.modelText);
    json["name"] = choices.name;
    json["nodes"] = 1;
    json["description"] = std::to_string(count) + " x " + model.device.name +
                          " a node, links and NICs as " + choices.file +
                          " says, else as " + choices.model;
    note("/device", model.device.name, choices.why);
    setNode();
    setFabric();
    setCollectives();
    // Names of files are bytes, JSON is not.
    result.text =
        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    Hardware written;
    return readHardware(result.text, choices.name, written, failure);
  }

private:
  const Node &node;
  const Findings &findings;
  const ClusterChoices &choices;
  ClusterFile &result;
  Failure &failure;
  const int64_t count;
  Hardware model;
  Json json;
  double nodeRate = 0;

  void note(const std::string &pointer, const std::string &value,
            const std::string &from, bool isDefault = false) {
    result.fields.push_back({pointer, value, from, isDefault});
  }
  void noteDefault(const std::string &pointer, const std::string &value) {
    note(pointer, value, choices.model + ": the file does not say", true);
  }
  bool unlike(const std::string &what) {
    return refuse(failure, Diag::unlike_cluster,
                  choices.file + ": valid, but " + what);
  }

  bool checkModel() {
    if (model.fabric.model != CollectiveModel::Nccl || model.levels.size() < 2)
      return unlike("'" + choices.model +
                    "' has no NCCL or no network between nodes whose figures a "
                    "node of GPUs could have");
    const bool wantsNvlink = model.fabric.links == NodeLinks::NvLink;
    const std::string figures = "the figures of '" + choices.model +
                                "' are of " + (wantsNvlink ? "NVLink" : "PCIe");
    if (findings.shape == NvlinkShape::Islands)
      return unlike(
          "NVLink joins islands of GPUs and not the node; a cluster file "
          "has one kind of links in a node");
    if (findings.shape == NvlinkShape::Unknown || count == 1)
      return true;
    const bool hasNvlink = findings.shape != NvlinkShape::None;
    if (hasNvlink != wantsNvlink)
      return unlike(std::string("the node has ") + (hasNvlink ? "" : "no ") +
                    "NVLink, and " + figures);
    return true;
  }

  bool checkDomain() {
    if (!choices.domain || *choices.domain % count == 0)
      return true;
    return refuse(failure, Diag::flag_value,
                  "--nvlink-domain " + std::to_string(*choices.domain) +
                      ": expected a multiple of the " + std::to_string(count) +
                      " GPUs of a node");
  }

  int64_t domain() const { return choices.domain.value_or(count); }

  void setNode() {
    Json &level = json["levels"][0];
    level["size"] = domain();
    note("/levels/0/size", std::to_string(domain()),
         choices.domain ? "--nvlink-domain" : "the GPUs of the file");
    if (!choices.domain && model.ranksPerNode() > count &&
        model.ranksPerNode() % count == 0 && model.levels[0].name != "node")
      result.warnings.push_back(
          {"part_of_domain",
           "the NVLink domain of " + choices.model + " has " +
               std::to_string(model.ranksPerNode()) +
               " GPUs of several nodes, and the file shows one node of " +
               std::to_string(count) + ": --nvlink-domain " +
               std::to_string(model.ranksPerNode()) + " says so"});
    const std::string pointer = "/levels/0/bytes_per_second";
    nodeRate = model.levels[0].bandwidth.count();
    std::string from;
    if (choices.nodeRate) {
      nodeRate = choices.nodeRate->count();
      from = "--node-bytes-per-second";
    } else if (const int64_t links = findings.leastLinks();
               node.saysNvlink && links > 0) {
      const double each =
          nvlinkRate[static_cast<size_t>(model.fabric.architecture)];
      nodeRate = static_cast<double>(links) * each;
      from = std::to_string(links) + " NVLinks of the file x " +
             rateText(each) + " (" + std::string(architecture()) + ")";
    }
    if (from.empty()) {
      noteDefault(pointer, rateText(nodeRate));
      return;
    }
    note(pointer, rateText(nodeRate), from);
    level["bytes_per_second"] = nodeRate;
    level["source"] = "rate: " + from + " " + choices.file + "; latency as " +
                      choices.model + ": " + model.levels[0].source;
  }

  std::string_view architecture() const {
    constexpr std::array<std::string_view, 4> names = {"Volta", "Ampere",
                                                       "Hopper", "Blackwell"};
    return names[static_cast<size_t>(model.fabric.architecture)];
  }

  /// The rate of the slowest NIC in use, if the file says every one.
  double rateOfNics() const {
    double least = 0;
    for (size_t nic = 0; nic < node.nics.size(); ++nic) {
      if (std::count(findings.unused.begin(), findings.unused.end(), nic))
        continue;
      const double rate = node.nics[nic].rate.count();
      if (rate == 0)
        return 0;
      least = least == 0 ? rate : std::min(least, rate);
    }
    return least;
  }

  void setFabric() {
    Json &level = json["levels"][1];
    const int64_t nodes = domain() / count;
    std::string from;
    int64_t nics = 0;
    if (choices.nics) {
      nics = *choices.nics * nodes;
      from = "--nics";
    } else if (!node.nics.empty()) {
      nics = static_cast<int64_t>(findings.usedNics(node)) * nodes;
      from = "the NICs of the file that are nearest to a GPU";
    }
    if (nodes > 1 && nics > 0)
      from += ", of " + std::to_string(nodes) + " nodes";
    if (nics > 0) {
      note("/levels/1/nics", std::to_string(nics), from);
    } else {
      nics = std::max<int64_t>(1, model.levels[1].nics * domain() /
                                      model.ranksPerNode());
      noteDefault("/levels/1/nics", std::to_string(nics));
    }
    level["nics"] = nics;

    double rate = rateOfNics();
    std::string rateFrom = "the slowest of these NICs in the file";
    if (choices.nicRate) {
      rate = choices.nicRate->count();
      rateFrom = "--nic-bytes-per-second";
    }
    const std::string pointer = "/levels/1/bytes_per_second";
    if (rate > 0) {
      level["bytes_per_second"] = rate;
      note(pointer, rateText(rate), rateFrom);
    } else {
      rateFrom = choices.model;
      noteDefault(pointer, rateText(model.levels[1].bandwidth.count()));
    }
    level["source"] = "nics: " + (from.empty() ? choices.model : from) + " " +
                      choices.file + "; rate: " + rateFrom +
                      "; latency and oversubscription as " + choices.model +
                      ": " + model.levels[1].source;
    for (size_t outer = 1; outer < model.levels.size(); ++outer)
      noteDefault("/levels/" + std::to_string(outer) + "/oversubscription",
                  figure(model.levels[outer].oversubscription));
  }

  /// Rates of NCCL go with the links that they run over.
  void setCollectives() {
    Json &fabric = json["collectives"];
    const double scale = nodeRate / model.levels[0].bandwidth.count();
    std::string changes;
    const auto set = [&](const std::string &key, double value,
                         const std::string &shown, const std::string &from) {
      fabric[key] = value;
      note("/collectives/" + key, shown, from);
      changes += "; " + key + ": " + from;
    };
    const std::string scaled =
        choices.model + "'s, by the links there are (x " + figure(scale) + ")";
    if (std::abs(scale - 1) > 1e-6)
      set("channel_bytes_per_second",
          model.fabric.channelBandwidth.count() * scale,
          rateText(model.fabric.channelBandwidth.count() * scale), scaled);
    const bool direct = findings.shape == NvlinkShape::Mesh ||
                        findings.shape == NvlinkShape::Partial;
    if (model.fabric.nvlsChannels > 0 && direct && count > 2) {
      fabric["nvls_channels"] = 0;
      note("/collectives/nvls_channels", "0", "no NVSwitch in the file");
      changes += "; nvls_channels: no NVSwitch";
    } else if (model.fabric.nvlsChannels > 0 && std::abs(scale - 1) > 1e-6) {
      set("nvls_intra_bytes_per_second", model.fabric.nvlsIntra.count() * scale,
          rateText(model.fabric.nvlsIntra.count() * scale), scaled);
    }
    if (direct && findings.pairLinks < findings.leastLinks()) {
      const double fraction = model.fabric.p2pFraction *
                              static_cast<double>(findings.pairLinks) /
                              static_cast<double>(findings.leastLinks());
      set("p2p_fraction", fraction, figure(fraction),
          "a send uses the " + std::to_string(findings.pairLinks) + " of " +
              std::to_string(findings.leastLinks()) +
              " NVLinks that join its pair");
    }
    if (model.fabric.links == NodeLinks::Pcie)
      setSwitch(fabric, changes);
    note("/collectives", "as " + choices.model,
         "measured there" +
             std::string(changes.empty() ? "" : ", but for these"),
         true);
    if (!changes.empty())
      fabric["source"] = fabric["source"].get<std::string>() +
                         "; of that changed for " + choices.file + changes;
  }

  /// How many neighbours a PCIe switch joins.
  void setSwitch(Json &fabric, std::string &changes) {
    const size_t behind = findings.switches.front().size();
    const bool even =
        std::all_of(findings.switches.begin(), findings.switches.end(),
                    [&](const std::vector<size_t> &group) {
                      return group.size() == behind;
                    });
    const std::string pointer = "/collectives/switch";
    if (!even || behind < 2 || model.fabric.switchRanks < 2) {
      fabric.erase("switch");
      note(pointer, "none",
           behind < 2 || !even
               ? "the file has no equal groups behind PCIe switches"
               : choices.model + " has no rate of one");
      changes += "; switch: none";
    } else {
      fabric["switch"]["ranks"] = behind;
      note(pointer + "/ranks", std::to_string(behind),
           "GPUs behind one PCIe switch in the file");
      changes += "; switch/ranks: its GPUs behind one PCIe switch";
    }
  }
};

} // namespace

bool clusterOf(const Node &node, const Findings &findings,
               const ClusterChoices &choices, ClusterFile &result,
               Failure &failure) {
  return Builder(node, findings, choices, result, failure).build();
}

} // namespace shardwright::topology
