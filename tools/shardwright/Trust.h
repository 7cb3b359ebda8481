//===- Trust.h - How far a prediction may be off ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRUST_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRUST_H

#include "cost_model/estimate/Evidence.h"
#include "tools/shardwright/PlanJson.h"

#include <string>
#include <vector>

namespace shardwright::tools {

/// What a plan of experts takes if the busiest rank has more rows than the mean.
struct LoadCase {
  std::string name; ///< balanced, p50, p99
  double busiestOverMean;
  cost::Seconds stepTime;
  cost::Bytes memory; ///< of the fullest rank
};

struct Trust {
  cost::TimeInterval interval; ///< where 80 % of measurements lie
  std::vector<LoadCase> loads; ///< of models with experts
};

/// Of the cluster, the profile and the family of the model.
cost::TimeInterval intervalOf(const cost::Program &program,
                              const cost::Hardware &hardware,
                              const cost::Profile &profile,
                              const cost::Plan &plan,
                              const cost::Estimate &estimate);

/// `estimate` is of balanced experts.
Trust trustOf(const cost::Program &program, const cost::Hardware &hardware,
              const cost::Profile &profile, const cost::Plan &plan,
              const cost::Estimate &estimate);

/// {step_time_interval_80_seconds: [low, high], extrapolating}
Json intervalJson(const cost::TimeInterval &interval);
/// The same, and expert_loads where there are experts.
Json trustJson(const Trust &trust);
/// "3.1 s to 4.2 s for 80 % of runs", and whether any run is evidence.
std::string intervalText(const cost::TimeInterval &interval);
/// A line for each load; empty without experts.
std::string loadsText(const Trust &trust);
/// "12.3 GiB left (15.5 %)", or "does not fit: 3.2 GiB (4.0 %) too much".
std::string roomText(cost::Bytes memory, cost::Bytes limit);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRUST_H
