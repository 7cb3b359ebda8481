//===- Communicators.cpp - Groups that a rank communicates in -------------===//
#include "runtime/src/train/Communicators.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardwright::runtime {

using Json = nlohmann::json;

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
  for (int member : mesh.members(stage.rank, mask)) {
    const int64_t other = mesh.coordinate(member, mask);
    const bool pipeline = mask == stage.axis(stage.program.pp_axis);
    // Transfers go to the next stage or the one before; sums along the
    // pipeline stay between the owners of the shared block.
    if (pipeline && (collective == "send" || collective == "recv")) {
      if (std::abs(other - stage.index) != 1)
        continue;
    } else if (pipeline && !(stage.tables.shared_owners >> other & 1)) {
      continue;
    }
    members.push_back(member);
  }
  return members;
}

static std::vector<Communicator> byMesh(const Stage &stage) {
  std::vector<Communicator> result;
  const Mesh &mesh = stage.mesh;
  const uint32_t pipeline = stage.axis(stage.program.pp_axis);
  for (uint32_t i = 0; i < mesh.getAxes().size(); ++i)
    if (const uint32_t mask = uint32_t(1) << i;
        mask != pipeline && mesh.degree(mask) > 1)
      result.push_back({mesh.members(stage.rank, mask)});
  for (int step : {-1, 1})
    if (step < 0 ? !stage.isFirst() : !stage.isLast())
      for (int direction = 0; direction < 2; ++direction)
        result.push_back({{static_cast<int>(stage.rank),
                           stage.neighbour(step)},
                          /*isPair=*/true});
  return result;
}

std::vector<Communicator> communicatorsOf(const Stage &stage) {
  const char *text = stage.program.predicted;
  const Json predicted = Json::parse(text ? text : "", nullptr, false);
  const size_t index = static_cast<size_t>(stage.index);
  if (!predicted.is_array() || predicted.size() <= index ||
      !predicted[index].contains("collectives"))
    return byMesh(stage);
  std::vector<Communicator> result;
  for (const Json &entry : predicted[index]["collectives"]) {
    const std::string axis = entry.value("axis", ""),
                      collective = entry.value("collective", "");
    if (axis == "world")
      continue;
    const bool isPair = collective == "send" || collective == "recv";
    const bool isAllToAll = collective == "all_to_all";
    std::vector<int> members = groupOf(stage, axis, collective);
    if (members.size() < (isPair ? 1 : 2))
      continue;
    const auto same = std::find_if(
        result.begin(), result.end(), [&](const Communicator &other) {
          return !isPair && !other.isPair && other.members == members;
        });
    if (same != result.end())
      same->isAllToAll = same->isAllToAll || isAllToAll;
    else // sends and receives of a phase are a direction of their own
      result.push_back({std::move(members), isPair, isAllToAll});
  }
  return result;
}

} // namespace shardwright::runtime
