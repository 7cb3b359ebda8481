#include "cost_model/schedule/Schedule.h"

#include <algorithm>
#include <cassert>

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

/// Joined actions are one block, every other action is one.
size_t blockEnd(const std::vector<Action> &actions, size_t begin) {
  while (actions[begin].joined)
    ++begin;
  return begin + 1;
}

/// One event of the global order: a block of computations, or a transfer that
/// two stages take part in.
struct Event {
  int64_t time;
  int computes;  ///< 0 transfer, 1 block: transfers first
  int64_t stage; ///< that computes or receives
  int32_t chunk, microbatch;
  bool backward;
  size_t begin; ///< of the block, in the stage's computations
  auto operator<=>(const Event &) const = default;
};

/// Runs the computations on the clock of the header and writes the events down.
class GlobalOrder {
public:
  explicit GlobalOrder(const Schedule &schedule)
      : schedule(schedule),
        perChunk(chunkMicrobatches(schedule.kind, schedule.microbatches)) {
    const size_t tasks =
        static_cast<size_t>(schedule.stages * schedule.chunks * perChunk);
    ended[0].assign(tasks, unknown);
    ended[1].assign(tasks, unknown);
  }

  std::vector<Event> run() {
    std::vector<size_t> next(static_cast<size_t>(schedule.stages), 0);
    std::vector<int64_t> free(static_cast<size_t>(schedule.stages), 0);
    std::vector<int64_t> ready;
    for (int64_t stage = schedule.stages; stage-- > 0;)
      ready.push_back(stage);
    while (!ready.empty()) {
      const int64_t stage = ready.back();
      ready.pop_back();
      const std::vector<Action> &actions = schedule.actions[stage];
      while (next[stage] < actions.size()) {
        const size_t begin = next[stage], end = blockEnd(actions, begin);
        int64_t time = free[stage];
        if (!inputsAt(stage, begin, end, time))
          break;
        addEvents(stage, begin, end, time);
        free[stage] = time + static_cast<int64_t>(end - begin);
        for (size_t i = begin; i < end; ++i)
          finish(stage, actions[i], free[stage], ready);
        next[stage] = end;
      }
    }
    for (size_t stage = 0; stage < next.size(); ++stage)
      assert(next[stage] == schedule.actions[stage].size() &&
             "every order can run to its end");
    std::sort(events.begin(), events.end());
    return std::move(events);
  }

private:
  static constexpr int64_t unknown = -1;

  int64_t &endOf(bool backward, ChunkPlace place, int32_t microbatch) {
    return ended[backward][static_cast<size_t>(
        (place.rank * schedule.chunks + place.chunk) * perChunk + microbatch)];
  }
  /// Where the input of an action comes from; rank -1: from nowhere else.
  ChunkPlace sourceOf(int64_t stage, const Action &action) const {
    const ChunkPlace place{stage, action.chunk};
    switch (action.kind) {
    case ActionKind::Forward:
      return placeBefore(schedule.kind, schedule.stages, schedule.chunks,
                         place);
    case ActionKind::BackwardData:
      return placeBehind(schedule.kind, schedule.stages, schedule.chunks,
                         place);
    default:
      return {-1, -1};
    }
  }

  bool inputsAt(int64_t stage, size_t begin, size_t end, int64_t &time) {
    for (size_t i = begin; i < end; ++i) {
      const Action &action = schedule.actions[stage][i];
      const ChunkPlace source = sourceOf(stage, action);
      if (source.rank < 0)
        continue;
      const int64_t at = endOf(action.kind != ActionKind::Forward, source,
                               action.microbatch);
      if (at == unknown)
        return false;
      time = std::max(time, at);
    }
    return true;
  }

  void addEvents(int64_t stage, size_t begin, size_t end, int64_t time) {
    const std::vector<Action> &actions = schedule.actions[stage];
    for (size_t i = begin; i < end; ++i) {
      const ChunkPlace source = sourceOf(stage, actions[i]);
      if (source.rank >= 0 && source.rank != stage)
        events.push_back({time, 0, stage, actions[i].chunk,
                          actions[i].microbatch,
                          actions[i].kind != ActionKind::Forward, begin});
    }
    events.push_back({time, 1, stage, actions[begin].chunk,
                      actions[begin].microbatch,
                      actions[begin].kind != ActionKind::Forward, begin});
  }

  void finish(int64_t stage, const Action &action, int64_t time,
              std::vector<int64_t> &ready) {
    if (action.kind == ActionKind::BackwardWeight)
      return;
    const bool backward = action.kind == ActionKind::BackwardData;
    const ChunkPlace place{stage, action.chunk};
    endOf(backward, place, action.microbatch) = time;
    const ChunkPlace to =
        backward ? placeBefore(schedule.kind, schedule.stages, schedule.chunks,
                               place)
                 : placeBehind(schedule.kind, schedule.stages, schedule.chunks,
                               place);
    if (to.rank >= 0 && to.rank != stage)
      ready.push_back(to.rank);
  }

  const Schedule &schedule;
  const int64_t perChunk;
  std::vector<int64_t> ended[2]; ///< forward, backward
  std::vector<Event> events;
};

/// Gives every microbatch of a chunk the lowest slot of the chunk that is free
/// from its first action (receive, or forward) to its last.
void assignSlots(Schedule &schedule, size_t stage) {
  const size_t chunks = static_cast<size_t>(schedule.chunks);
  const size_t perChunk = static_cast<size_t>(
      chunkMicrobatches(schedule.kind, schedule.microbatches));
  std::vector<int32_t> slotOf(chunks * perChunk, -1);
  std::vector<std::vector<bool>> used(chunks);
  for (Action &action : schedule.actions[stage]) {
    switch (action.kind) {
    case ActionKind::RecvForward:
    case ActionKind::Forward:
    case ActionKind::BackwardData:
    case ActionKind::BackwardWeight: break;
    default: continue;
    }
    std::vector<bool> &slots = used[static_cast<size_t>(action.chunk)];
    int32_t &slot = slotOf[static_cast<size_t>(action.chunk) * perChunk +
                           static_cast<size_t>(action.microbatch)];
    if (slot < 0) {
      auto free = std::find(slots.begin(), slots.end(), false);
      slot = static_cast<int32_t>(free - slots.begin());
      if (free == slots.end())
        slots.push_back(false);
      slots[slot] = true;
    }
    action.slot = slot;
    if (action.kind == ActionKind::BackwardWeight)
      slots[slot] = false;
  }
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    schedule.slots.push_back(static_cast<int64_t>(used[chunk].size()));
}

/// Buffers of one sort: what comes lies in the lowest that is free.
class BufferSort {
public:
  int32_t put(const Action &action) {
    auto free = std::find(held.begin(), held.end(), nothing);
    const auto number = static_cast<int32_t>(free - held.begin());
    if (free == held.end())
      held.push_back(nothing);
    held[static_cast<size_t>(number)] = {action.chunk, action.microbatch};
    return number;
  }
  /// The buffer of what `chunk` has of the microbatch, which stays there.
  int32_t find(int64_t chunk, int32_t microbatch) const {
    const auto found =
        std::find(held.begin(), held.end(), Content(chunk, microbatch));
    assert(found != held.end() && "what is read was written before");
    return static_cast<int32_t>(found - held.begin());
  }
  int32_t take(int64_t chunk, int32_t microbatch) {
    const int32_t number = find(chunk, microbatch);
    held[static_cast<size_t>(number)] = nothing;
    return number;
  }
  int64_t count() const { return static_cast<int64_t>(held.size()); }

private:
  using Content = std::pair<int64_t, int32_t>; ///< chunk, microbatch
  static constexpr Content nothing{-1, -1};
  std::vector<Content> held;
};

/// Gives every action of a stage its border buffers, and counts them.
BorderBuffers assignBorders(Schedule &schedule, int64_t stage) {
  BufferSort streams, arriving, leaving;
  const auto at = [&](const Action &action, bool behind) {
    const ChunkPlace place{stage, action.chunk};
    return behind ? placeBehind(schedule.kind, schedule.stages,
                                schedule.chunks, place)
                  : placeBefore(schedule.kind, schedule.stages,
                                schedule.chunks, place);
  };
  bool joined = false; // whether the W at hand belongs to the B before it
  enum Sort { Streams, Arriving, Leaving };
  std::vector<std::pair<int32_t *, Sort>> numbers; // within their sort
  const auto note = [&](int32_t &field, Sort sort, int32_t number) {
    field = number;
    numbers.emplace_back(&field, sort);
  };
  for (Action &action : schedule.actions[static_cast<size_t>(stage)]) {
    const int32_t m = action.microbatch;
    switch (action.kind) {
    case ActionKind::Forward:
      if (const ChunkPlace from = at(action, false); from.rank == stage)
        note(action.takes, Streams, streams.take(from.chunk, m));
      if (at(action, true).rank >= 0)
        note(action.leaves, Streams, streams.put(action));
      break;
    case ActionKind::BackwardData:
      joined = action.joined;
      if (const ChunkPlace from = at(action, true); from.rank == stage)
        note(action.takes, Leaving, leaving.take(from.chunk, m));
      else if (from.rank >= 0)
        note(action.takes, Arriving,
             joined ? arriving.find(action.chunk, m)
                    : arriving.take(action.chunk, m));
      if (at(action, false).rank >= 0)
        note(action.leaves, Leaving, leaving.put(action));
      break;
    case ActionKind::BackwardWeight:
      if (const ChunkPlace from = at(action, true);
          joined && from.rank >= 0 && from.rank != stage)
        arriving.take(action.chunk, m);
      joined = false;
      break;
    case ActionKind::SendForward:
      note(action.takes, Streams, streams.take(action.chunk, m));
      break;
    case ActionKind::SendBackward:
      note(action.takes, Leaving, leaving.take(action.chunk, m));
      break;
    case ActionKind::RecvBackward:
      note(action.leaves, Arriving, arriving.put(action));
      break;
    case ActionKind::RecvForward:
    case ActionKind::Reduce:
    case ActionKind::Step: break;
    }
  }
  const BorderBuffers most{streams.count(), arriving.count(), leaving.count()};
  for (const auto &[field, sort] : numbers) {
    if (sort != Streams)
      *field += static_cast<int32_t>(most.streamsLeaving);
    if (sort == Leaving)
      *field += static_cast<int32_t>(most.gradientsArriving);
  }
  return most;
}

} // namespace

Schedule makeSchedule(ScheduleKind kind, int64_t stages, int64_t microbatches,
                      int64_t chunks, int64_t group) {
  assert(stages >= 1 && microbatches >= 1 && "a schedule has something to do");
  Schedule schedule =
      makeComputations(kind, stages, microbatches, chunks, group);
  const std::vector<Event> events = GlobalOrder(schedule).run();
  const std::vector<std::vector<Action>> computations =
      std::move(schedule.actions);
  schedule.actions.assign(static_cast<size_t>(stages), {});
  for (const Event &event : events) {
    std::vector<Action> &own = schedule.actions[event.stage];
    if (event.computes) {
      const std::vector<Action> &from = computations[event.stage];
      own.insert(own.end(), from.begin() + static_cast<int64_t>(event.begin),
                 from.begin() +
                     static_cast<int64_t>(blockEnd(from, event.begin)));
      continue;
    }
    const ChunkPlace place{event.stage, event.chunk};
    const ChunkPlace from = event.backward
                                ? placeBehind(kind, stages, chunks, place)
                                : placeBefore(kind, stages, chunks, place);
    schedule.actions[from.rank].push_back(
        {event.backward ? ActionKind::SendBackward : ActionKind::SendForward,
         static_cast<int32_t>(from.chunk), event.microbatch});
    own.push_back(
        {event.backward ? ActionKind::RecvBackward : ActionKind::RecvForward,
         event.chunk, event.microbatch});
  }
  for (int64_t stage = 0; stage < stages; ++stage) {
    assignSlots(schedule, static_cast<size_t>(stage));
    schedule.borders.push_back(assignBorders(schedule, stage));
    schedule.actions[stage].push_back({ActionKind::Reduce});
    schedule.actions[stage].push_back({ActionKind::Step});
  }
  return schedule;
}

} // namespace shardwright::cost
