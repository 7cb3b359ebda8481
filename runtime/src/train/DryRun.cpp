//===- DryRun.cpp - What a rank would do, communicate and hold ------------===//
#include "runtime/src/train/Communicators.h"
#include "runtime/src/train/Report.h"

#include <nlohmann/json.hpp>

#include <set>

namespace shardwright::runtime {
namespace {

using Json = nlohmann::json;

const char *actionName(int32_t kind) {
  static const char *const names[] = {
      "forward",       "backward_data", "backward_weight",
      "send_forward",  "recv_forward",  "send_backward",
      "recv_backward", "reduce",        "step"};
  return kind >= 0 && kind <= SW_RT_ACT_STEP ? names[kind] : "unknown";
}

bool usesSlot(int32_t kind) {
  return kind <= SW_RT_ACT_BACKWARD_WEIGHT || kind == SW_RT_ACT_RECV_FORWARD;
}
bool hasMicrobatch(int32_t kind) { return kind < SW_RT_ACT_REDUCE; }

Json dryRun(const sw_rt_program &program, const Mesh &mesh, int64_t rank) {
  const Stage stage(program, mesh, rank);
  Json result = {{"model", program.model},
                 {"target", targetText(program)},
                 {"rank", rank},
                 {"ranks", mesh.ranks()},
                 {"stage", stage.index}};
  for (size_t i = 0; i < mesh.getAxes().size(); ++i)
    result["coordinates"][mesh.getAxes()[i].name] =
        mesh.coordinate(rank, uint32_t(1) << i);
  Json layers = Json::array(), actions = Json::array();
  Json slots = Json::array();
  const bool isChunked = stage.chunks.size() > 1;
  for (const Chunk &chunk : stage.chunks) {
    for (int32_t i = 0; i < chunk.tables->num_runs; ++i) {
      const sw_rt_run &run = chunk.tables->runs[i];
      layers.push_back({{"kind", program.kinds[run.kind].name},
                        {"count", run.count},
                        {"first_layer", run.first_layer}});
      if (isChunked)
        layers.back()["chunk"] = slots.size();
    }
    slots.push_back(chunk.tables->num_slots);
  }
  for (int32_t i = 0; i < stage.tables.num_actions; ++i) {
    const sw_rt_action &action = stage.tables.actions[i];
    Json json = {{"action", actionName(action.kind)}};
    if (hasMicrobatch(action.kind))
      json["microbatch"] = action.microbatch;
    if (usesSlot(action.kind))
      json["slot"] = action.slot;
    if (isChunked && hasMicrobatch(action.kind))
      json["chunk"] = action.chunk;
    if (action.peer >= 0)
      json["peer"] = action.peer;
    actions.push_back(json);
  }
  result["runs"] = layers;
  result["actions"] = actions;
  const sw_rt_arena &arena = stage.tables.arena;
  result["memory"] = {
      {"parameters_bytes", arena.parameters_bytes},
      {"gradients_bytes", arena.gradients_bytes},
      {"optimizer_bytes", arena.optimizer_bytes},
      {"saved_bytes", arena.slots_bytes},
      {"p2p_bytes", arena.p2p_bytes},
      {"comm_bytes", arena.comm_bytes},
      {"workspace_bytes", arena.workspace_bytes},
      {"total_bytes", arena.parameters_bytes + arena.gradients_bytes +
                          arena.optimizer_bytes + arena.slots_bytes +
                          arena.p2p_bytes + arena.comm_bytes +
                          arena.workspace_bytes}};
  result["slots"] = slots;
  for (const MemoryTerm &term : memoryOfDevice(stage))
    result["memory_beside_arena"][term.name] = term.bytes;
  const Json predicted =
      Json::parse(program.predicted ? program.predicted : "", nullptr, false);
  const size_t index = static_cast<size_t>(stage.index);
  if (predicted.is_array() && predicted.size() > index &&
      predicted[index].contains("collectives")) {
    Json collectives = predicted[index]["collectives"];
    for (Json &entry : collectives)
      entry["group"] = groupOf(stage, entry.value("axis", ""),
                               entry.value("collective", ""));
    result["collectives"] = collectives;
    if (predicted[index].contains("flops"))
      result["flops"] = predicted[index]["flops"];
  }
  return result;
}

} // namespace

std::string targetText(const sw_rt_program &program) {
  if (!program.device_code)
    return "the host";
  std::set<int32_t> capabilities;
  for (int32_t i = 0; i < program.device_code->num_images; ++i)
    capabilities.insert(program.device_code->images[i].capability);
  std::string text;
  for (int32_t capability : capabilities)
    text += (text.empty() ? "sm_" : ", sm_") + std::to_string(capability);
  return "CUDA GPUs (" + text + ")";
}

std::string dryRunJson(const sw_rt_program &program, const Mesh &mesh,
                       int64_t rank) {
  return dryRun(program, mesh, rank).dump();
}

std::string dryRunText(const sw_rt_program &program, const Mesh &mesh,
                       int64_t rank) {
  const Json json = dryRun(program, mesh, rank);
  std::string text = std::string(program.model) + ": rank " +
                     std::to_string(rank) + " of " +
                     std::to_string(mesh.ranks()) + " on " + mesh.text() +
                     ", for " + targetText(program) + ", stage " + json["stage"].dump() + " of " +
                     std::to_string(program.num_stages) + "\n\nlayers\n";
  auto line = [&](const std::string &content) {
    text += "  " + content + "\n";
  };
  for (const Json &run : json["runs"])
    line(run["count"].dump() + " x " + run["kind"].get<std::string>() +
         ", first layer " + run["first_layer"].dump() +
         (run.contains("chunk") ? ", chunk " + run["chunk"].dump() : ""));
  text += "\nactions of a step\n";
  for (const Json &action : json["actions"]) {
    std::string content = action["action"];
    if (action.contains("microbatch"))
      content += " microbatch " + action["microbatch"].dump();
    for (const auto &[key, word] :
         {std::pair("chunk", " chunk "), std::pair("slot", " slot "),
          std::pair("peer", " stage ")})
      if (action.contains(key))
        content += word + action[key].dump();
    line(content);
  }
  text += "\ncollectives of a step (predicted)\n";
  if (!json.contains("collectives"))
    line("unknown: the program carries no prediction");
  else
    for (const Json &entry : json["collectives"])
      line(entry.value("collective", "") + " over " + entry.value("axis", "") +
           " in " + entry.value("phase", "") + ": " +
           entry.value("calls", Json()).dump() + " calls, " +
           entry.value("payload_bytes", Json()).dump() + " bytes, ranks " +
           entry["group"].dump());
  text += "\nmemory\n";
  for (const auto &[key, value] : json["memory"].items())
    if (key != "total_bytes")
      line(key + " " + value.dump());
  line("total_bytes " + json["memory"]["total_bytes"].dump());
  if (json.contains("memory_beside_arena")) {
    text += "\nmemory beside the arena (estimated; cuDNN's workspace is asked "
            "for at the start)\n";
    for (const auto &[key, value] : json["memory_beside_arena"].items())
      line(key + " " + value.dump());
  }
  return text;
}

} // namespace shardwright::runtime
