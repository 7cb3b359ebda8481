//===- ScheduleVerify.cpp - Whether a schedule can run, and rightly -------===//
//
// Written against the meaning of the actions (Schedule.h); shares no code with
// makeSchedule but the definition of where a stream goes (Plan.h).
//
//===----------------------------------------------------------------------===//
#include "cost_model/schedule/Schedule.h"

#include <algorithm>
#include <map>

namespace shardwright::cost {
namespace {

/// What lies in the border buffers of one sort, which are `count` from number
/// `first` on: by number its chunk and microbatch.
class Buffers {
public:
  Buffers(int64_t first, int64_t count) : first(first), count(count) {}
  /// False if there is no such buffer, or it is in use.
  bool put(int64_t number, int32_t chunk, int32_t microbatch) {
    return number >= first && number < first + count &&
           held.try_emplace(number, chunk, microbatch).second;
  }
  bool holds(int64_t number, int64_t chunk, int32_t microbatch) const {
    const auto found = held.find(number);
    return found != held.end() &&
           found->second == std::pair<int64_t, int32_t>(chunk, microbatch);
  }
  /// False if it is not there.
  bool take(int64_t number, int64_t chunk, int32_t microbatch) {
    return holds(number, chunk, microbatch) && held.erase(number);
  }
  bool empty() const { return held.empty(); }

private:
  int64_t first, count;
  std::map<int64_t, std::pair<int64_t, int32_t>> held;
};

/// One stage while verify() runs it: what it has done and what it holds.
class StageRunner {
public:
  StageRunner(const Schedule &schedule, int64_t stage)
      : schedule(schedule), stage(stage),
        streamsLeaving(0, schedule.borders[stage].streamsLeaving),
        gradientsArriving(schedule.borders[stage].streamsLeaving,
                          schedule.borders[stage].gradientsArriving),
        gradientsLeaving(schedule.borders[stage].streamsLeaving +
                             schedule.borders[stage].gradientsArriving,
                         schedule.borders[stage].gradientsLeaving) {
    const auto microbatches = static_cast<size_t>(
        chunkMicrobatches(schedule.kind, schedule.microbatches));
    for (int64_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      tasks.emplace_back(microbatches);
      slotHolds.emplace_back(
          static_cast<size_t>(schedule.slots[stage * schedule.chunks + chunk]),
          empty);
    }
  }

  const Action *head() const {
    const auto &actions = schedule.actions[stage];
    return at < actions.size() ? &actions[at] : nullptr;
  }
  void advance() {
    last = head();
    ++at;
  }

  ChunkPlace behind(int32_t chunk) const {
    return placeBehind(schedule.kind, schedule.stages, schedule.chunks,
                       {stage, chunk});
  }
  ChunkPlace before(int32_t chunk) const {
    return placeBefore(schedule.kind, schedule.stages, schedule.chunks,
                       {stage, chunk});
  }

  /// Runs an action without partner; empty, or what is wrong.
  std::string compute(const Action &action) {
    if (last && last->joined && !continues(*last, action))
      return "a joined action is not followed by what it is joined with";
    switch (action.kind) {
    case ActionKind::Forward: return forward(action);
    case ActionKind::BackwardData: return backwardData(action);
    case ActionKind::BackwardWeight: return backwardWeight(action);
    case ActionKind::Reduce:
      for (const std::vector<Task> &chunk : tasks)
        for (const Task &task : chunk)
          if (task.progress != WeightDone)
            return "reduce before the last weight gradient";
      if (reduced)
        return "reduce twice";
      reduced = true;
      return "";
    case ActionKind::Step:
      if (!reduced || stepped)
        return "step without reduce, or twice";
      if (!streamsLeaving.empty() || !gradientsLeaving.empty())
        return "step with something unsent";
      stepped = true;
      return at + 1 == schedule.actions[stage].size()
                 ? ""
                 : "step is not the last action";
    case ActionKind::SendForward:
    case ActionKind::RecvForward:
    case ActionKind::SendBackward:
    case ActionKind::RecvBackward: break;
    }
    return "a transfer is no computation";
  }

  std::string send(const Action &action) {
    if (last && last->joined)
      return "a transfer between joined actions";
    if (action.kind == ActionKind::SendForward)
      return streamsLeaving.take(action.takes, action.chunk, action.microbatch)
                 ? ""
                 : "sends a stream that it does not hold";
    return gradientsLeaving.take(action.takes, action.chunk, action.microbatch)
               ? ""
               : "sends a gradient that it does not hold";
  }
  std::string receive(const Action &action) {
    if (last && last->joined)
      return "a transfer between joined actions";
    Task &task = taskOf(action);
    if (action.kind == ActionKind::RecvForward) {
      if (task.progress != Nothing)
        return "receives a stream twice";
      if (!takeSlot(action))
        return "receives into a slot that is out of range or still alive";
      task.progress = Received;
      return "";
    }
    if (task.progress != ForwardDone)
      return "receives a gradient before forward";
    return gradientsArriving.put(action.leaves, action.chunk, action.microbatch)
               ? ""
               : "receives a gradient over one that is still in use";
  }
  bool finished() const { return stepped && head() == nullptr; }

private:
  /// What a microbatch has been through in a chunk.
  enum Progress { Nothing, Received, ForwardDone, DataDone, WeightDone };
  struct Task {
    Progress progress = Nothing;
    int slot = -1;
    bool joined = false;   ///< its backward
    int64_t gradient = -1; ///< buffer of the one that arrived
  };
  static constexpr int empty = -1;

  Task &taskOf(const Action &action) {
    return tasks[static_cast<size_t>(action.chunk)]
                [static_cast<size_t>(action.microbatch)];
  }
  static bool continues(const Action &first, const Action &second) {
    if (first.kind == ActionKind::Forward)
      return second.kind == ActionKind::BackwardData && second.joined &&
             second.chunk != first.chunk;
    return first.kind == ActionKind::BackwardData &&
           second.kind == ActionKind::BackwardWeight && !second.joined &&
           second.chunk == first.chunk && second.microbatch == first.microbatch;
  }

  std::string forward(const Action &action) {
    const int m = action.microbatch;
    Task &task = taskOf(action);
    const ChunkPlace from = before(action.chunk), to = behind(action.chunk);
    const bool arrives = from.rank >= 0 && from.rank != stage;
    if (arrives && task.progress != Received)
      return "forward without its stream, or twice";
    if (!arrives && task.progress != Nothing)
      return "forward twice";
    if (from.rank == stage && !streamsLeaving.take(action.takes, from.chunk, m))
      return "forward without the stream of the chunk before it";
    if (!arrives && !takeSlot(action))
      return "slot is out of range or still alive";
    if (task.slot != action.slot)
      return "forward uses another slot than its stream is in";
    if (to.rank >= 0 && !streamsLeaving.put(action.leaves, action.chunk, m))
      return "forward overwrites a stream that was not sent";
    task.progress = ForwardDone;
    return "";
  }

  std::string backwardData(const Action &action) {
    const int m = action.microbatch;
    Task &task = taskOf(action);
    if (task.progress != ForwardDone)
      return "backward before forward, or twice";
    if (task.slot != action.slot)
      return "backward reads another slot than forward wrote";
    const ChunkPlace from = behind(action.chunk), to = before(action.chunk);
    if (from.rank == stage) {
      if (!gradientsLeaving.take(action.takes, from.chunk, m))
        return "backward without its gradient";
    } else if (from.rank >= 0 &&
               !(action.joined
                     ? gradientsArriving.holds(action.takes, action.chunk, m)
                     : gradientsArriving.take(action.takes, action.chunk, m))) {
      return "backward without its gradient";
    }
    if (to.rank >= 0 && !gradientsLeaving.put(action.leaves, action.chunk, m))
      return "backward overwrites a gradient that was not sent";
    task.progress = DataDone;
    task.joined = action.joined;
    task.gradient = action.takes;
    return "";
  }

  std::string backwardWeight(const Action &action) {
    Task &task = taskOf(action);
    if (task.progress != DataDone)
      return "weight gradient before data gradient, or twice";
    if (task.slot != action.slot)
      return "weight gradient reads another slot than forward wrote";
    if (task.joined) // both gradients have read what arrived
      gradientsArriving.take(task.gradient, action.chunk, action.microbatch);
    slotHolds[static_cast<size_t>(action.chunk)]
             [static_cast<size_t>(action.slot)] = empty;
    task.progress = WeightDone;
    return "";
  }

  bool takeSlot(const Action &action) {
    std::vector<int> &slots = slotHolds[static_cast<size_t>(action.chunk)];
    if (action.slot < 0 || static_cast<size_t>(action.slot) >= slots.size() ||
        slots[static_cast<size_t>(action.slot)] != empty)
      return false;
    slots[static_cast<size_t>(action.slot)] = action.microbatch;
    taskOf(action).slot = action.slot;
    return true;
  }

  const Schedule &schedule;
  int64_t stage;
  size_t at = 0;
  const Action *last = nullptr;
  std::vector<std::vector<Task>> tasks;    ///< per chunk and microbatch
  std::vector<std::vector<int>> slotHolds; ///< per chunk
  Buffers streamsLeaving, gradientsArriving, gradientsLeaving;
  bool reduced = false, stepped = false;
};

bool isSend(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::SendBackward;
}
bool isTransfer(ActionKind kind) {
  return isSend(kind) || kind == ActionKind::RecvForward ||
         kind == ActionKind::RecvBackward;
}

/// Whether the lists have the shape that the rest relies on.
std::string checkShape(const Schedule &schedule) {
  if (schedule.stages < 1 || schedule.microbatches < 1)
    return "expected at least one stage and one microbatch";
  if (std::string problem =
          scheduleProblem(schedule.kind, schedule.stages, schedule.chunks,
                          schedule.microbatches, schedule.group);
      !problem.empty())
    return problem;
  const auto stages = static_cast<size_t>(schedule.stages);
  if (schedule.actions.size() != stages || schedule.borders.size() != stages ||
      schedule.slots.size() != stages * static_cast<size_t>(schedule.chunks))
    return "expected one list of actions and one slot count per stage";
  const int64_t microbatches =
      chunkMicrobatches(schedule.kind, schedule.microbatches);
  for (size_t stage = 0; stage < stages; ++stage)
    for (const Action &action : schedule.actions[stage])
      if (action.microbatch < 0 || action.microbatch >= microbatches ||
          action.chunk < 0 || action.chunk >= schedule.chunks)
        return "stage " + std::to_string(stage) +
               ": an action names a microbatch or chunk that is not there";
  return "";
}

} // namespace

std::string verify(const Schedule &schedule) {
  if (std::string wrong = checkShape(schedule); !wrong.empty())
    return wrong;
  const size_t stages = schedule.actions.size();
  std::vector<StageRunner> runners;
  runners.reserve(stages);
  for (size_t stage = 0; stage < stages; ++stage)
    runners.emplace_back(schedule, static_cast<int64_t>(stage));

  auto report = [&](size_t stage, const Action &action,
                    const std::string &what) {
    return "stage " + std::to_string(stage) + ", " +
           std::string(name(action.kind)) + " of microbatch " +
           std::to_string(action.microbatch) +
           (schedule.chunks > 1 ? ", chunk " + std::to_string(action.chunk)
                                : "") +
           ": " + what;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < stages; ++stage) {
      const Action *action = runners[stage].head();
      while (action && !isTransfer(action->kind)) {
        std::string wrong = runners[stage].compute(*action);
        if (!wrong.empty())
          return report(stage, *action, wrong);
        runners[stage].advance();
        moved = true;
        action = runners[stage].head();
      }
      if (!action || !isSend(action->kind))
        continue;
      const bool forward = action->kind == ActionKind::SendForward;
      const ChunkPlace to = forward ? runners[stage].behind(action->chunk)
                                    : runners[stage].before(action->chunk);
      if (to.rank < 0 || to.rank == static_cast<int64_t>(stage))
        return report(stage, *action, "there is no stage on that side");
      const auto peer = static_cast<size_t>(to.rank);
      const Action *other = runners[peer].head();
      if (!other || other->microbatch != action->microbatch ||
          other->chunk != to.chunk ||
          other->kind != (forward ? ActionKind::RecvForward
                                  : ActionKind::RecvBackward))
        continue; // the peer does something else first
      std::string wrong = runners[stage].send(*action);
      if (!wrong.empty())
        return report(stage, *action, wrong);
      wrong = runners[peer].receive(*other);
      if (!wrong.empty())
        return report(peer, *other, wrong);
      runners[stage].advance();
      runners[peer].advance();
      moved = true;
    }
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    if (const Action *action = runners[stage].head())
      return report(stage, *action, "waits for ever (deadlock)");
    if (!runners[stage].finished())
      return "stage " + std::to_string(stage) + ": ends without a step";
  }
  return "";
}

} // namespace shardwright::cost
