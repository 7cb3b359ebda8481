//===- Trust.cpp - How far a prediction may be off ------------------------===//
#include "tools/shardwright/Trust.h"

#include "cost_model/base/Format.h"
#include "cost_model/hardware/Imbalance.h"
#include "cost_model/search/Report.h"

#include <algorithm>
#include <cstdio>

namespace shardwright::tools {

using namespace cost;

namespace {

/// Experts that a token is sent to; 0 without experts.
int64_t choicesOf(const Program &program) {
  int64_t choices = 0;
  for (const Kind &kind : program.kinds)
    for (const Op &op : kind.variants.front().forward.ops)
      for (const Factor &factor : op.space.factors)
        if (factor.role == Role::Choice)
          choices = std::max(choices, factor.size);
  return choices;
}

} // namespace

TimeInterval intervalOf(const Program &program, const Hardware &hardware,
                        const Profile &profile, const Plan &plan,
                        const Estimate &estimate) {
  return cost::intervalOf(
      estimate.stepTime, hardware.name, profile.name,
      familyOf(program.experts > 0, plan.dtypes.products != Narrow::None));
}

Trust trustOf(const Program &program, const Hardware &hardware,
              const Profile &profile, const Plan &plan,
              const Estimate &estimate) {
  Trust trust;
  trust.interval =
      tools::intervalOf(program, hardware, profile, plan, estimate);
  const int64_t choices = choicesOf(program);
  if (choices == 0)
    return trust;
  const double rows = rowsTogether(plan, program.sequence, choices);
  const auto add = [&](const char *name, double busiest) {
    Profile own = profile;
    own.expertImbalance = busiest;
    const Estimate priced = cost::estimate(program, hardware, own, plan);
    size_t stage = 0;
    const Bytes memory = fullestStage(priced, stage);
    trust.loads.push_back({name, busiest, priced.stepTime, memory});
  };
  add("balanced", 1);
  add("p50", busiestOverMean(plan.ep, rows, 0.5));
  add("p99", busiestOverMean(plan.ep, rows, 0.99));
  return trust;
}

Json intervalJson(const TimeInterval &interval) {
  return {{"step_time_interval_80_seconds",
           Json::array({interval.low.count(), interval.high.count()})},
          {"extrapolating", interval.extrapolating}};
}

Json trustJson(const Trust &trust) {
  Json json = intervalJson(trust.interval);
  for (const LoadCase &load : trust.loads)
    json["expert_loads"].push_back(
        {{"load", load.name},
         {"busiest_over_mean", load.busiestOverMean},
         {"step_time_seconds", load.stepTime.count()},
         {"memory_bytes_per_rank_max", load.memory.count()}});
  return json;
}

std::string intervalText(const TimeInterval &interval) {
  std::string text = secondsText(interval.low) + " to " +
                     secondsText(interval.high) + " for 80 % of runs";
  if (interval.extrapolating)
    text += "; extrapolating: no published run of this cluster, profile and "
            "family was compared";
  return text;
}

std::string loadsText(const Trust &trust) {
  std::string text;
  for (const LoadCase &load : trust.loads) {
    char busiest[32];
    std::snprintf(busiest, sizeof busiest, "%.2f", load.busiestOverMean);
    text += (text.empty() ? "experts " : "        ") + load.name +
            ": busiest rank " + busiest + " times the mean, step " +
            secondsText(load.stepTime) + ", memory " + bytesText(load.memory) +
            "\n";
  }
  return text;
}

std::string roomText(Bytes memory, Bytes limit) {
  const bool fits = staysBelow(memory, limit);
  const Bytes apart = fits ? limit - memory : excess(memory, limit);
  return (fits ? "" : "does not fit: ") + bytesText(apart) + " (" +
         percentText(static_cast<double>(apart.count()) /
                     static_cast<double>(limit.count())) +
         ")" + (fits ? " left" : " too much");
}

} // namespace shardwright::tools
