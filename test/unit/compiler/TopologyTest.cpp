#include "compiler/Topology/ClusterFile.h"
#include "cost_model/hardware/Hardware.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>

using namespace shardwright;
using namespace shardwright::topology;

namespace {

Node read(const std::string &text) {
  Node node;
  cost::Failure failure;
  const bool isRead = readNode(text, "topo", node, failure);
  for (const cost::Message &message : failure.messages)
    UNSCOPED_INFO(message.text);
  REQUIRE(isRead);
  return node;
}

std::string refusal(const std::string &text) {
  Node node;
  cost::Failure failure;
  REQUIRE_FALSE(readNode(text, "topo", node, failure));
  REQUIRE(failure.messages.size() == 1);
  return failure.messages.front().text;
}

/// A table of `count` GPUs; `cell(i, j)` stands between two, `gap` between
/// cells.
template <typename Cell>
std::string table(int count, const std::string &gap, const Cell &cell) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "\t" + ("GPU" + std::to_string(i));
  text += "\tCPU Affinity\n";
  for (int i = 0; i < count; ++i) {
    text += "GPU" + std::to_string(i) + "\t";
    for (int j = 0; j < count; ++j)
      text += (i == j ? std::string(" X ") : cell(i, j)) + gap;
    text += "\t0-7\n";
  }
  return text;
}

/// A GPU behind two PCIe switches of one of two CPUs, and a NIC: behind the
/// inner switch, the outer one (`first`), the same CPU or the other (`second`).
std::string system(const std::string &besideGpu, const std::string &first,
                   const std::string &second) {
  const std::string nic =
      "<pci busid=\"0000:90:00.0\" class=\"0x020000\">"
      "<nic><net name=\"eth0\" speed=\"100000\"/></nic></pci>";
  const auto put = [&](const std::string &text) {
    return text == "nic" ? nic : "";
  };
  return "<system><cpu numaid=\"0\"><pci busid=\"0000:10:00.0\" "
         "class=\"0x060400\">"
         "<pci busid=\"0000:11:00.0\" class=\"0x060400\">"
         "<pci busid=\"0000:12:00.0\" class=\"0x030200\"><gpu "
         "dev=\"0\"/></pci>" +
         put(besideGpu) + "</pci>" + put(first) + "</pci>" +
         put(second == "cpu" ? "nic" : "") + "</cpu><cpu numaid=\"1\">" +
         put(second == "far" ? "nic" : "") + "</cpu></system>";
}

// NICs of such a path from each of four GPUs, which `links` joins: the
// warnings.
std::vector<Warning> warningsOf(const std::vector<std::string> &nics,
                                const std::string &links) {
  std::string text = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\n";
  for (size_t gpu = 0; gpu < nics.size(); ++gpu) {
    text += "GPU" + std::to_string(gpu);
    for (size_t other = 0; other < nics.size(); ++other)
      text += "\t" + (gpu == other ? "X" : links);
    text += "\t" + nics[gpu] + "\n";
  }
  return findingsOf(read(text)).warnings;
}

} // namespace

TEST_CASE("cells may touch, whatever they say") {
  const auto cell = [](int i, int j) {
    return std::string((i < 2) == (j < 2) ? "NV12" : "SYS");
  };
  for (const char *gap : {"\t", "  ", ""}) {
    const Node node = read(table(4, gap, cell));
    REQUIRE(node.gpus.size() == 4);
    CHECK(node.gpus[0].links == std::vector<int64_t>{0, 12, 0, 0});
    CHECK(node.gpus[3].links == std::vector<int64_t>{0, 0, 12, 0});
    CHECK(node.toGpu[0][2] == Path::Sys);
    CHECK(node.gpus[2].cpus == "0-7");
    const Findings found = findingsOf(node);
    CHECK(found.shape == NvlinkShape::Islands);
    CHECK(found.domains == std::vector<std::vector<size_t>>{{0, 1}, {2, 3}});
  }
}

TEST_CASE("a cube of eight GPUs is connected in part") {
  // Links to the other GPUs of the half and to the one opposite, as NVLink of
  // the first two generations had them.
  const auto cell = [](int i, int j) {
    return std::string((i / 4) == (j / 4) ? "NV1"
                       : i % 4 == j % 4   ? "NV2"
                                          : "SYS");
  };
  const Findings found = findingsOf(read(table(8, "\t", cell)));
  CHECK(found.shape == NvlinkShape::Partial);
  CHECK(found.domains.size() == 1);
  CHECK(found.links == std::vector<int64_t>(8, 5));
  CHECK(found.pairLinks == 1);
}

TEST_CASE("links of one's own are told from those to a switch") {
  // 3 x 4 links are as many as a GPU may have, 3 x 12 are not: the 12 of a GPU
  // that reach every other.
  const auto own = [](int, int) { return std::string("NV4"); };
  const Findings mesh = findingsOf(read(table(4, "\t", own)));
  CHECK(mesh.shape == NvlinkShape::Mesh);
  CHECK(mesh.leastLinks() == 12);
  CHECK(mesh.pairLinks == 4);
  const auto all = [](int, int) { return std::string("NV12"); };
  const Findings switched = findingsOf(read(table(4, "\t", all)));
  CHECK(switched.shape == NvlinkShape::Switch);
  CHECK(switched.leastLinks() == 12);
}

TEST_CASE("how near a NIC is, by what lies between in the tree") {
  const auto path = [](const std::string &text) {
    const Node node = read(text);
    REQUIRE(node.nics.size() == 1);
    CHECK(node.nics[0].rate.count() == 100e9 / 8);
    return node.toNic[0][0];
  };
  CHECK(path(system("nic", "", "")) == Path::Pix);
  CHECK(path(system("", "nic", "")) == Path::Pxb);
  CHECK(path(system("", "", "cpu")) == Path::Phb);
  CHECK(path(system("", "", "far")) == Path::Sys);
}

// By hand: GPU3 asks either NIC for half. GPU0 and GPU1 have 1 of 2.5 of the
// first, GPU2 1 of 1.5 of the second, GPU3 0.5 / 2.5 + 0.5 / 1.5.
TEST_CASE("GPUs share the NICs that are nearest to them") {
  const std::string header = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\n";
  const auto row = [](int gpu, const std::string &nics) {
    std::string text = "GPU" + std::to_string(gpu);
    for (int other = 0; other < 4; ++other)
      text += gpu == other ? "\tX" : "\tNV18";
    return text + nics + "\n";
  };
  const auto found = [&](const std::string &last) {
    return findingsOf(read(header + row(0, "\tPIX\tSYS") +
                           row(1, "\tPIX\tSYS") + row(2, "\tSYS\tPIX") +
                           row(3, last)));
  };
  const Findings uneven = found("\tSYS\tSYS");
  CHECK(uneven.near[0].share == Approx(0.4));
  CHECK(uneven.near[1].share == Approx(0.4));
  CHECK(uneven.near[2].share == Approx(2.0 / 3));
  CHECK(uneven.near[3].share == Approx(0.2 + 1.0 / 3));
  CHECK(uneven.near[3].assigned == 1);
  CHECK(uneven.warnings.back().kind == "uneven_nics");
  CHECK(uneven.warnings.back().text.find("GPU0 and GPU1 share") == 0);
  CHECK(found("\tSYS\tPIX").warnings.empty());
}

TEST_CASE("warnings say what is wrong, and what helps") {
  const auto says = [](const std::vector<Warning> &warnings,
                       const std::string &kind, const std::string &text) {
    return std::any_of(warnings.begin(), warnings.end(),
                       [&](const Warning &warning) {
                         return warning.kind == kind &&
                                warning.text.find(text) != std::string::npos;
                       });
  };
  CHECK(warningsOf({"PIX", "PIX", "PXB", "PXB"}, "NV18").empty());
  CHECK(says(warningsOf({"PHB", "PHB", "PHB", "PHB"}, "NV18"), "flat_pcie",
             "NCCL_TOPO_FILE"));
  // The level that all of them need is that of the farthest.
  CHECK(
      says(warningsOf({"PIX", "PHB", "NODE", "PIX"}, "NV18"),
           "gpudirect_off_by_default",
           "GPU1 and GPU2 have no NIC behind the same PCIe switch: NCCL leaves "
           "GPUDirect RDMA off beyond PXB, but for GPUs on C2C; "
           "NCCL_NET_GDR_LEVEL=NODE asks"));
  const auto linksOf = [](const auto &cell) {
    return findingsOf(read(table(4, "\t", cell))).warnings;
  };
  CHECK(
      says(linksOf([](int i, int j) {
             return std::string(i / 2 == j / 2 ? "NV4" : "SYS");
           }),
           "nvlink_islands",
           "GPU0 and GPU1; GPU2 and GPU3: tensor parallelism over more crosses "
           "PCIe and the interconnect between CPUs"));
  // A chain: its ends have one neighbour.
  CHECK(says(linksOf([](int i, int j) {
               return std::string(std::abs(i - j) == 1 ? "NV4" : "PIX");
             }),
             "nvlink_partial", "(GPU0 has it to 1 of 3)"));
  CHECK(says(linksOf([](int i, int j) {
               return std::string(i == 3 || j == 3 ? "NV17" : "NV18");
             }),
             "fewer_nvlinks",
             "GPU3 shows fewer NVLinks (17) than the others (18)"));
  const Node node = read("<system><cpu><pci busid=\"0000:01:00.0\" "
                         "class=\"0x060400\"><pci busid=\"0000:02:00.0\" "
                         "class=\"0x030200\"><gpu dev=\"0\"/></pci><pci "
                         "busid=\"0000:03:00.0\" class=\"0x020000\"><nic>"
                         "<net name=\"a\" gdr=\"0\"/></nic></pci></pci></cpu>"
                         "</system>");
  CHECK(says(findingsOf(node).warnings, "gpudirect_missing",
             "1 of 1 NICs in use had no GPUDirect RDMA"));
}

TEST_CASE("a table that contradicts itself is refused") {
  const auto oneWay = [](int i, int j) {
    return std::string(i < j ? "NV4" : "NV2");
  };
  CHECK(refusal(table(2, "\t", oneWay)) ==
        "topo:1: expected the same between GPU0 and GPU1 in both rows, but got "
        "NV4 and NV2");
  const auto unknown = [](int, int) { return std::string("QPI"); };
  CHECK(refusal(table(2, "\t", unknown)).find("but got 'QPI'") !=
        std::string::npos);
}

TEST_CASE("a cluster file has the node's links and NICs") {
  const auto cell = [](int, int) { return std::string("NV12"); };
  const Node node = read(table(4, "\t", cell));
  ClusterChoices choices;
  choices.file = "topo";
  choices.name = "ours";
  choices.model = "dgx-a100";
  choices.modelText = cost::shippedHardware("dgx-a100");
  choices.nics = 2;
  choices.nicRate = cost::BytesPerSecond(25e9);
  ClusterFile file;
  cost::Failure failure;
  REQUIRE(clusterOf(node, findingsOf(node), choices, file, failure));
  cost::Hardware hardware;
  REQUIRE(cost::readHardware(file.text, "ours.json", hardware, failure));
  CHECK(hardware.ranksPerNode() == 4);
  CHECK(hardware.levels[0].bandwidth.count() == 12 * 25e9);
  CHECK(hardware.levels[1].nics == 2);
  CHECK(hardware.levels[1].bandwidth.count() == 25e9);
  // Half the links, half the rate of what NCCL reaches over them.
  const std::string half = [&] {
    const auto fewer = [](int, int) { return std::string("NV6"); };
    const Node slower = read(table(8, "\t", fewer));
    ClusterFile other;
    REQUIRE(clusterOf(slower, findingsOf(slower), choices, other, failure));
    return other.text;
  }();
  cost::Hardware slower;
  REQUIRE(cost::readHardware(half, "half.json", slower, failure));
  CHECK(slower.fabric.channelBandwidth.count() ==
        Approx(hardware.fabric.channelBandwidth.count() / 2));
  choices.model = "rtx-pro-6000";
  choices.modelText = cost::shippedHardware("rtx-pro-6000");
  CHECK_FALSE(clusterOf(node, findingsOf(node), choices, file, failure));
  CHECK(failure.kind == cost::FailureKind::Unsupported);
}
