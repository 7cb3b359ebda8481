//===- Schedule.h - Pipeline schedules as data ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_SCHEDULE_SCHEDULE_H
#define SHARDWRIGHT_COST_MODEL_SCHEDULE_SCHEDULE_H

#include "cost_model/plan/Plan.h"

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
  int32_t microbatch = 0; ///< of those that pass the chunk (chunkMicrobatches)
  int32_t slot = 0; ///< activation slot (Forward .. BackwardWeight, RecvForward)
  /// Runs as one with the action behind it: BackwardData with its
  /// BackwardWeight, whose gradient then leaves after both; Forward with the
  /// backward of another chunk, each hiding the other's communication.
  bool joined = false;
  /// Border buffers that it reads from (sends, BackwardData, and Forward at the
  /// turn of a V) and writes to (Forward, BackwardData, RecvBackward): numbers
  /// in the order of BorderBuffers. -1: none.
  int32_t takes = -1, leaves = -1;
  bool operator==(const Action &) const = default;
};

/// Buffers of a rank for what crosses its borders, numbered through: first the
/// streams that leave, then the gradients that arrive, then those that leave.
struct BorderBuffers {
  int64_t streamsLeaving = 0, gradientsArriving = 0, gradientsLeaving = 0;
  int64_t count() const {
    return streamsLeaving + gradientsArriving + gradientsLeaving;
  }
  bool operator==(const BorderBuffers &) const = default;
};

/// Per pipeline rank ("stage") its actions in the order in which one thread may
/// run them with rendezvous sends: every list is a projection of one global
/// order in which a transfer is a single event, so no list can deadlock (proof:
/// the first unfinished event of that order can always run).
struct Schedule {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int64_t stages = 1, chunks = 1, microbatches = 1;
  int64_t group = 0; ///< as Plan's
  std::vector<std::vector<Action>> actions; ///< per stage
  std::vector<int64_t> slots; ///< activation slots: [stage * chunks + chunk]
  std::vector<BorderBuffers> borders; ///< per stage
};

/// What the actions mean to whoever runs them:
/// - A joined BackwardData of a microbatch runs, layer by layer in reverse, the
///   data gradient and at once the weight gradient of the layer (so values kept
///   for it live for one layer only). BackwardWeight, which follows at once,
///   marks the end of the microbatch and frees its slot. BackwardData that is
///   not joined leaves the weight gradients, and what they need, to its W.
/// - Buffers hold the streams that leave, the gradients that arrive and those
///   that leave, as many as `borders` says (one each of GPipe and 1F1B); a
///   stream that arrives goes into its slot. A gradient that arrived is held to
///   the end of its joined backward, or of its BackwardData, which keeps it with
///   the rest. Where the next chunk is on the same rank (the turn of a V) there
///   is no transfer; the buffer is held until that chunk takes it.
/// - `slot` is set for Forward, BackwardData, BackwardWeight and RecvForward,
///   and counts within the chunk; it is 0 elsewhere.
///
/// The global order: a clock on which Forward, BackwardData and BackwardWeight
/// take 1 each and joined actions the sum, transfers take none and happen when
/// their receiver starts to use them; ties: transfers before computation, then
/// by stage, then by chunk and microbatch.
///
/// GPipe: all forwards, then all backwards in reverse order of microbatch.
/// 1F1B (PipeDream-flush): stage i warms up with min(M, pp - i - 1) forwards.
/// Interleaved: 1F1B as Megatron-LM orders it (Narayanan et al., SC'21): stage
///   i warms up with 2 (pp - i - 1) + (chunks - 1) g forwards; chunks change
///   every g microbatches, and after the last that are left. g is pp or `group`
///   (Megatron Core's microbatch_group_size_per_vp_stage, torch's
///   microbatches_per_round). In these three every B is joined with its W.
/// ZB-H1, ZB-2p (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241,
///   schedules H1 and H2): 1F1B whose stage i warms up with d (pp - i - 1)
///   forwards and runs W of a microbatch d i backwards later, d = 1, 2.
/// ZB-V (the same paper; V-shaped chunks: arXiv 2405.15362): in the order of
///   torch.distributed.pipelining's ScheduleZBVZeroBubble.
/// DualPipe, DualPipeV (DeepSeek-V3, arXiv 2412.19437): in the order of
///   github.com/deepseek-ai/DualPipe, eight phases.
///
/// scheduleProblem(kind, stages, chunks, microbatches, group) is empty.
Schedule makeSchedule(ScheduleKind kind, int64_t stages, int64_t microbatches,
                      int64_t chunks = 1, int64_t group = 0);

/// The same without transfers, Reduce and Step, slots and borders: for those
/// who let transfers follow from the computations (Timeline).
Schedule makeComputations(ScheduleKind kind, int64_t stages,
                          int64_t microbatches, int64_t chunks = 1,
                          int64_t group = 0);
/// Of one stage.
std::vector<Action> computationsOf(ScheduleKind kind, int64_t stages,
                                   int64_t microbatches, int64_t chunks,
                                   int64_t stage, int64_t group = 0);

/// Slots of `stage` in a schedule of one chunk, without making it: GPipe holds
/// every microbatch, 1F1B min(M, pp - stage).
int64_t slotCount(ScheduleKind kind, int64_t stages, int64_t microbatches,
                  int64_t stage);

/// What a rank holds at a moment, per chunk: `saved` microbatches between
/// Forward and BackwardWeight, of which `kept` are past a BackwardData that is
/// not joined.
struct InFlight {
  std::vector<int64_t> saved, kept;
  bool operator==(const InFlight &) const = default;
};
/// The moments of `stage` that can need most memory: no other holds as much of
/// everything. One if there is one chunk whose backwards are joined.
std::vector<InFlight> inFlight(ScheduleKind kind, int64_t stages,
                               int64_t microbatches, int64_t chunks,
                               int64_t stage, int64_t group = 0);

/// What memory depends on, of every stage: moments and border buffers of as many
/// microbatches as fill the pipeline (more add nothing).
struct ScheduleFacts {
  std::vector<std::vector<InFlight>> inFlight;
  std::vector<BorderBuffers> borders;
};
ScheduleFacts scheduleFacts(ScheduleKind kind, int64_t stages,
                            int64_t microbatches, int64_t chunks,
                            int64_t group = 0);
/// As many microbatches as show all that a rank can hold: warm-up is over after
/// fewer than 2 pp, and then the order repeats. In groups it is over within two,
/// what is in flight spans three at most, and the last is as large as it is.
int64_t fillingMicrobatches(ScheduleKind kind, int64_t stages,
                            int64_t microbatches, int64_t group);

/// Simulates rendezvous without buffering and slot life with code of its own:
/// every F, B and W exactly once per chunk and microbatch, in dependency order;
/// sends meet receives; slots neither reused while alive nor read after free;
/// no more buffers in use than there are; Reduce then Step last on every stage.
/// Empty if it holds, else what is wrong.
std::string verify(const Schedule &schedule);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SCHEDULE_SCHEDULE_H
