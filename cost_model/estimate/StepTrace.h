//===- StepTrace.h - A predicted step, moment by moment ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_STEPTRACE_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_STEPTRACE_H

#include "cost_model/estimate/Estimate.h"

#include <string_view>
#include <vector>

namespace shardwright::cost {

/// From when to when a rank of a stage is at something.
struct StepSpan {
  std::string_view name; ///< of an ActionKind, or of a term of Estimate
  int64_t stage = 0;
  int32_t chunk = -1, microbatch = -1; ///< of an action of the schedule
  bool beside = false; ///< runs beside what else the rank does
  Seconds begin, end;
};

/// Actions of a step: what traceStep of a plan takes time and memory for.
int64_t actionsOfStep(const Plan &plan);

/// estimate(program, hardware, profile, plan) on the clock. One rank of each
/// stage, as all of a stage do the same at the same time. First every action of
/// the schedule, then what shows behind it: the stage's reduction of gradients
/// from its own end on; from the end of the last one, for all stages, the sums
/// of shared parameters, norm, update, gather and the wait for the slowest
/// device. The last span ends at stepTime.
std::vector<StepSpan> traceStep(const Program &program,
                                const Hardware &hardware,
                                const Profile &profile, const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_STEPTRACE_H
