//===- Timeline.cpp - When the actions of a schedule happen ---------------===//
#include "cost_model/schedule/Timeline.h"
#include "cost_model/schedule/ChunkTimeline.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shardwright::cost {
namespace {

constexpr int kKinds = 7; // action kinds that take time

/// One direction of one stage border. Rendezvous: at most one side waits.
struct Channel {
  bool senderWaits = false, receiverWaits = false;
  std::vector<double> arrivals; ///< overlapped transfers, in order
  size_t taken = 0;
  double free = 0; ///< when the link is idle again
};

class Simulation {
public:
  Simulation(const Schedule &schedule, const PipelineTimes &times,
             std::vector<Span> *spans = nullptr)
      : schedule(schedule), times(times), spans(spans) {
    const size_t stages = static_cast<size_t>(schedule.stages);
    clock.assign(stages, 0);
    next.assign(stages, 0);
    forwardTo.resize(stages);
    backwardTo.resize(stages);
    result.stages.resize(stages);
    finished.assign(
        stages * static_cast<size_t>(schedule.microbatches) * kKinds, 0);
  }

  void run() {
    std::vector<int64_t> ready;
    for (int64_t stage = schedule.stages; stage-- > 0;)
      ready.push_back(stage);
    while (!ready.empty()) {
      const int64_t stage = ready.back();
      ready.pop_back();
      while (next[stage] < schedule.actions[stage].size() &&
             step(stage, schedule.actions[stage][next[stage]], ready))
        ++next[stage];
    }
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      assert(next[stage] == schedule.actions[stage].size() &&
             "a verified schedule does not deadlock");
      StageTimeline &line = result.stages[stage];
      line.end = Seconds(clock[stage]);
      line.idle = maximum(Seconds(0), line.end - line.busy - line.transfer);
    }
  }

  /// When an action ended.
  double finishedAt(int kind, int64_t stage, int64_t microbatch) const {
    return finished[index(stage, microbatch) * kKinds +
                    static_cast<size_t>(kind)];
  }
  Timeline result;

private:
  size_t index(int64_t stage, int64_t microbatch) const {
    return static_cast<size_t>(stage * schedule.microbatches + microbatch);
  }

  void hold(int64_t stage, const Action &action, Seconds time, bool computing) {
    record(stage, action, clock[stage], time);
    clock[stage] += time.count();
    StageTimeline &line = result.stages[stage];
    (computing ? line.busy : line.transfer) += time;
  }
  void record(int64_t stage, const Action &action, double begin, Seconds time) {
    if (spans)
      spans->push_back({stage, action.kind, action.chunk, action.microbatch,
                        Seconds(begin), Seconds(begin) + time});
  }
  void mark(int64_t stage, const Action &action) {
    finished[index(stage, action.microbatch) * kKinds +
             static_cast<size_t>(action.kind)] = clock[stage];
  }

  bool step(int64_t stage, const Action &action, std::vector<int64_t> &ready) {
    const StageTimes &own = times.times[stage];
    switch (action.kind) {
    case ActionKind::Forward:
      hold(stage, action, own.forward, true);
      break;
    case ActionKind::BackwardData:
      hold(stage, action, own.backwardData, true);
      break;
    case ActionKind::BackwardWeight:
      hold(stage, action, own.backwardWeight, true);
      break;
    case ActionKind::SendForward:
      return transfer(stage, stage + 1, forwardTo[stage + 1], action,
                      times.sendForward, true, ready);
    case ActionKind::RecvForward:
      return transfer(stage, stage - 1, forwardTo[stage], action,
                      times.sendForward, false, ready);
    case ActionKind::SendBackward:
      return transfer(stage, stage - 1, backwardTo[stage - 1], action,
                      times.sendBackward, true, ready);
    case ActionKind::RecvBackward:
      return transfer(stage, stage + 1, backwardTo[stage], action,
                      times.sendBackward, false, ready);
    case ActionKind::Reduce:
    case ActionKind::Step:
      return true;
    }
    mark(stage, action);
    return true;
  }

  bool transfer(int64_t stage, int64_t other, Channel &channel,
                const Action &action, Seconds time, bool sends,
                std::vector<int64_t> &ready) {
    if (times.overlapTransfers) {
      if (sends) {
        const double begin = std::max(channel.free, clock[stage]);
        record(stage, action, begin, time);
        channel.free = begin + time.count();
        channel.arrivals.push_back(channel.free);
        ready.push_back(other);
      } else {
        if (channel.taken == channel.arrivals.size())
          return false;
        clock[stage] =
            std::max(clock[stage], channel.arrivals[channel.taken++]);
      }
      mark(stage, action);
      return true;
    }
    bool &otherWaits = sends ? channel.receiverWaits : channel.senderWaits;
    if (!otherWaits) {
      (sends ? channel.senderWaits : channel.receiverWaits) = true;
      return false;
    }
    otherWaits = false;
    const double begin = std::max(clock[stage], clock[other]);
    clock[stage] = clock[other] = begin;
    const Action &partner = schedule.actions[other][next[other]];
    hold(stage, action, time, false);
    hold(other, partner, time, false);
    mark(stage, action);
    mark(other, partner);
    ++next[other];
    ready.push_back(other);
    return true;
  }

  const Schedule &schedule;
  const PipelineTimes &times;
  std::vector<Span> *spans; ///< null: nobody asks
  std::vector<double> clock;
  std::vector<size_t> next;
  std::vector<Channel> forwardTo;  ///< into stage i, from i - 1
  std::vector<Channel> backwardTo; ///< into stage i, from i + 1
  std::vector<double> finished;
};

/// Whether block `last` of a 1F1B run is block `last - period`, later by one
/// `shift` for every event. Block k of stage i is the forward of microbatch
/// k + warmup(i) and the backward of microbatch k, with their transfers. An
/// event depends on events of its own and the previous block only, so what
/// repeats once repeats until the last block.
bool repeats(const Simulation &simulation, int64_t stages, int64_t microbatches,
             int64_t period, double &shift) {
  const int64_t last = microbatches - 1 - (stages - 1);
  bool first = true;
  for (int64_t stage = 0; stage < stages; ++stage)
    for (int kind = 0; kind < kKinds; ++kind) {
      const auto action = static_cast<ActionKind>(kind);
      const bool forward = action == ActionKind::Forward ||
                           action == ActionKind::SendForward ||
                           action == ActionKind::RecvForward;
      const int64_t microbatch = forward ? last + stages - stage - 1 : last;
      const double now = simulation.finishedAt(kind, stage, microbatch);
      const double before =
          simulation.finishedAt(kind, stage, microbatch - period);
      if (now == 0 && before == 0)
        continue; // the stage has no such action
      if (first)
        shift = now - before;
      first = false;
      if (std::fabs(now - before - shift) > 1e-13 * std::fabs(now))
        return false;
    }
  return !first;
}

/// Whether transfers are run where the lists have them.
bool transfersAreActions(ScheduleKind kind) {
  return kind == ScheduleKind::GPipe || kind == ScheduleKind::OneFOneB;
}

} // namespace

Seconds Timeline::makespan() const {
  Seconds latest(0);
  for (const StageTimeline &stage : stages)
    latest = maximum(latest, stage.end);
  return latest;
}

Timeline runSchedule(const Schedule &schedule, const PipelineTimes &times,
                     std::vector<Span> *spans) {
  assert(times.stages == schedule.stages &&
         static_cast<int64_t>(times.times.size()) ==
             times.stages * times.chunks &&
         times.chunks == schedule.chunks);
  if (!transfersAreActions(schedule.kind))
    return runComputations(schedule, times, spans);
  Simulation simulation(schedule, times, spans);
  simulation.run();
  return simulation.result;
}

const Schedule &ScheduleCache::get(ScheduleKind kind, int64_t stages,
                                   int64_t chunks, int64_t microbatches,
                                   int64_t group) {
  const std::array<int64_t, 5> key{static_cast<int64_t>(kind), stages, chunks,
                                   microbatches, group};
  auto found = schedules.find(key);
  if (found == schedules.end())
    found =
        schedules
            .emplace(key,
                     transfersAreActions(kind)
                         ? makeSchedule(kind, stages, microbatches, chunks)
                         : makeComputations(kind, stages, microbatches, chunks,
                                            group))
            .first;
  return found->second;
}

const ScheduleFacts &ScheduleCache::facts(ScheduleKind kind, int64_t stages,
                                          int64_t chunks, int64_t microbatches,
                                          int64_t group) {
  microbatches = fillingMicrobatches(kind, stages, microbatches, group);
  const auto [entry, inserted] = known.try_emplace(
      {static_cast<int64_t>(kind), stages, chunks, microbatches, group});
  if (inserted)
    entry->second = scheduleFacts(kind, stages, microbatches, chunks, group);
  return entry->second;
}

Timeline runPipeline(ScheduleKind kind, int64_t microbatches,
                     const PipelineTimes &times, ScheduleCache *cache) {
  ScheduleCache own;
  ScheduleCache &schedules = cache ? *cache : own;
  const int64_t stages = times.stages;
  if (stages == 1) { // nothing to wait for: no events
    Timeline timeline;
    const StageTimes &stage = times.times[0];
    const Seconds busy =
        static_cast<double>(microbatches) *
        (stage.forward + stage.backwardData + stage.backwardWeight);
    timeline.stages.push_back({busy, busy, Seconds(0), Seconds(0)});
    return timeline;
  }
  if (!transfersAreActions(kind))
    return runPeriodic(kind, microbatches, times, schedules);
  if (kind == ScheduleKind::OneFOneB)
    for (int64_t run = 2 * stages + 2; run < microbatches; run *= 2) {
      Simulation simulation(schedules.get(kind, stages, 1, run), times);
      simulation.run();
      double shift = 0;
      int64_t period = 1;
      while (period <= stages &&
             !repeats(simulation, stages, run, period, shift))
        ++period;
      if (period > stages || (microbatches - run) % period != 0)
        continue;
      Timeline timeline = std::move(simulation.result);
      const double blocks = static_cast<double>((microbatches - run) / period);
      const double scale =
          static_cast<double>(microbatches) / static_cast<double>(run);
      for (StageTimeline &line : timeline.stages) {
        line.end += Seconds(blocks * shift);
        line.busy = scale * line.busy;
        line.transfer = scale * line.transfer;
        line.idle = maximum(Seconds(0), line.end - line.busy - line.transfer);
      }
      return timeline;
    }
  return runSchedule(schedules.get(kind, stages, 1, microbatches), times);
}

} // namespace shardwright::cost
