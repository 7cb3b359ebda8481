//===- ChunkTimeline.cpp - Schedules whose transfers follow the compute ---===//
//
// Runs every schedule but GPipe and 1F1B (Timeline.cpp): a stream or gradient
// is sent when the block that makes it ends.
//
//===----------------------------------------------------------------------===//
#include "cost_model/schedule/ChunkTimeline.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shardwright::cost {
namespace {

class Simulation {
public:
  Simulation(const Schedule &schedule, const PipelineTimes &times,
             std::vector<Span> *spans = nullptr)
      : schedule(schedule), times(times), spans(spans),
        perChunk(chunkMicrobatches(schedule.kind, schedule.microbatches)) {
    const auto stages = static_cast<size_t>(schedule.stages);
    const size_t tasks =
        stages * static_cast<size_t>(schedule.chunks * perChunk);
    arrived[0].assign(tasks, -1);
    arrived[1].assign(tasks, -1);
    clock.assign(stages, 0);
    next.assign(stages, 0);
    ends.resize(stages);
    for (size_t stage = 0; stage < stages; ++stage)
      ends[stage].resize(schedule.actions[stage].size());
    result.stages.resize(stages);
    for (int64_t stage = 0; stage < schedule.stages; ++stage)
      for (int64_t chunk = 0; chunk < schedule.chunks; ++chunk) {
        const ChunkPlace place{stage, chunk};
        behind.push_back(placeBehind(schedule.kind, schedule.stages,
                                     schedule.chunks, place));
        before.push_back(placeBefore(schedule.kind, schedule.stages,
                                     schedule.chunks, place));
      }
  }

  void run() {
    std::vector<int64_t> ready;
    for (int64_t stage = schedule.stages; stage-- > 0;)
      ready.push_back(stage);
    while (!ready.empty()) {
      const int64_t stage = ready.back();
      ready.pop_back();
      while (next[stage] < schedule.actions[stage].size() &&
             runBlock(stage, ready))
        ;
    }
    for (int64_t stage = 0; stage < schedule.stages; ++stage) {
      assert(next[stage] == schedule.actions[stage].size() &&
             "a verified schedule does not deadlock");
      StageTimeline &line = result.stages[stage];
      line.end = Seconds(clock[stage]);
      line.idle = maximum(Seconds(0), line.end - line.busy - line.transfer);
    }
  }

  /// Where the input of an action comes from; rank -1: it waits for nothing
  /// that another rank, or another chunk, makes.
  ChunkPlace sourceOf(int64_t stage, const Action &action) const {
    const auto at =
        static_cast<size_t>(stage * schedule.chunks + action.chunk);
    return action.kind == ActionKind::Forward        ? before[at]
           : action.kind == ActionKind::BackwardData ? behind[at]
                                                     : ChunkPlace{-1, -1};
  }

  Seconds durationOf(int64_t stage, const Action &action) const {
    const StageTimes &own =
        times.times[stage * schedule.chunks + action.chunk];
    switch (action.kind) {
    case ActionKind::Forward:
      return action.joined ? own.forward - own.hiddenBeside : own.forward;
    case ActionKind::BackwardData:
      return own.backwardData;
    default:
      return own.backwardWeight;
    }
  }

  Timeline result;
  std::vector<std::vector<double>> ends; ///< per stage and action

private:
  double &arrival(bool backward, ChunkPlace place, int64_t microbatch) {
    return arrived[backward][static_cast<size_t>(
        (place.rank * schedule.chunks + place.chunk) * perChunk + microbatch)];
  }

  /// One block of joined actions; false if an input has not arrived.
  bool runBlock(int64_t stage, std::vector<int64_t> &ready) {
    const std::vector<Action> &actions = schedule.actions[stage];
    const size_t begin = next[stage];
    size_t end = begin;
    double start = clock[stage];
    double duration = 0;
    bool more = true;
    for (; more; ++end) {
      const Action &action = actions[end];
      duration += durationOf(stage, action).count();
      const ChunkPlace source = sourceOf(stage, action);
      if (source.rank >= 0) {
        const double at = arrival(action.kind != ActionKind::Forward, source,
                                  action.microbatch);
        if (at < 0)
          return false;
        start = std::max(start, at);
      }
      more = action.joined;
    }
    next[stage] = end;
    for (size_t i = begin; spans && i < end; ++i) {
      const Seconds from = i == begin ? Seconds(start) : spans->back().end;
      spans->push_back({stage, actions[i].kind, actions[i].chunk,
                        actions[i].microbatch, from,
                        from + durationOf(stage, actions[i])});
    }
    clock[stage] = start + duration;
    result.stages[stage].busy += Seconds(duration);
    for (size_t i = begin; i < end; ++i)
      deliver(stage, actions[i], ready);
    for (size_t i = begin; i < end; ++i)
      ends[stage][i] = clock[stage];
    return true;
  }

  void deliver(int64_t stage, const Action &action,
               std::vector<int64_t> &ready) {
    if (action.kind == ActionKind::BackwardWeight)
      return;
    const bool backward = action.kind == ActionKind::BackwardData;
    const auto at =
        static_cast<size_t>(stage * schedule.chunks + action.chunk);
    const ChunkPlace to = backward ? before[at] : behind[at];
    if (to.rank < 0)
      return;
    double &done = arrival(backward, {stage, action.chunk}, action.microbatch);
    done = clock[stage];
    if (to.rank == stage)
      return;
    const Seconds time = backward ? times.sendBackward : times.sendForward;
    if (spans)
      spans->push_back({stage,
                        backward ? ActionKind::SendBackward
                                 : ActionKind::SendForward,
                        action.chunk, action.microbatch, Seconds(done),
                        Seconds(done) + time});
    done += time.count();
    if (!times.overlapTransfers) {
      clock[stage] = done;
      result.stages[stage].transfer += time;
    }
    ready.push_back(to.rank);
  }

  const Schedule &schedule;
  const PipelineTimes &times;
  std::vector<Span> *spans; ///< null: nobody asks
  const int64_t perChunk;
  std::vector<double> arrived[2]; ///< forward, backward: at its receiver
  std::vector<double> clock;
  std::vector<size_t> next;
  std::vector<ChunkPlace> behind, before;
};

/// Microbatches after which an order repeats.
int64_t orderPeriod(ScheduleKind kind, int64_t stages, int64_t group) {
  if (kind == ScheduleKind::Interleaved)
    return group == 0 ? stages : group;
  return stageOwners(kind); // under dualpipe they enter at either end in turn
}

/// The steady part of a run: on every stage blocks of `length` actions that end
/// at `end` (counted back from there), equal but for their microbatches.
struct Steady {
  size_t length;
  std::vector<size_t> end;
};

/// Found by holding the order beside that of one period more: up to where they
/// part, the longer one goes on with what the shorter one repeated.
Steady steadyPart(const Schedule &run, const Schedule &longer) {
  Steady steady;
  steady.length = longer.actions[0].size() - run.actions[0].size();
  for (size_t stage = 0; stage < run.actions.size(); ++stage) {
    const std::vector<Action> &a = run.actions[stage];
    const std::vector<Action> &b = longer.actions[stage];
    steady.end.push_back(static_cast<size_t>(
        std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin()));
  }
  return steady;
}

/// Blocks between an action and what it waits for, at most, over the last block
/// and all that follows it. Blocks are numbered by stage, so the distance may
/// have either sign.
int64_t longestWait(const Schedule &run, const Simulation &simulation,
                    const Steady &steady) {
  const auto perChunk = static_cast<size_t>(
      chunkMicrobatches(run.kind, run.microbatches));
  const auto chunks = static_cast<size_t>(run.chunks);
  // Where on its stage the forward and the backward of a task stand.
  std::vector<size_t> at[2];
  at[0].resize(run.actions.size() * chunks * perChunk);
  at[1] = at[0];
  const auto task = [&](size_t stage, int64_t chunk, int64_t microbatch) {
    return (stage * chunks + static_cast<size_t>(chunk)) * perChunk +
           static_cast<size_t>(microbatch);
  };
  for (size_t stage = 0; stage < run.actions.size(); ++stage)
    for (size_t i = 0; i < run.actions[stage].size(); ++i) {
      const Action &action = run.actions[stage][i];
      if (action.kind != ActionKind::BackwardWeight)
        at[action.kind == ActionKind::BackwardData]
          [task(stage, action.chunk, action.microbatch)] = i;
    }
  const auto block = [&](size_t stage, size_t index) {
    const double distance = static_cast<double>(index) -
                            static_cast<double>(steady.end[stage]);
    return static_cast<int64_t>(
        std::floor(distance / static_cast<double>(steady.length)));
  };
  int64_t longest = 1;
  for (size_t stage = 0; stage < run.actions.size(); ++stage) {
    const size_t from =
        steady.end[stage] - std::min(steady.end[stage], steady.length);
    for (size_t i = from; i < run.actions[stage].size(); ++i) {
      const Action &action = run.actions[stage][i];
      const ChunkPlace source =
          simulation.sourceOf(static_cast<int64_t>(stage), action);
      if (source.rank < 0)
        continue;
      const auto other = static_cast<size_t>(source.rank);
      const size_t index =
          at[action.kind == ActionKind::BackwardData]
            [task(other, source.chunk, action.microbatch)];
      // What stands behind the steady part is as far back as its last block.
      const int64_t wait = std::min<int64_t>(block(stage, i), -1) -
                           std::min<int64_t>(block(other, index), -1);
      longest = std::max(longest, std::abs(wait));
    }
  }
  return longest;
}

/// Whether the last `window` steady blocks of every stage are those `period`
/// blocks before them, later by one `shift`.
bool repeats(const Schedule &run, const Simulation &simulation,
             const Steady &steady, size_t window, size_t period,
             double &shift) {
  bool first = true;
  const size_t apart = period * steady.length;
  for (size_t stage = 0; stage < run.actions.size(); ++stage) {
    const size_t end = steady.end[stage];
    if (end < window * steady.length + apart)
      return false;
    for (size_t i = end - window * steady.length; i < end; ++i) {
      const Action &now = run.actions[stage][i];
      const Action &then = run.actions[stage][i - apart];
      if (now.kind != then.kind || now.chunk != then.chunk ||
          now.joined != then.joined)
        return false; // still in the warm-up
      const double late = simulation.ends[stage][i];
      const double early = simulation.ends[stage][i - apart];
      if (first)
        shift = late - early;
      first = false;
      if (std::fabs(late - early - shift) > 1e-13 * late)
        return false;
    }
  }
  return !first;
}

} // namespace

Timeline runComputations(const Schedule &schedule, const PipelineTimes &times,
                         std::vector<Span> *spans) {
  Simulation simulation(schedule, times, spans);
  simulation.run();
  return std::move(simulation.result);
}

Timeline runPeriodic(ScheduleKind kind, int64_t microbatches,
                     const PipelineTimes &times, ScheduleCache &schedules) {
  const int64_t stages = times.stages, chunks = times.chunks;
  const int64_t period = orderPeriod(kind, stages, times.group);
  // Runs so short show the warm-up and the waits of a steady state; if it does
  // not repeat yet, a longer one may.
  for (int64_t run = 8 * std::max(stages, period);
       run + period < microbatches; run *= 2) {
    const int64_t aligned = run + (microbatches - run) % period;
    const Schedule &schedule =
        schedules.get(kind, stages, chunks, aligned, times.group);
    Simulation simulation(schedule, times);
    simulation.run();
    const Steady steady = steadyPart(
        schedule,
        schedules.get(kind, stages, chunks, aligned + period, times.group));
    // Waits of either sign: blocks of the stages are numbered apart by as much.
    const auto window =
        static_cast<size_t>(2 * longestWait(schedule, simulation, steady) + 1);
    const int64_t left = (microbatches - aligned) / period;
    for (size_t blocks = 1; blocks <= static_cast<size_t>(stages); ++blocks) {
      double shift = 0;
      if (left % static_cast<int64_t>(blocks) != 0 ||
          !repeats(schedule, simulation, steady, window, blocks, shift))
        continue;
      Timeline timeline = std::move(simulation.result);
      const double repetitions =
          static_cast<double>(left) / static_cast<double>(blocks);
      const double scale = static_cast<double>(microbatches) /
                           static_cast<double>(aligned);
      for (size_t stage = 0; stage < timeline.stages.size(); ++stage) {
        StageTimeline &line = timeline.stages[stage];
        line.end += Seconds(repetitions * shift);
        Seconds busy(0); // of what repeats
        for (size_t i = steady.end[stage] - blocks * steady.length;
             i < steady.end[stage]; ++i)
          busy += simulation.durationOf(static_cast<int64_t>(stage),
                                        schedule.actions[stage][i]);
        line.busy += repetitions * busy;
        line.transfer = scale * line.transfer;
        line.idle = maximum(Seconds(0), line.end - line.busy - line.transfer);
      }
      return timeline;
    }
  }
  return runComputations(
      schedules.get(kind, stages, chunks, microbatches, times.group), times);
}

} // namespace shardwright::cost
