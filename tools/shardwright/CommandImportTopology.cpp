//===- CommandImportTopology.cpp - A cluster file of one's own node -------===//

#include "compiler/Topology/ClusterFile.h"
#include "cost_model/base/Format.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/PlanJson.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;
using namespace topology;

namespace {

struct ImportOptions {
  std::string file, gpu, like, name, output, nicRate, nodeRate;
  int64_t nics = 0, domain = 0; ///< 0: not given
  bool json = false;
};

bool rateOf(const std::string &flag, const std::string &text,
            std::optional<BytesPerSecond> &rate, Failure &failure) {
  if (text.empty())
    return true;
  if (!parseRate(text, rate.emplace()))
    return refuse(failure, Diag::flag_value,
                  flag + " " + text +
                      ": expected a rate from 10 MB/s to 1e15 B/s, as 50GB/s, "
                      "400Gb/s or 50e9");
  return true;
}

/// The GPU of the file, if it says one and the same of all.
std::string gpuOf(const Node &node) {
  std::string gpu = gpuOfPciId(node.gpus.front().pciId);
  for (const Gpu &other : node.gpus)
    if (other.pciId != node.gpus.front().pciId)
      return "";
  return gpu;
}

/// Whose figures the cluster file takes; none where nothing says it and no file
/// is asked for.
bool chooseModel(const ImportOptions &options, const Node &node,
                 ClusterChoices &choices, Failure &failure) {
  if (!options.like.empty()) {
    ClusterText read;
    if (!readClusterText(options.like, "--like", read, failure))
      return false;
    choices.model = options.like;
    choices.modelText = read.text;
    choices.why = "--like " + options.like;
    return true;
  }
  const std::string gpu = options.gpu.empty() ? gpuOf(node) : options.gpu;
  const std::string said =
      options.gpu.empty() ? "the file's PCI ids (" + gpu + ")" : "--gpu " + gpu;
  if (gpu.empty()) {
    if (options.output.empty())
      return true;
    return refuse(failure, Diag::missing_gpu,
                  options.file +
                      " does not say which GPU it is of: pass --gpu, "
                      "one of " +
                      joined(shippedGpus()) + ", or --like CLUSTER");
  }
  const std::vector<std::string> clusters = clustersWithGpu(gpu);
  if (clusters.size() != 1 && (!options.gpu.empty() || !options.output.empty()))
    return refuse(
        failure, Diag::unknown_gpu,
        said + ": expected one of " + joined(shippedGpus()) +
            (clusters.empty()
                 ? ", or --like with a cluster file of that GPU"
                 : ", but it begins several: those of " + joined(clusters)));
  if (clusters.size() != 1)
    return true;
  choices.model = clusters.front();
  choices.modelText = shippedHardware(clusters.front());
  choices.why = said;
  return true;
}

std::string namesOf(const Node &node, const std::vector<size_t> &nics) {
  std::string text;
  for (size_t nic : nics)
    text += (text.empty() ? "" : ", ") + node.nics[nic].name;
  return text;
}

/// "1 NIC", "2 NICs"
std::string countOf(size_t count, const std::string &noun) {
  return std::to_string(count) + " " +
         plural(static_cast<int64_t>(count), noun);
}

std::string nvlinkText(const Findings &found) {
  std::string text = "NVLink: " + std::string(name(found.shape));
  if (found.shape == NvlinkShape::Unknown)
    return text + " (the file lists PCI devices alone)";
  if (found.shape == NvlinkShape::None)
    return text;
  text += ", " + std::to_string(found.leastLinks()) +
          plural(found.leastLinks(), " link") + " a GPU";
  if (found.domains.size() > 1) {
    text += "; domains:";
    for (const std::vector<size_t> &domain : found.domains)
      text += (domain == found.domains.front() ? " " : "; ") + gpuList(domain);
  }
  if (found.shape == NvlinkShape::Mesh || found.shape == NvlinkShape::Partial)
    text += ", at least " + std::to_string(found.pairLinks) +
            " between two that have any";
  return text;
}

/// "NIC0 (GPU0 and GPU1); ..." of NICs that are nearest to several GPUs.
std::string sharedText(const Node &node, const Findings &found) {
  std::string text;
  for (size_t nic = 0; nic < node.nics.size(); ++nic) {
    std::vector<size_t> gpus;
    for (size_t gpu = 0; gpu < found.near.size(); ++gpu)
      if (const std::vector<size_t> &nearest = found.near[gpu].nearest;
          std::find(nearest.begin(), nearest.end(), nic) != nearest.end())
        gpus.push_back(gpu);
    if (gpus.size() > 1)
      text += (text.empty() ? "" : "; ") + node.nics[nic].name + " (" +
              gpuList(gpus) + ")";
  }
  return text;
}

std::string nodeText(const std::string &file, const Node &node,
                     const Findings &found) {
  const auto orDash = [](const std::string &text) {
    return text.empty() ? "-" : text;
  };
  std::string text = file + ": " + std::string(name(node.format)) + ", " +
                     countOf(node.gpus.size(), "GPU") + ", " +
                     countOf(node.nics.size(), "NIC") + "\n" +
                     nvlinkText(found) + "\n\n";
  using Align = Table::Align;
  Table table({"GPU", "NUMA", "NVLinks", "NIC", "path", "as near", "rate"},
              {Align::Left, Align::Right, Align::Right, Align::Left,
               Align::Left, Align::Left, Align::Right});
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    std::vector<std::string> row = {
        node.gpus[i].name, orDash(node.gpus[i].numa),
        node.saysNvlink ? std::to_string(found.links[i]) : "-"};
    if (node.nics.empty()) {
      row.insert(row.end(), {"-", "-", "-", "-"});
    } else {
      const NearNics &near = found.near[i];
      const Nic &nic = node.nics[near.assigned];
      std::vector<size_t> others;
      for (size_t other : near.nearest)
        if (other != near.assigned)
          others.push_back(other);
      row.insert(
          row.end(),
          {nic.name + (nic.device.empty() ? "" : " (" + nic.device + ")"),
           std::string(name(near.path)), orDash(namesOf(node, others)),
           nic.rate.count() > 0 ? gigabits(nic.rate) : "-"});
    }
    table.add(row);
  }
  text += table.text();
  if (const std::string shared = sharedText(node, found); !shared.empty())
    text += "nearest to several GPUs: " + shared + "\n";
  if (!found.unused.empty())
    text +=
        "left out, nearest to no GPU: " + namesOf(node, found.unused) + "\n";
  return text;
}

std::string fieldsText(const ClusterChoices &choices,
                       const ClusterFile &cluster) {
  using Align = Table::Align;
  Table table({"cluster '" + choices.name + "'", "value", "from"},
              {Align::Left, Align::Right, Align::Left});
  for (const ClusterField &field : cluster.fields)
    table.add({field.pointer, field.value,
               (field.isDefault ? "default: " : "") + field.from});
  return "\n" + table.text();
}

Json nodeJson(const Node &node, const Findings &found,
              const std::vector<Warning> &warnings) {
  Json gpus = Json::array(), nics = Json::array(), said = Json::array();
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    const Gpu &gpu = node.gpus[i];
    Json entry = {{"name", gpu.name}};
    if (!gpu.busId.empty())
      entry["bus_id"] = gpu.busId;
    if (!gpu.numa.empty())
      entry["numa"] = gpu.numa;
    if (node.saysNvlink)
      entry["nvlinks"] = found.links[i];
    if (!node.nics.empty()) {
      entry["nic"] = node.nics[found.near[i].assigned].name;
      entry["path"] = name(found.near[i].path);
      for (size_t nic : found.near[i].nearest)
        entry["nearest"].push_back(node.nics[nic].name);
    }
    gpus.push_back(std::move(entry));
  }
  for (size_t i = 0; i < node.nics.size(); ++i) {
    Json entry = {{"name", node.nics[i].name},
                  {"used", std::find(found.unused.begin(), found.unused.end(),
                                     i) == found.unused.end()}};
    if (!node.nics[i].device.empty())
      entry["device"] = node.nics[i].device;
    if (node.nics[i].rate.count() > 0)
      entry["bytes_per_second"] = node.nics[i].rate.count();
    nics.push_back(std::move(entry));
  }
  for (const Warning &warning : warnings)
    said.push_back({{"kind", warning.kind}, {"text", warning.text}});
  return {{"format", name(node.format)},
          {"nvlink", name(found.shape)},
          {"nvlink_domains", found.domains},
          {"gpus", gpus},
          {"nics", nics},
          {"warnings", said}};
}

Json clusterJson(const ClusterFile &cluster) {
  Json fields = Json::array();
  for (const ClusterField &field : cluster.fields)
    fields.push_back({{"pointer", field.pointer},
                      {"value", field.value},
                      {"from", field.from},
                      {"default", field.isDefault}});
  return {{"cluster", Json::parse(cluster.text)}, {"fields", fields}};
}

ExitCode runImportTopology(const ImportOptions &options, Streams streams) {
  Failure failure;
  std::string text;
  Node node;
  ClusterChoices choices;
  choices.file = std::filesystem::path(options.file).filename().string();
  choices.name = !options.name.empty() ? options.name
                 : !options.output.empty()
                     ? std::filesystem::path(options.output).stem().string()
                     : std::filesystem::path(options.file).stem().string();
  if (options.nics > 0)
    choices.nics = options.nics;
  if (options.domain > 0)
    choices.domain = options.domain;
  if (!checkOutputs({options.output}, {options.file, options.like}, failure) ||
      !rateOf("--nic-bytes-per-second", options.nicRate, choices.nicRate,
              failure) ||
      !rateOf("--node-bytes-per-second", options.nodeRate, choices.nodeRate,
              failure) ||
      !readText(options.file, text, failure) ||
      !readNode(text, options.file, node, failure) ||
      !chooseModel(options, node, choices, failure))
    return report(failure, streams.err);
  const Findings found = findingsOf(node);
  std::vector<Warning> warnings = found.warnings;
  std::optional<ClusterFile> cluster;
  if (!choices.model.empty()) {
    // What is asked for with no flag is a look at the node.
    const bool asked = !options.output.empty() || !options.gpu.empty() ||
                       !options.like.empty();
    ClusterFile built;
    if (clusterOf(node, found, choices, built, failure)) {
      warnings.insert(warnings.end(), built.warnings.begin(),
                      built.warnings.end());
      cluster = std::move(built);
    } else if (asked) {
      return report(failure, streams.err);
    }
  }
  if (options.json) {
    Json json = nodeJson(node, found, warnings);
    if (cluster)
      json.update(clusterJson(*cluster));
    // Names of NICs and files are bytes, JSON is not.
    streams.out << json.dump(2, ' ', false, Json::error_handler_t::replace)
                << "\n";
  } else {
    streams.out << nodeText(options.file, node, found)
                << (cluster ? fieldsText(choices, *cluster) : "");
  }
  for (const std::string &said : node.notes)
    note(said, streams.err);
  for (const Warning &warning : warnings)
    warn(warning.text, streams.err);
  if (!options.output.empty()) {
    if (!writeText(options.output, cluster->text, failure))
      return report(failure, streams.err);
    note("wrote " + options.output, streams.err);
  }
  return ExitCode::Done;
}

} // namespace

void addImportTopology(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App *command = app.add_subcommand(
      "import-topology", "Write the cluster file of a node from what its own "
                         "tools say of it");
  command
      ->add_option("file", options->file,
                   "Output of `nvidia-smi topo -m`, or XML of NCCL "
                   "(NCCL_TOPO_DUMP_FILE)")
      ->required();
  command->add_option("-o,--output", options->output, "Cluster file to write");
  CLI::Option *gpu = command->add_option(
      "--gpu", options->gpu,
      "GPU of the node, as a shipped cluster names it: H100");
  command
      ->add_option("--like", options->like,
                   "Cluster whose figures are taken where the file says none")
      ->excludes(gpu);
  command->add_option("--name", options->name,
                      "Name of the cluster (default: that of the file)");
  command
      ->add_option("--nics", options->nics, "NICs of a node that training uses")
      ->check(CLI::Range(int64_t(1), int64_t(256)));
  command->add_option("--nic-bytes-per-second", options->nicRate,
                      "Rate of a NIC, one way: 400Gb/s, 50GB/s, 50e9");
  command->add_option("--node-bytes-per-second", options->nodeRate,
                      "Rate of a GPU inside the node, one way");
  command
      ->add_option("--nvlink-domain", options->domain,
                   "GPUs of an NVLink domain of several nodes")
      ->check(CLI::Range(int64_t(1), int64_t(65536)));
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer("Examples:\n"
                  "  shardwright import-topology topo.txt\n"
                  "  shardwright import-topology topo.txt --gpu H100 "
                  "--nic-bytes-per-second "
                  "400Gb/s -o ours.json\n"
                  "\n"
                  "`nvidia-smi topo -m > topo.txt` writes the table; `plan "
                  "--cluster ours.json "
                  "--gpus 64`\nthen plans for eight such nodes of 8. What the "
                  "file does not say "
                  "is taken from the\nshipped cluster of the same GPU, or from "
                  "that of --like, "
                  "and named. A row says\nwhich NIC is nearest to a GPU; "
                  "warnings say what that "
                  "costs.");
  command->callback(
      [=, &exitCode] { exitCode = runImportTopology(*options, streams); });
}

} // namespace shardwright::tools
