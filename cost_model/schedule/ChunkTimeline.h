//===- ChunkTimeline.h - Schedules whose transfers follow the compute -----===//
//
// Used by Timeline.cpp only.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SCHEDULE_CHUNKTIMELINE_H
#define SHARDWRIGHT_COST_MODEL_SCHEDULE_CHUNKTIMELINE_H

#include "cost_model/schedule/Timeline.h"

namespace shardwright::cost {

/// Runs the computations of a schedule (makeComputations), every one; `spans`
/// as runSchedule's.
Timeline runComputations(const Schedule &schedule, const PipelineTimes &times,
                         std::vector<Span> *spans = nullptr);

/// The same of so many microbatches, run only until the steady state repeats.
Timeline runPeriodic(ScheduleKind kind, int64_t microbatches,
                     const PipelineTimes &times, ScheduleCache &schedules);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SCHEDULE_CHUNKTIMELINE_H
