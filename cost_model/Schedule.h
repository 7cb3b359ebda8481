//===- Schedule.h - Pipeline schedules as data ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_SCHEDULE_H
#define SHARDWRIGHT_COST_MODEL_SCHEDULE_H

#include "cost_model/Plan.h"

#include <string>
#include <vector>

namespace shardwright::cost {

enum class ActionKind : uint8_t {
  Forward,
  BackwardData,   ///< B: data gradient
  BackwardWeight, ///< W: weight gradient
  SendForward, RecvForward, SendBackward, RecvBackward,
  Reduce,         ///< gradient reduction of every bucket of the stage
  Step,           ///< norm, clip, update, parameter gather
};
std::string_view name(ActionKind kind);

struct Action {
  ActionKind kind;
  int32_t chunk = 0;
  int32_t microbatch = 0;
  int32_t slot = 0; ///< activation slot (Forward .. BackwardWeight, RecvForward)
  bool operator==(const Action &) const = default;
};

/// Per stage its actions in the order in which one thread may run them with
/// rendezvous sends: every stage's list is a projection of one global order in
/// which a transfer is a single event, so no list can deadlock (proof: the
/// first unfinished event of that order can always run).
struct Schedule {
  int64_t stages = 1, microbatches = 1;
  std::vector<std::vector<Action>> actions; ///< per stage
  std::vector<int64_t> slots;               ///< per stage, activation slots
};

/// What the actions mean to whoever runs them:
/// - BackwardData of a microbatch runs, layer by layer in reverse, the data
///   gradient and at once the weight gradient of the layer (so values kept for
///   it live for one layer only). BackwardWeight, which follows at once, marks
///   the end of the microbatch and frees its slot.
/// - One buffer each holds the stream that leaves, the gradient that arrives
///   and the gradient that leaves; a stream that arrives goes into its slot.
///   So Forward of the next microbatch comes after SendForward of this one,
///   and likewise backward. verify() checks that too.
/// - `slot` is set for Forward, BackwardData, BackwardWeight and RecvForward;
///   it is 0 elsewhere.
///
/// The global order: a clock on which Forward takes 1 and a Backward pair 2,
/// transfers take none and happen when their receiver starts to use them; ties:
/// transfers before computation, then by stage, then by microbatch.
///
/// GPipe: all forwards, then all backwards in reverse order of microbatch.
/// 1F1B (PipeDream-flush): stage i warms up with min(M, pp - i - 1) forwards.
/// Every B is followed at once by its W.
Schedule makeSchedule(ScheduleKind kind, int64_t stages, int64_t microbatches);

/// Slots of `stage` in that schedule, without making it: GPipe holds every
/// microbatch, 1F1B min(M, pp - stage).
int64_t slotCount(ScheduleKind kind, int64_t stages, int64_t microbatches,
                  int64_t stage);

/// Simulates rendezvous without buffering and slot life with code of its own:
/// every F, B and W exactly once per microbatch, in dependency order; sends
/// meet receives; slots neither reused while alive nor read after free; Reduce
/// then Step last on every stage. Empty if it holds, else what is wrong.
std::string verify(const Schedule &schedule);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SCHEDULE_H
