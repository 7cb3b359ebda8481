//===- Timeline.h - When the actions of a schedule happen -------*- C++ -*-===//
//
// A discrete-event run of the same action lists that the compiler emits.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_TIMELINE_H
#define SHARDWRIGHT_COST_MODEL_TIMELINE_H

#include "cost_model/Schedule.h"

#include <array>
#include <map>
#include <vector>

namespace shardwright::cost {

/// Times of one stage, per chunk (virtual stage) and microbatch.
struct StageTimes {
  Seconds forward, backwardData, backwardWeight;
};

/// What a pipeline runs: `times[stage * chunks + chunk]`.
struct PipelineTimes {
  int64_t stages = 1, chunks = 1;
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

/// Runs every action. Reduce and Step take no time here.
Timeline runSchedule(const Schedule &schedule, const PipelineTimes &times);

/// Interleaved 1F1B as Megatron-LM orders it (Narayanan et al., SC'21): stage
/// i warms up with 2 (pp - i - 1) + (chunks - 1) pp forwards, then one forward
/// and one backward in turn; chunks change every pp microbatches. Wants
/// microbatches % stages == 0. Transfers stand in no list: runSchedule makes
/// them follow the computation whose result they carry.
Schedule makeInterleavedSchedule(int64_t stages, int64_t chunks,
                                 int64_t microbatches);

/// Remembers schedules; not for several threads at once.
class ScheduleCache {
public:
  const Schedule &get(ScheduleKind kind, int64_t stages, int64_t chunks,
                      int64_t microbatches);

private:
  std::map<std::array<int64_t, 4>, Schedule> schedules;
};

/// The same as runSchedule(makeSchedule(...)) or, for chunks > 1, of
/// makeInterleavedSchedule, but 1F1B is only run until its steady state
/// repeats, and the rest is extrapolated.
Timeline runPipeline(ScheduleKind kind, int64_t microbatches,
                     const PipelineTimes &times,
                     ScheduleCache *cache = nullptr);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_TIMELINE_H
