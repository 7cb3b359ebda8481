//===- NcclXml.cpp - Reads NCCL's topology XML ----------------------------===//
//
// <system> has a <cpu> for each NUMA node, and in it the tree of PCI devices. A
// dump marks GPUs (<gpu>, with <nvlink> to others or to switches) and NICs
// (<net>); a file that a cloud ships for NCCL to complete may have <pci> alone,
// where the class of PCI tells them apart. How near two devices are is what
// lies on the way between them in the tree.
//
//===----------------------------------------------------------------------===//
#include "compiler/Topology/Node.h"

#include <pugixml.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace shardwright::topology {

using namespace cost;

namespace {

using Element = pugi::xml_node;

/// NCCL's own trees have some five levels.
constexpr size_t deepest = 64;

std::string lower(std::string text) {
  for (char &c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string attribute(Element element, const char *key) {
  return lower(element.attribute(key).as_string());
}

bool is(Element element, std::string_view tag) { return tag == element.name(); }

/// A class of PCI, "0x030200", of the kind that begins with `kind`.
bool isOfClass(const std::string &pciClass, std::string_view kind) {
  return pciClass.rfind(kind, 0) == 0;
}
constexpr std::string_view displayClass = "0x03", networkClass = "0x02",
                           acceleratorClass = "0x12", bridgeClass = "0x0680";

/// "10de:20b2"; empty where the file has placeholders.
std::string pciIdOf(Element pci) {
  const std::string vendor = attribute(pci, "vendor"),
                    device = attribute(pci, "device");
  const auto isReal = [](const std::string &id) {
    return id.size() == 6 && id.rfind("0x", 0) == 0 && id != "0x0000" &&
           id != "0xffff";
  };
  return isReal(vendor) && isReal(device)
             ? vendor.substr(2) + ":" + device.substr(2)
             : "";
}

class XmlReader {
public:
  XmlReader(std::string_view text, const std::string &file, Failure &failure)
      : text(text), file(file), failure(failure) {}

  bool read(Node &node) {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(
        text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed)
      return refuse(failure, Diag::not_xml,
                    at(parsed.offset) +
                        ": not XML: " + lower(parsed.description()));
    const Element root = document.document_element();
    if (!is(root, "system")) {
      const std::string other = otherRoot(root.name());
      return refuseOther(file,
                         other.empty()
                             ? "XML of another kind, <" + cut(root.name()) + ">"
                             : other,
                         failure);
    }
    return collect(root) && checkDevices(root) && fill(node);
  }

private:
  struct Device {
    Element pci;                  ///< or the <cpu> of a NIC without one
    Element mark;                 ///< <gpu> or <net>; may be absent
    std::vector<Element> parents; ///< inner to outer, the system last
  };

  const std::string_view text;
  const std::string &file;
  Failure &failure;
  std::vector<Device> gpus, nics;
  bool hasMarks = false; ///< GPUs are marked: it is a dump

  std::string at(ptrdiff_t offset) const {
    const size_t end = std::min(
        static_cast<size_t>(std::max<ptrdiff_t>(offset, 0)), text.size());
    return file + ":" +
           std::to_string(1 +
                          std::count(text.begin(),
                                     text.begin() + static_cast<ptrdiff_t>(end),
                                     '\n'));
  }
  bool complain(Element element, const std::string &what) {
    return refuse(failure, Diag::wrong_topology,
                  at(element.offset_debug()) + ": " + what);
  }

  static std::vector<Element> parentsOf(Element element) {
    std::vector<Element> parents;
    for (Element up = element.parent(); up && !up.parent().empty();
         up = up.parent())
      parents.push_back(up);
    return parents;
  }

  void add(std::vector<Device> &devices, Element pci, Element mark) {
    devices.push_back({pci, mark, parentsOf(pci)});
  }

  /// Every GPU and NIC of the tree, in its order. The tree is walked without
  /// recursion, as files may be nested as deep as they like.
  bool collect(Element root) {
    size_t depth = 1;
    for (Element element = root.first_child(); element;) {
      if (!collectFrom(element))
        return false;
      if (element.first_child()) {
        if (++depth > deepest)
          return complain(element, "expected at most " +
                                       std::to_string(deepest) +
                                       " levels of elements, but got more");
        element = element.first_child();
        continue;
      }
      while (element && element != root && !element.next_sibling()) {
        element = element.parent();
        --depth;
      }
      element = element == root ? Element() : element.next_sibling();
    }
    return true;
  }

  bool collectFrom(Element element) {
    if (gpus.size() + nics.size() > mostDevices)
      return complain(element, "expected at most " +
                                   std::to_string(mostDevices) +
                                   " GPUs and NICs, but got more");
    if (is(element, "nic") && !is(element.parent(), "pci"))
      addNets(element, element); // one that is on no bus, as of a VM
    if (!is(element, "pci"))
      return true;
    const std::string pciClass = attribute(element, "class");
    const Element gpu = element.child("gpu"), nic = element.child("nic");
    if (gpu || isOfClass(pciClass, displayClass) ||
        isOfClass(pciClass, acceleratorClass)) {
      hasMarks |= !gpu.empty();
      add(gpus, element, gpu);
    } else if (nic) {
      addNets(element, nic);
    } else if (isOfClass(pciClass, networkClass)) {
      add(nics, element, Element());
    }
    return true;
  }

  /// A port is a NIC of its own.
  void addNets(Element pci, Element nic) {
    const auto nets = nic.children("net");
    if (nets.begin() == nets.end())
      add(nics, pci, Element());
    for (Element net : nets)
      add(nics, pci, net);
  }

  bool checkDevices(Element root) {
    if (gpus.empty())
      return refuseOther(file,
                         root.first_child()
                             ? "no element of it is a GPU (<gpu>, or a <pci> "
                               "of class 0x03): NCCL "
                               "adds those that it finds on the node"
                             : "an empty <system>",
                         failure);
    for (const Device &gpu : gpus)
      if (attribute(gpu.pci, "vendor") == "0x1002" || gpu.mark.child("xgmi"))
        return refuseOther(file, "a topology of RCCL, of AMD's GPUs", failure);
    std::set<std::string> seen;
    for (const Device &gpu : gpus) {
      const std::string bus = attribute(gpu.pci, "busid");
      if (bus.empty())
        return complain(gpu.pci, "expected the busid of a GPU, but got none");
      if (!seen.insert(bus).second)
        return complain(gpu.pci, "expected one GPU at busid " + cut(bus) +
                                     ", but got another");
    }
    return true;
  }

  /// As NCCL and nvidia-smi number them: a dump says it, else by bus.
  void order() {
    const auto byBus = [](const Device &a, const Device &b) {
      return attribute(a.pci, "busid") < attribute(b.pci, "busid");
    };
    const auto byNumber = [](const Device &a, const Device &b) {
      return a.mark.attribute("dev").as_int(1 << 20) <
             b.mark.attribute("dev").as_int(1 << 20);
    };
    for (std::vector<Device> *devices : {&gpus, &nics}) {
      std::stable_sort(devices->begin(), devices->end(), byBus);
      std::stable_sort(devices->begin(), devices->end(), byNumber);
    }
  }

  /// What is between two devices, counted as NCCL counts: switches of PCI, or a
  /// CPU, or two.
  static Path pathBetween(const Device &a, const Device &b) {
    size_t switches = 0;
    for (Element up : a.parents) {
      const auto met = std::find(b.parents.begin(), b.parents.end(), up);
      if (met == b.parents.end()) {
        switches += is(up, "pci");
        continue;
      }
      if (is(up, "cpu"))
        return Path::Phb;
      if (!is(up, "pci"))
        return Path::Sys;
      switches += 1 + static_cast<size_t>(std::count_if(
                          b.parents.begin(), met,
                          [](Element inner) { return is(inner, "pci"); }));
      return switches == 1 ? Path::Pix : Path::Pxb;
    }
    return Path::Sys;
  }

  static std::string numaOf(const Device &device) {
    for (Element up : device.parents)
      if (is(up, "cpu"))
        if (const std::string numa = attribute(up, "numaid");
            !numa.empty() && numa != "-1")
          return numa;
    return "";
  }

  Gpu gpuOf(size_t index) const {
    const Device &device = gpus[index];
    Gpu gpu;
    gpu.name = "GPU" + std::to_string(index);
    gpu.busId = attribute(device.pci, "busid");
    gpu.pciId = pciIdOf(device.pci);
    gpu.numa = numaOf(device);
    gpu.links.assign(gpus.size(), 0);
    return gpu;
  }

  bool addLinks(Node &node) {
    std::map<std::string, size_t> byBus;
    for (size_t i = 0; i < node.gpus.size(); ++i)
      byBus[node.gpus[i].busId] = i;
    int64_t elsewhere = 0;
    for (size_t i = 0; i < gpus.size(); ++i)
      for (Element link : gpus[i].mark.children("nvlink")) {
        const int64_t count = link.attribute("count").as_llong(0);
        if (count < 1 || count > 99)
          return complain(link,
                          "expected a count of 1 to 99 NVLinks, but got '" +
                              cut(link.attribute("count").as_string()) + "'");
        const auto peer = byBus.find(attribute(link, "target"));
        if (peer != byBus.end() && peer->second != i)
          node.gpus[i].links[peer->second] += count;
        else if (isOfClass(attribute(link, "tclass"), bridgeClass))
          node.gpus[i].switchLinks += count;
        else
          elsewhere += count;
      }
    if (elsewhere > 0)
      node.notes.push_back(
          std::to_string(elsewhere) +
          " NVLinks to devices that the file does not list are "
          "left out");
    for (size_t i = 0; i < gpus.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (node.gpus[i].links[j] != node.gpus[j].links[i])
          return complain(gpus[i].mark,
                          "expected as many NVLinks from " + node.gpus[i].name +
                              " to " + node.gpus[j].name +
                              " as back, but got " +
                              std::to_string(node.gpus[i].links[j]) + " and " +
                              std::to_string(node.gpus[j].links[i]));
    return true;
  }

  bool addNic(size_t index, Node &node) {
    const Device &device = nics[index];
    Nic nic;
    nic.name = device.mark.attribute("name").as_string();
    if (nic.name.empty())
      nic.name = "NIC" + std::to_string(index);
    nic.busId = attribute(device.pci, "busid");
    nic.noGpuDirect = attribute(device.mark, "gdr") == "0";
    if (const pugi::xml_attribute speed = device.mark.attribute("speed")) {
      const double megabits = speed.as_double(-1);
      if (!(megabits >= 0 && megabits <= 1e8))
        return complain(device.mark,
                        "expected a speed of 0 to 1e8 Mb/s, but got '" +
                            cut(speed.as_string()) + "'");
      nic.rate = BytesPerSecond(megabits * 1e6 / 8);
    }
    node.nics.push_back(std::move(nic));
    return true;
  }

  bool fill(Node &node) {
    order();
    node.format = Format::NcclXml;
    node.saysNvlink = hasMarks;
    for (size_t i = 0; i < gpus.size(); ++i)
      node.gpus.push_back(gpuOf(i));
    for (size_t i = 0; i < nics.size(); ++i)
      if (!addNic(i, node))
        return false;
    for (const Device &gpu : gpus) {
      node.toGpu.emplace_back();
      node.toNic.emplace_back();
      for (const Device &other : gpus)
        node.toGpu.back().push_back(&other == &gpu ? Path::Pix
                                                   : pathBetween(gpu, other));
      for (const Device &nic : nics)
        node.toNic.back().push_back(pathBetween(gpu, nic));
    }
    return addLinks(node);
  }
};

} // namespace

bool readNcclXml(std::string_view text, const std::string &file, Node &node,
                 Failure &failure) {
  return XmlReader(text, file, failure).read(node);
}

} // namespace shardwright::topology
