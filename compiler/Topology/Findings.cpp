#include "compiler/Topology/Findings.h"

#include "cost_model/base/Format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

namespace shardwright::topology {

using namespace cost;

std::string_view name(NvlinkShape shape) {
  switch (shape) {
  case NvlinkShape::Unknown:
    return "unknown";
  case NvlinkShape::None:
    return "none";
  case NvlinkShape::Switch:
    return "switch";
  case NvlinkShape::Mesh:
    return "mesh";
  case NvlinkShape::Partial:
    return "partial";
  case NvlinkShape::Islands:
    return "islands";
  }
  return "";
}

int64_t Findings::leastLinks() const {
  return links.empty() ? 0 : *std::min_element(links.begin(), links.end());
}

std::string gpuList(const std::vector<size_t> &gpus) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < gpus.size();) {
    size_t end = i + 1;
    while (end < gpus.size() && gpus[end] == gpus[end - 1] + 1)
      ++end;
    const std::string first = "GPU" + std::to_string(gpus[i]);
    if (end - i > 2) {
      parts.push_back(first + " to GPU" + std::to_string(gpus[end - 1]));
    } else {
      parts.push_back(first);
      if (end - i == 2)
        parts.push_back("GPU" + std::to_string(gpus[end - 1]));
    }
    i = end;
  }
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string gigabits(BytesPerSecond rate) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.4g Gb/s",
                rate.count() * 8 / 1e9);
  return buffer.data();
}

namespace {

/// More NVLinks than any GPU has (Hopper and Blackwell: 18), so that a GPU
/// which shows more in all shows each again to every peer behind its switch.
constexpr int64_t mostLinks = 18;

/// Sets of GPUs that `joined` joins, directly or through others.
std::vector<std::vector<size_t>>
groupsOf(size_t count, const std::function<bool(size_t, size_t)> &joined) {
  std::vector<size_t> group(count);
  std::iota(group.begin(), group.end(), size_t(0));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j)
      if (joined(i, j) && group[i] != group[j]) {
        const size_t from = std::max(group[i], group[j]),
                     to = std::min(group[i], group[j]);
        std::replace(group.begin(), group.end(), from, to);
      }
  std::vector<std::vector<size_t>> groups;
  std::vector<size_t> place(count, count);
  for (size_t i = 0; i < count; ++i) {
    if (place[group[i]] == count) {
      place[group[i]] = groups.size();
      groups.emplace_back();
    }
    groups[place[group[i]]].push_back(i);
  }
  return groups;
}

int64_t sum(const std::vector<int64_t> &values) {
  return std::accumulate(values.begin(), values.end(), int64_t(0));
}

void findNvlink(const Node &node, Findings &found) {
  const size_t count = node.gpus.size();
  const bool toSwitch =
      std::any_of(node.gpus.begin(), node.gpus.end(),
                  [](const Gpu &gpu) { return gpu.switchLinks > 0; });
  const bool switched =
      toSwitch ||
      std::any_of(node.gpus.begin(), node.gpus.end(),
                  [](const Gpu &gpu) { return sum(gpu.links) > mostLinks; });
  for (const Gpu &gpu : node.gpus)
    found.links.push_back(
        toSwitch   ? gpu.switchLinks
        : switched ? *std::max_element(gpu.links.begin(), gpu.links.end())
                   : sum(gpu.links));
  const auto linked = [&](size_t i, size_t j) {
    return toSwitch
               ? node.gpus[i].switchLinks > 0 && node.gpus[j].switchLinks > 0
               : node.gpus[i].links[j] > 0;
  };
  found.domains = groupsOf(count, linked);
  bool all = true;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j) {
      all &= linked(i, j);
      const int64_t links = switched ? std::min(found.links[i], found.links[j])
                                     : node.gpus[i].links[j];
      if (linked(i, j) && (found.pairLinks == 0 || links < found.pairLinks))
        found.pairLinks = links;
    }
  if (!node.saysNvlink)
    found.shape = NvlinkShape::Unknown;
  else if (found.pairLinks == 0)
    found.shape = NvlinkShape::None;
  else if (found.domains.size() > 1)
    found.shape = NvlinkShape::Islands;
  else if (!all)
    found.shape = NvlinkShape::Partial;
  else
    found.shape = switched ? NvlinkShape::Switch : NvlinkShape::Mesh;
}

void findNics(const Node &node, Findings &found) {
  if (node.nics.empty())
    return;
  // A GPU with several NICs as near asks each for a part of what it sends.
  std::vector<double> asked(node.nics.size(), 0);
  const auto part = [](const NearNics &near) {
    return 1 / static_cast<double>(near.nearest.size());
  };
  for (const std::vector<Path> &paths : node.toNic) {
    NearNics near;
    near.path = *std::min_element(paths.begin(), paths.end());
    for (size_t nic = 0; nic < paths.size(); ++nic)
      if (paths[nic] == near.path)
        near.nearest.push_back(nic);
    for (size_t nic : near.nearest)
      asked[nic] += part(near);
    found.near.push_back(std::move(near));
  }
  for (NearNics &near : found.near)
    for (size_t nic : near.nearest)
      near.share += part(near) / asked[nic];
  for (size_t nic = 0; nic < node.nics.size(); ++nic)
    if (asked[nic] == 0)
      found.unused.push_back(nic);
  // GPUs that have a NIC beside them take it before those that look from afar.
  std::vector<size_t> order(found.near.size()), taken(node.nics.size(), 0);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return found.near[a].path < found.near[b].path;
  });
  for (size_t gpu : order) {
    NearNics &near = found.near[gpu];
    near.assigned = *std::min_element(
        near.nearest.begin(), near.nearest.end(),
        [&](size_t a, size_t b) { return taken[a] < taken[b]; });
    ++taken[near.assigned];
  }
}

/// The GPUs of which `holds` holds.
template <typename Holds>
std::vector<size_t> gpusWhere(size_t count, Holds holds) {
  std::vector<size_t> gpus;
  for (size_t i = 0; i < count; ++i)
    if (holds(i))
      gpus.push_back(i);
  return gpus;
}

std::string groupsText(const std::vector<std::vector<size_t>> &groups) {
  std::string text;
  for (const std::vector<size_t> &group : groups)
    text += (text.empty() ? "" : "; ") + gpuList(group);
  return text;
}

void warnOfLinks(const Node &node, Findings &found) {
  const size_t count = node.gpus.size();
  const auto warn = [&](const char *kind, const std::string &text) {
    found.warnings.push_back({kind, text});
  };
  const std::string crossing =
      std::any_of(node.toGpu.begin(), node.toGpu.end(),
                  [](const std::vector<Path> &paths) {
                    return std::count(paths.begin(), paths.end(), Path::Sys) >
                           0;
                  })
          ? "PCIe and the interconnect between CPUs"
          : "PCIe";
  if (found.shape == NvlinkShape::None && count > 1)
    warn("no_nvlink", "no NVLink: tensor parallelism over all " +
                          std::to_string(count) + " GPUs crosses " + crossing +
                          (found.switches.size() < count
                               ? "; GPUs behind one PCIe switch: " +
                                     groupsText(found.switches)
                               : ""));
  if (found.shape == NvlinkShape::Islands)
    warn("nvlink_islands", "NVLink joins only " + groupsText(found.domains) +
                               ": tensor parallelism over more crosses " +
                               crossing);
  if (found.shape == NvlinkShape::Partial) {
    const auto peersOf = [](const Gpu &gpu) {
      return std::count_if(gpu.links.begin(), gpu.links.end(),
                           [](int64_t links) { return links > 0; });
    };
    const Gpu &loneliest = *std::min_element(
        node.gpus.begin(), node.gpus.end(),
        [&](const Gpu &a, const Gpu &b) { return peersOf(a) < peersOf(b); });
    warn("nvlink_partial",
         "some pairs of GPUs have no NVLink (" + loneliest.name +
             " has it to " + std::to_string(peersOf(loneliest)) + " of " +
             std::to_string(count - 1) +
             "): rings find a way round, sends and all-to-alls between such "
             "pairs cross " +
             crossing);
  }
  const int64_t most =
      found.links.empty()
          ? 0
          : *std::max_element(found.links.begin(), found.links.end());
  const std::vector<size_t> fewer =
      gpusWhere(count, [&](size_t i) { return found.links[i] < most; });
  if (!fewer.empty() &&
      (found.shape == NvlinkShape::Switch || found.shape == NvlinkShape::Mesh ||
       found.shape == NvlinkShape::Partial))
    warn("fewer_nvlinks",
         gpuList(fewer) + (fewer.size() == 1 ? " shows" : " show") +
             " fewer NVLinks (" + std::to_string(found.leastLinks()) +
             ") than the others (" + std::to_string(most) +
             "): look for links that are down; every ring goes "
             "at the rate of the slowest");
}

void warnOfNics(const Node &node, Findings &found) {
  const size_t count = node.gpus.size();
  const auto warn = [&](const char *kind, const std::string &text) {
    found.warnings.push_back({kind, text});
  };
  const std::vector<size_t> far = gpusWhere(
      count, [&](size_t i) { return found.near[i].path == Path::Sys; });
  const std::vector<size_t> root = gpusWhere(count, [&](size_t i) {
    return found.near[i].path == Path::Phb || found.near[i].path == Path::Node;
  });
  if (!far.empty())
    warn("no_gpudirect",
         gpuList(far) + (far.size() == 1 ? " has" : " have") +
             " every NIC across the interconnect between CPUs (SYS): no "
             "GPUDirect RDMA, what they send between nodes is staged in host "
             "memory");
  const bool allPhb = std::all_of(
      node.toNic.begin(), node.toNic.end(), [](const std::vector<Path> &paths) {
        return std::all_of(paths.begin(), paths.end(),
                           [](Path path) { return path == Path::Phb; });
      });
  if (allPhb && count > 1) {
    warn("flat_pcie",
         "every GPU and NIC meet at a host bridge (PHB), as in a VM that hides "
         "the PCIe switches of its host: NCCL then leaves GPUDirect RDMA off; "
         "give it the host's tree (NCCL_TOPO_FILE), and import that");
  } else if (!root.empty()) {
    Path farthest = Path::Phb;
    for (size_t gpu : root)
      farthest = std::max(farthest, found.near[gpu].path);
    warn("gpudirect_off_by_default",
         gpuList(root) + (root.size() == 1 ? " has" : " have") +
             " no NIC behind the same PCIe switch: NCCL leaves GPUDirect RDMA "
             "off beyond PXB, but for GPUs on C2C; NCCL_NET_GDR_LEVEL=" +
             std::string(name(farthest)) + " asks for it");
  }
  const auto byShare = [&](size_t a, size_t b) {
    return found.near[a].share < found.near[b].share;
  };
  std::vector<size_t> gpus(count);
  std::iota(gpus.begin(), gpus.end(), size_t(0));
  const double
      least = found.near[*std::min_element(gpus.begin(), gpus.end(), byShare)]
                  .share,
      most = found.near[*std::max_element(gpus.begin(), gpus.end(), byShare)]
                 .share;
  if (least < most * 0.999) {
    const std::vector<size_t> poor = gpusWhere(
        count, [&](size_t i) { return found.near[i].share <= least * 1.001; });
    std::array<char, 160> shares;
    std::snprintf(shares.data(), shares.size(),
                  "%.3g of a NIC each, others up to %.3g", least, most);
    warn("uneven_nics",
         gpuList(poor) + " share their nearest NICs (" + shares.data() +
             "): data-parallel rings of these ranks share the rate, and the "
             "others wait for them");
  }
  const std::vector<size_t> without = [&] {
    std::vector<size_t> nics;
    for (size_t i = 0; i < node.nics.size(); ++i)
      if (node.nics[i].noGpuDirect &&
          !std::count(found.unused.begin(), found.unused.end(), i))
        nics.push_back(i);
    return nics;
  }();
  if (!without.empty())
    warn("gpudirect_missing",
         std::to_string(without.size()) + " of " +
             std::to_string(found.usedNics(node)) +
             " NICs in use had no GPUDirect RDMA when NCCL wrote the file "
             "(gdr=\"0\"): load nvidia-peermem, or use a kernel with DMA-BUF");
}

/// Of a port, or of two bonded.
void warnOfRates(const Node &node, Findings &found) {
  static constexpr double gigabitsOfPorts[] = {1,  10,  20,  25,  40,  50,
                                               56, 100, 200, 400, 800, 1600};
  for (const Nic &nic : node.nics) {
    const double rate = nic.rate.count() * 8 / 1e9;
    if (rate > 0 && std::none_of(std::begin(gigabitsOfPorts),
                                 std::end(gigabitsOfPorts), [&](double port) {
                                   return std::abs(rate - port) < port * 0.01;
                                 }))
      found.warnings.push_back(
          {"odd_nic_rate",
           nic.name + " is said to run at " + gigabits(nic.rate) +
               ", which no port does: check it (ibstat, ethtool)"});
  }
}

} // namespace

Findings findingsOf(const Node &node) {
  Findings found;
  findNvlink(node, found);
  found.switches = groupsOf(node.gpus.size(), [&](size_t i, size_t j) {
    return node.gpus[i].links[j] == 0 && node.toGpu[i][j] <= Path::Pxb;
  });
  findNics(node, found);
  warnOfLinks(node, found);
  if (node.nics.empty())
    found.warnings.push_back(
        {"no_nics",
         "the file names no NIC: drivers list those of RDMA alone, and "
         "containers may hide them"});
  else
    warnOfNics(node, found);
  warnOfRates(node, found);
  return found;
}

} // namespace shardwright::topology
