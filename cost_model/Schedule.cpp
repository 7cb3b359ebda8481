#include "cost_model/Schedule.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace shardwright::cost {

std::string_view name(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward: return "forward";
  case ActionKind::BackwardData: return "backward_data";
  case ActionKind::BackwardWeight: return "backward_weight";
  case ActionKind::SendForward: return "send_forward";
  case ActionKind::RecvForward: return "recv_forward";
  case ActionKind::SendBackward: return "send_backward";
  case ActionKind::RecvBackward: return "recv_backward";
  case ActionKind::Reduce: return "reduce";
  case ActionKind::Step: return "step";
  }
  return "";
}

namespace {

struct Compute {
  bool backward;
  int32_t microbatch;
};

/// The order of forwards and backwards on one stage.
std::vector<Compute> computeOrder(ScheduleKind kind, int64_t stages,
                                  int64_t microbatches, int64_t stage) {
  std::vector<Compute> order;
  order.reserve(2 * microbatches);
  const int32_t count = static_cast<int32_t>(microbatches);
  switch (kind) {
  case ScheduleKind::GPipe:
    for (int32_t m = 0; m < count; ++m)
      order.push_back({false, m});
    for (int32_t m = count; m-- > 0;)
      order.push_back({true, m});
    return order;
  case ScheduleKind::OneFOneB: {
    int32_t forward = 0, backward = 0;
    const int64_t warmup = std::min(microbatches, stages - stage - 1);
    while (forward < warmup)
      order.push_back({false, forward++});
    while (backward < count) {
      if (forward < count)
        order.push_back({false, forward++});
      order.push_back({true, backward++});
    }
    return order;
  }
  }
  return order;
}

/// Start times of every forward and backward on the clock of the header:
/// start[2 * microbatch + backward] per stage.
std::vector<std::vector<int64_t>>
startTimes(const std::vector<std::vector<Compute>> &orders,
           int64_t microbatches) {
  const size_t stages = orders.size();
  constexpr int64_t unknown = -1;
  constexpr int64_t forwardTime = 1, backwardTime = 2;
  std::vector<std::vector<int64_t>> start(
      stages, std::vector<int64_t>(2 * microbatches, unknown));
  std::vector<size_t> next(stages, 0);
  std::vector<int64_t> free(stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < stages; ++stage)
      for (; next[stage] < orders[stage].size(); ++next[stage]) {
        const Compute compute = orders[stage][next[stage]];
        const size_t index = 2 * compute.microbatch + compute.backward;
        int64_t time = free[stage];
        const bool border =
            compute.backward ? stage + 1 == stages : stage == 0;
        if (!border) {
          int64_t from = start[compute.backward ? stage + 1 : stage - 1][index];
          if (from == unknown)
            break;
          time = std::max(
              time, from + (compute.backward ? backwardTime : forwardTime));
        }
        start[stage][index] = time;
        free[stage] = time + (compute.backward ? backwardTime : forwardTime);
        moved = true;
      }
  }
  return start;
}

/// One event of the global order: a computation, or a transfer that two stages
/// take part in.
struct Event {
  int64_t time;
  int computes; ///< 0 transfer, 1 computation: transfers first
  int64_t stage; ///< that computes or receives
  int32_t microbatch;
  bool backward;
  auto operator<=>(const Event &) const = default;
};

/// Gives every microbatch of a stage the lowest slot that is free from its
/// first action (receive, or forward on the first stage) to its last.
int64_t assignSlots(std::vector<Action> &actions, int64_t microbatches) {
  std::vector<int32_t> slotOf(microbatches, -1);
  std::vector<bool> used;
  for (Action &action : actions) {
    switch (action.kind) {
    case ActionKind::RecvForward:
    case ActionKind::Forward:
    case ActionKind::BackwardData:
    case ActionKind::BackwardWeight: break;
    default: continue;
    }
    int32_t &slot = slotOf[action.microbatch];
    if (slot < 0) {
      auto free = std::find(used.begin(), used.end(), false);
      slot = static_cast<int32_t>(free - used.begin());
      if (free == used.end())
        used.push_back(false);
      used[slot] = true;
    }
    action.slot = slot;
    if (action.kind == ActionKind::BackwardWeight)
      used[slot] = false;
  }
  return static_cast<int64_t>(used.size());
}

} // namespace

Schedule makeSchedule(ScheduleKind kind, int64_t stages,
                      int64_t microbatches) {
  assert(stages >= 1 && microbatches >= 1 && "a schedule has something to do");
  std::vector<std::vector<Compute>> orders;
  for (int64_t stage = 0; stage < stages; ++stage)
    orders.push_back(computeOrder(kind, stages, microbatches, stage));
  const auto start = startTimes(orders, microbatches);

  std::vector<Event> events;
  for (int64_t stage = 0; stage < stages; ++stage)
    for (const Compute &compute : orders[stage]) {
      int64_t time = start[stage][2 * compute.microbatch + compute.backward];
      assert(time >= 0 && "every order can run to its end");
      events.push_back(
          {time, 1, stage, compute.microbatch, compute.backward});
      if (compute.backward ? stage + 1 < stages : stage > 0)
        events.push_back(
            {time, 0, stage, compute.microbatch, compute.backward});
    }
  std::sort(events.begin(), events.end());

  Schedule schedule;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  schedule.actions.resize(stages);
  auto append = [&](int64_t stage, ActionKind action, int32_t microbatch) {
    schedule.actions[stage].push_back({action, 0, microbatch, 0});
  };
  for (const Event &event : events) {
    if (!event.computes && event.backward) {
      append(event.stage + 1, ActionKind::SendBackward, event.microbatch);
      append(event.stage, ActionKind::RecvBackward, event.microbatch);
    } else if (!event.computes) {
      append(event.stage - 1, ActionKind::SendForward, event.microbatch);
      append(event.stage, ActionKind::RecvForward, event.microbatch);
    } else if (event.backward) {
      append(event.stage, ActionKind::BackwardData, event.microbatch);
      append(event.stage, ActionKind::BackwardWeight, event.microbatch);
    } else {
      append(event.stage, ActionKind::Forward, event.microbatch);
    }
  }
  for (std::vector<Action> &actions : schedule.actions) {
    schedule.slots.push_back(assignSlots(actions, microbatches));
    actions.push_back({ActionKind::Reduce});
    actions.push_back({ActionKind::Step});
  }
  return schedule;
}

int64_t slotCount(ScheduleKind kind, int64_t stages, int64_t microbatches,
                  int64_t stage) {
  switch (kind) {
  case ScheduleKind::GPipe: return microbatches;
  case ScheduleKind::OneFOneB: return std::min(microbatches, stages - stage);
  }
  return microbatches;
}

namespace {

/// One stage while verify() runs it: what it has done and what its buffers
/// hold. Written against the meaning of the actions, not against makeSchedule.
class StageRunner {
public:
  StageRunner(const Schedule &schedule, int64_t stage)
      : schedule(schedule), stage(stage),
        done(schedule.microbatches, Nothing),
        slotHolds(schedule.slots[stage], empty),
        arrived(schedule.microbatches, -1) {}

  /// What a microbatch has been through on this stage.
  enum Progress { Nothing, Received, ForwardDone, DataDone, WeightDone };

  const Action *head() const {
    const auto &actions = schedule.actions[stage];
    return at < actions.size() ? &actions[at] : nullptr;
  }
  void advance() { ++at; }

  /// Runs an action without partner; empty, or what is wrong.
  std::string compute(const Action &action) {
    const int m = action.microbatch;
    switch (action.kind) {
    case ActionKind::Forward:
      if (!first() && done[m] != Received)
        return "forward without its stream, or twice";
      if (first() && done[m] != Nothing)
        return "forward twice";
      if (first() && !takeSlot(action))
        return "slot is out of range or still alive";
      if (arrived[m] != action.slot)
        return "forward uses another slot than its stream is in";
      if (!last() && streamLeaving != empty)
        return "forward overwrites a stream that was not sent";
      if (!last())
        streamLeaving = m;
      done[m] = ForwardDone;
      return "";
    case ActionKind::BackwardData:
      if (done[m] != ForwardDone)
        return "backward before forward, or twice";
      if (arrived[m] != action.slot)
        return "backward reads another slot than forward wrote";
      if (!last() && gradientArriving != m)
        return "backward without its gradient";
      if (!first() && gradientLeaving != empty)
        return "backward overwrites a gradient that was not sent";
      if (!first())
        gradientLeaving = m;
      done[m] = DataDone;
      return "";
    case ActionKind::BackwardWeight:
      if (done[m] != DataDone)
        return "weight gradient before data gradient, or twice";
      if (arrived[m] != action.slot)
        return "weight gradient reads another slot than forward wrote";
      if (!last())
        gradientArriving = empty; // both gradients have read it
      slotHolds[action.slot] = empty;
      done[m] = WeightDone;
      return "";
    case ActionKind::Reduce:
      for (Progress progress : done)
        if (progress != WeightDone)
          return "reduce before the last weight gradient";
      if (reduced)
        return "reduce twice";
      reduced = true;
      return "";
    case ActionKind::Step:
      if (!reduced || stepped)
        return "step without reduce, or twice";
      if (streamLeaving != empty || gradientLeaving != empty)
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

  std::string sendForward(int m) {
    if (streamLeaving != m)
      return "sends a stream that it does not hold";
    streamLeaving = empty;
    return "";
  }
  std::string receiveForward(const Action &action) {
    if (done[action.microbatch] != Nothing)
      return "receives a stream twice";
    if (!takeSlot(action))
      return "receives into a slot that is out of range or still alive";
    done[action.microbatch] = Received;
    return "";
  }
  std::string sendBackward(int m) {
    if (gradientLeaving != m)
      return "sends a gradient that it does not hold";
    gradientLeaving = empty;
    return "";
  }
  std::string receiveBackward(int m) {
    if (gradientArriving != empty)
      return "receives a gradient over one that is still in use";
    if (done[m] != ForwardDone)
      return "receives a gradient before forward";
    gradientArriving = m;
    return "";
  }
  bool finished() const { return stepped && head() == nullptr; }

private:
  static constexpr int empty = -1;
  bool first() const { return stage == 0; }
  bool last() const { return stage + 1 == schedule.stages; }
  bool takeSlot(const Action &action) {
    if (action.slot < 0 ||
        static_cast<size_t>(action.slot) >= slotHolds.size() ||
        slotHolds[action.slot] != empty)
      return false;
    slotHolds[action.slot] = action.microbatch;
    arrived[action.microbatch] = action.slot;
    return true;
  }

  const Schedule &schedule;
  int64_t stage;
  size_t at = 0;
  std::vector<Progress> done;
  std::vector<int> slotHolds;
  std::vector<int> arrived; ///< per microbatch its slot, or -1
  int streamLeaving = empty, gradientArriving = empty, gradientLeaving = empty;
  bool reduced = false, stepped = false;
};

/// If the heads of `stage` and its neighbour are the two ends of a transfer.
bool meet(const Action &sender, const Action &receiver) {
  return sender.microbatch == receiver.microbatch &&
         sender.chunk == receiver.chunk &&
         ((sender.kind == ActionKind::SendForward &&
           receiver.kind == ActionKind::RecvForward) ||
          (sender.kind == ActionKind::SendBackward &&
           receiver.kind == ActionKind::RecvBackward));
}

bool isTransfer(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::RecvForward ||
         kind == ActionKind::SendBackward || kind == ActionKind::RecvBackward;
}

} // namespace

std::string verify(const Schedule &schedule) {
  const size_t stages = schedule.actions.size();
  if (static_cast<int64_t>(stages) != schedule.stages ||
      schedule.slots.size() != stages)
    return "expected one list of actions and one slot count per stage";
  std::vector<StageRunner> runners;
  for (size_t stage = 0; stage < stages; ++stage) {
    for (const Action &action : schedule.actions[stage])
      if (action.microbatch < 0 || action.microbatch >= schedule.microbatches ||
          action.chunk != 0)
        return "stage " + std::to_string(stage) +
               ": an action names a microbatch or chunk that is not there";
    runners.emplace_back(schedule, static_cast<int64_t>(stage));
  }

  auto report = [](size_t stage, const Action &action,
                   const std::string &what) {
    return "stage " + std::to_string(stage) + ", " +
           std::string(name(action.kind)) + " of microbatch " +
           std::to_string(action.microbatch) + ": " + what;
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
      if (!action || (action->kind != ActionKind::SendForward &&
                      action->kind != ActionKind::SendBackward))
        continue;
      const bool forward = action->kind == ActionKind::SendForward;
      if (forward ? stage + 1 == stages : stage == 0)
        return report(stage, *action, "there is no stage on that side");
      const size_t peer = forward ? stage + 1 : stage - 1;
      const Action *other = runners[peer].head();
      if (!other || !meet(*action, *other))
        continue;
      const int m = action->microbatch;
      std::string wrong = forward ? runners[stage].sendForward(m)
                                  : runners[stage].sendBackward(m);
      if (!wrong.empty())
        return report(stage, *action, wrong);
      wrong = forward ? runners[peer].receiveForward(*other)
                      : runners[peer].receiveBackward(m);
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
