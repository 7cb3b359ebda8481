//===- Timeline.h - When the actions of a schedule happen -------*- C++ -*-===//
//
// A discrete-event run of the same action lists that the compiler emits.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SCHEDULE_TIMELINE_H
#define SHARDWRIGHT_COST_MODEL_SCHEDULE_TIMELINE_H

#include "cost_model/schedule/Schedule.h"

#include <array>
#include <map>
#include <vector>

namespace shardwright::cost {

/// Times of one chunk of a stage, per microbatch.
struct StageTimes {
  Seconds forward, backwardData, backwardWeight;
  /// What a forward beside the backward of another chunk saves (Action::joined).
  Seconds hiddenBeside = Seconds(0);
};

/// What a pipeline runs: `times[stage * chunks + chunk]`, a stage being a rank
/// of the pipeline.
struct PipelineTimes {
  int64_t stages = 1, chunks = 1;
  int64_t group = 0; ///< as Plan's
  std::vector<StageTimes> times;
  Seconds sendForward, sendBackward; ///< between neighbours, one microbatch
  /// Transfers run beside compute: a sender goes on at once and a receiver
  /// waits for arrival only. Otherwise both are held for the transfer.
  bool overlapTransfers = false;
};

/// Where the time of a stage went; the three parts sum to `end`.
struct StageTimeline {
  Seconds end;      ///< of its last forward or backward
  Seconds busy;     ///< computing
  Seconds transfer; ///< held by transfers
  Seconds idle;     ///< waiting: the bubble
};

struct Timeline {
  std::vector<StageTimeline> stages;
  Seconds makespan() const;
};

/// From when to when a stage was at an action. Under overlapTransfers what is
/// sent is under way meanwhile, beside other actions of the stage, and what is
/// received has no span.
struct Span {
  int64_t stage = 0;
  ActionKind kind = ActionKind::Forward;
  int32_t chunk = 0, microbatch = 0;
  Seconds begin, end;
};

/// Runs every action. Reduce and Step take no time here. Of GPipe and 1F1B
/// every transfer is an action that both sides take part in; in the others it
/// follows the computation whose result it carries, and without
/// overlapTransfers holds the sender. `spans` gets all that took time, in order
/// of time within a stage and kind.
Timeline runSchedule(const Schedule &schedule, const PipelineTimes &times,
                     std::vector<Span> *spans = nullptr);

/// Remembers schedules, as runSchedule wants them, and what memory depends on of
/// them; not for several threads at once.
class ScheduleCache {
public:
  const Schedule &get(ScheduleKind kind, int64_t stages, int64_t chunks,
                      int64_t microbatches, int64_t group = 0);
  /// scheduleFacts of the same.
  const ScheduleFacts &facts(ScheduleKind kind, int64_t stages, int64_t chunks,
                             int64_t microbatches, int64_t group);

private:
  std::map<std::array<int64_t, 5>, Schedule> schedules;
  std::map<std::array<int64_t, 5>, ScheduleFacts> known;
};

/// The same as runSchedule of a schedule of so many microbatches, but run only
/// until its steady state repeats, and the rest extrapolated (not GPipe, which
/// has none).
Timeline runPipeline(ScheduleKind kind, int64_t microbatches,
                     const PipelineTimes &times,
                     ScheduleCache *cache = nullptr);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SCHEDULE_TIMELINE_H
