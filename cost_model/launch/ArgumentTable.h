//===- ArgumentTable.h - Rows of arguments and settings ---------*- C++ -*-===//
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_LAUNCH_ARGUMENTTABLE_H
#define SHARDWRIGHT_COST_MODEL_LAUNCH_ARGUMENTTABLE_H

#include "cost_model/launch/Launch.h"

#include <optional>

namespace shardwright::cost {

/// What is written behind a flag; "" of a switch; none: the flag is left out.
using Said = std::optional<std::string>;

struct ArgumentRow {
  const char *flag;
  Said (*said)(const LaunchQuestion &question);
};
struct SettingRow {
  const char *key;
  std::optional<SettingValue> (*said)(const LaunchQuestion &question);
};

inline Said number(int64_t value) { return std::to_string(value); }
inline Said numberIf(bool wanted, int64_t value) {
  return wanted ? number(value) : std::nullopt;
}
inline Said text(std::string_view value) { return std::string(value); }
inline Said textIf(bool wanted, std::string_view value) {
  return wanted ? text(value) : std::nullopt;
}
inline Said on(bool wanted) { return textIf(wanted, ""); }

template <size_t N>
std::vector<LaunchArgument> arguments(const ArgumentRow (&rows)[N],
                                const LaunchQuestion &question) {
  std::vector<LaunchArgument> result;
  for (const ArgumentRow &row : rows)
    if (Said said = row.said(question))
      result.push_back({row.flag, *said});
  return result;
}
template <size_t N>
std::vector<LaunchSetting> settings(const SettingRow (&rows)[N],
                              const LaunchQuestion &question) {
  std::vector<LaunchSetting> result;
  for (const SettingRow &row : rows)
    if (std::optional<SettingValue> said = row.said(question))
      result.push_back({row.key, *said});
  return result;
}

/// Arguments of torchrun: nodes, processes of each, and how they meet.
std::vector<LaunchArgument> torchrunArguments(const LaunchQuestion &question);

/// Whether all entries of Plan::stages have as many layers.
bool stagesEven(const std::vector<StageLayers> &stages);
/// Whether every layer recomputes in full.
bool allFull(const StageLayers &all);
/// Layers in full of the stage that has most.
int64_t mostFull(const std::vector<StageLayers> &stages);
inline bool hasExperts(const LaunchQuestion &question) {
  return question.program.experts > 0;
}

// What is unsaid of one framework; checked after what is of all.
void megatronUnsaid(const Program &program, const Plan &plan,
                    std::vector<std::string> &unsaid);
void titanUnsaid(const Program &program, const Plan &plan,
                 std::vector<std::string> &unsaid);
void deepSpeedUnsaid(const Program &program, const Plan &plan,
                     std::vector<std::string> &unsaid);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_LAUNCH_ARGUMENTTABLE_H
