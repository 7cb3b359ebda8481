//===- Framework.h - Whose software runs a plan -----------------*- C++ -*-===//
//
// What a framework can run at all, as data: rules and search read it. How fast
// it runs that is in a Profile.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H
#define SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H

#include "cost_model/plan/Plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

enum class Framework { Native, MegatronCore, TorchTitan, DeepSpeed };
inline constexpr Framework frameworks[] = {
    Framework::Native, Framework::MegatronCore, Framework::TorchTitan,
    Framework::DeepSpeed};
std::string_view name(Framework framework);
bool parseFramework(std::string_view text, Framework &framework);
/// Whose habits the profile named `profile` describes; Native if it is not one
/// of the shipped ones.
Framework frameworkOfProfile(std::string_view profile);

struct FrameworkFacts {
  std::string_view version; ///< that was read
  std::string_view source;
  std::vector<int> zero;    ///< stages of sharding that it has
  std::vector<int> zeroUnderPipeline;
  std::vector<ScheduleKind> schedules; ///< with more than one stage
  bool tensorNeedsSequence = false;    ///< tp > 1 always comes with sp
  bool replicatesKvHeads = false;      ///< tp may exceed key/value heads
};
const FrameworkFacts &factsOf(Framework framework);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H
