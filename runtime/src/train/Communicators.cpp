//===- Communicators.cpp - Groups that a rank communicates in -------------===//
#include "runtime/src/train/Communicators.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace shardwright::runtime {

using Json = nlohmann::json;

/// Stages that this one sends to or receives from, each with whether it sends.
static std::set<std::pair<int32_t, bool>> transfersOf(const Stage &stage) {
  std::set<std::pair<int32_t, bool>> transfers;
  for (int32_t i = 0; i < stage.tables.num_actions; ++i) {
    const sw_rt_action &action = stage.tables.actions[i];
    if (action.kind == SW_RT_ACT_SEND_FORWARD ||
        action.kind == SW_RT_ACT_SEND_BACKWARD)
      transfers.emplace(action.peer, true);
    if (action.kind == SW_RT_ACT_RECV_FORWARD ||
        action.kind == SW_RT_ACT_RECV_BACKWARD)
      transfers.emplace(action.peer, false);
  }
  return transfers;
}

std::vector<int> groupOf(const Stage &stage, const std::string &axes,
                         const std::string &collective) {
  const Mesh &mesh = stage.mesh;
  if (axes == "world")
    return mesh.members(stage.rank, mesh.all());
  uint32_t mask = 0;
  for (size_t i = 0; i < mesh.getAxes().size(); ++i)
    if (("+" + axes + "+").find("+" + mesh.getAxes()[i].name + "+") !=
        std::string::npos)
      mask |= uint32_t(1) << i;
  std::vector<int> members;
  const auto transfers = transfersOf(stage);
  const bool sends = collective == "send";
  for (int member : mesh.members(stage.rank, mask)) {
    const int64_t other = mesh.coordinate(member, mask);
    const bool pipeline = mask == stage.axis(stage.program.pp_axis);
    // Sums along the pipeline stay between the owners of the shared block.
    if (pipeline && (sends || collective == "recv")) {
      if (other != stage.index &&
          !transfers.count({static_cast<int32_t>(other), sends}))
        continue;
    } else if (pipeline && !(stage.tables.shared_owners >> other & 1)) {
      continue;
    }
    members.push_back(member);
  }
  return members;
}

/// Pairs of transfers: those of streams and of gradients share one, if they go
/// the same way.
static std::vector<Communicator> pairsOf(const Stage &stage) {
  std::vector<Communicator> result;
  for (const auto &[peer, sends] : transfersOf(stage))
    result.push_back({{static_cast<int>(stage.rank), stage.rankOn(peer)},
                      /*isPair=*/true});
  return result;
}

static std::vector<Communicator> byMesh(const Stage &stage) {
  std::vector<Communicator> result = pairsOf(stage);
  const Mesh &mesh = stage.mesh;
  const uint32_t pipeline = stage.axis(stage.program.pp_axis);
  for (uint32_t i = 0; i < mesh.getAxes().size(); ++i)
    if (const uint32_t mask = uint32_t(1) << i;
        mask != pipeline && mesh.degree(mask) > 1)
      result.push_back({mesh.members(stage.rank, mask)});
  return result;
}

std::vector<Communicator> communicatorsOf(const Stage &stage) {
  const char *text = stage.program.predicted;
  const Json predicted = Json::parse(text ? text : "", nullptr, false);
  const size_t index = static_cast<size_t>(stage.index);
  if (!predicted.is_array() || predicted.size() <= index ||
      !predicted[index].contains("collectives"))
    return byMesh(stage);
  std::vector<Communicator> result = pairsOf(stage);
  for (const Json &entry : predicted[index]["collectives"]) {
    const std::string axis = entry.value("axis", ""),
                      collective = entry.value("collective", "");
    if (axis == "world" || collective == "send" || collective == "recv")
      continue;
    const bool isAllToAll = collective == "all_to_all";
    std::vector<int> members = groupOf(stage, axis, collective);
    if (members.size() < 2)
      continue;
    const auto same = std::find_if(
        result.begin(), result.end(), [&](const Communicator &other) {
          return !other.isPair && other.members == members;
        });
    if (same != result.end())
      same->isAllToAll = same->isAllToAll || isAllToAll;
    else
      result.push_back({std::move(members), /*isPair=*/false, isAllToAll});
  }
  return result;
}

} // namespace shardwright::runtime
