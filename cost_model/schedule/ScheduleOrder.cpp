//===- ScheduleOrder.cpp - The order of computations on one rank ----------===//
#include "cost_model/schedule/Schedule.h"

#include <algorithm>
#include <cassert>
#include <deque>

namespace shardwright::cost {
namespace {

/// Writes the order of one rank down, numbering microbatches as they come.
class Order {
public:
  explicit Order(int64_t chunks)
      : forwards(chunks, 0), backwards(chunks, 0) {}

  void forward(int32_t chunk, bool joined = false) {
    add(ActionKind::Forward, chunk, forwards[chunk]++, joined);
  }
  /// A whole backward.
  void backward(int32_t chunk) {
    backwardOf(chunk, backwards[chunk]++);
  }
  void backwardOf(int32_t chunk, int32_t microbatch) {
    add(ActionKind::BackwardData, chunk, microbatch, true);
    add(ActionKind::BackwardWeight, chunk, microbatch, false);
  }
  /// Data gradient now; `weight` runs the oldest that is left.
  void backwardData(int32_t chunk) {
    left.push_back({chunk, backwards[chunk]});
    add(ActionKind::BackwardData, chunk, backwards[chunk]++, false);
  }
  void weight() {
    assert(!left.empty() && "a weight gradient follows its data gradient");
    add(ActionKind::BackwardWeight, left.front().first, left.front().second,
        false);
    left.pop_front();
  }
  /// The oldest that is left of `chunk`.
  void weightOf(int32_t chunk) {
    auto found = std::find_if(left.begin(), left.end(), [&](const auto &entry) {
      return entry.first == chunk;
    });
    assert(found != left.end());
    add(ActionKind::BackwardWeight, chunk, found->second, false);
    left.erase(found);
  }
  /// Both beside one another.
  void pair(int32_t forwardChunk, int32_t backwardChunk) {
    forward(forwardChunk, true);
    backward(backwardChunk);
  }
  bool anyLeft() const { return !left.empty(); }
  int64_t forwardsOf(int32_t chunk) const { return forwards[chunk]; }
  int64_t backwardsOf(int32_t chunk) const { return backwards[chunk]; }

  std::vector<Action> actions;

private:
  void add(ActionKind kind, int32_t chunk, int32_t microbatch, bool joined) {
    actions.push_back({kind, chunk, microbatch, 0, joined});
  }
  std::vector<int32_t> forwards, backwards; ///< per chunk, how many so far
  std::deque<std::pair<int32_t, int32_t>> left;
};

std::vector<Action> gpipe(int64_t microbatches) {
  Order order(1);
  for (int64_t m = 0; m < microbatches; ++m)
    order.forward(0);
  for (int64_t m = microbatches; m-- > 0;)
    order.backwardOf(0, static_cast<int32_t>(m));
  return std::move(order.actions);
}

std::vector<Action> oneFOneB(int64_t microbatches, int64_t warmup) {
  Order order(1);
  warmup = std::min(microbatches, warmup);
  for (int64_t m = 0; m < warmup; ++m)
    order.forward(0);
  for (int64_t m = 0; m < microbatches; ++m) {
    if (order.forwardsOf(0) < microbatches)
      order.forward(0);
    order.backward(0);
  }
  return std::move(order.actions);
}

/// 1F1B with longer or equal warm-up, each W `delay` backwards after its B.
std::vector<Action> zeroBubble(int64_t microbatches, int64_t warmup,
                               int64_t delay) {
  Order order(1);
  for (int64_t m = 0; m < std::min(microbatches, warmup); ++m)
    order.forward(0);
  for (int64_t m = 0; m < microbatches; ++m) {
    if (order.forwardsOf(0) < microbatches)
      order.forward(0);
    order.backwardData(0);
    if (m >= delay)
      order.weight();
  }
  while (order.anyLeft())
    order.weight();
  return std::move(order.actions);
}

std::vector<Action> interleaved(int64_t stages, int64_t microbatches,
                                int64_t chunks, int64_t stage, int64_t group) {
  Order order(chunks);
  const int64_t total = microbatches * chunks;
  const int64_t warmup =
      std::min(total, 2 * (stages - stage - 1) + (chunks - 1) * group);
  const auto chunkAt = [&](int64_t step) {
    const int64_t turn = group * chunks; // of a whole group through all chunks
    const int64_t left = microbatches - step / turn * group;
    return static_cast<int32_t>(step % turn / std::min(group, left));
  };
  const auto last = static_cast<int32_t>(chunks - 1);
  for (int64_t step = 0; step < warmup; ++step)
    order.forward(chunkAt(step));
  for (int64_t step = 0; step < total; ++step) {
    if (warmup + step < total)
      order.forward(chunkAt(warmup + step));
    order.backward(last - chunkAt(step));
  }
  return std::move(order.actions);
}

std::vector<Action> zeroBubbleV(int64_t stages, int64_t microbatches,
                                int64_t stage) {
  // The order wants 2 pp - 1 microbatches; those that are not there are left
  // out of it.
  const int64_t count = std::max(2 * stages - 1, microbatches);
  Order order(2);
  const auto whole = [&](int32_t chunk) {
    order.backwardData(chunk);
    order.weightOf(chunk);
  };
  for (int64_t i = 0; i < 2 * (stages - stage) - 1; ++i)
    order.forward(0);
  for (int64_t i = 0; i < stage; ++i) {
    order.forward(1);
    order.forward(0);
  }
  for (int64_t i = 0; i < stages - stage; ++i) {
    order.forward(1);
    whole(1);
  }
  while (order.forwardsOf(1) < order.forwardsOf(0) ||
         order.forwardsOf(0) < count) {
    if (order.forwardsOf(0) < count)
      order.forward(0);
    whole(0);
    order.forward(1);
    whole(1);
  }
  for (int64_t i = 0; i < stage; ++i) {
    order.backwardData(0);
    order.backwardData(1);
  }
  for (int64_t i = 0; i < stages - stage; ++i) {
    order.backwardData(0);
    order.weightOf(0);
  }
  for (int64_t i = 0; i < stage; ++i)
    order.weightOf(1);
  while (order.anyLeft())
    order.weightOf(0);
  std::erase_if(order.actions, [&](const Action &action) {
    return action.microbatch >= microbatches;
  });
  return std::move(order.actions);
}

/// The eight phases of DualPipe on a rank that is `rank` of `ranks` from the
/// end where chunk `own` enters; `count` microbatches pass each chunk. At the
/// turn both chunks meet; there the first pair does not run as one.
std::vector<Action> dualPipe(int64_t ranks, int64_t rank, int64_t count,
                             int32_t own) {
  Order order(2);
  const int32_t other = 1 - own;
  const int64_t behind = ranks - rank - 1;
  for (int64_t i = 0; i < 2 * behind; ++i)
    order.forward(own);
  for (int64_t i = 0; i < rank + 1; ++i) {
    order.forward(own);
    order.forward(other);
  }
  for (int64_t i = 0; i < behind; ++i) {
    order.backwardData(other);
    order.weight();
    order.forward(other);
  }
  for (int64_t i = 0; i < count - 2 * ranks + rank + 1; ++i) {
    if (i == 0 && behind == 0) {
      order.forward(own);
      order.backward(other);
    } else {
      order.pair(own, other);
    }
    order.pair(other, own);
  }
  for (int64_t i = 0; i < behind; ++i) {
    order.backward(other);
    order.pair(other, own);
  }
  bool apart = false;
  const auto backward = [&](int32_t chunk) {
    apart ? order.backwardData(chunk) : order.backward(chunk);
  };
  for (int64_t i = 0; i < rank + 1; ++i) {
    const bool half = i == (rank + 1) / 2;
    apart = apart || (half && rank % 2 == 1);
    backward(other);
    apart = apart || (half && rank % 2 == 0);
    backward(own);
  }
  for (int64_t i = 0; i < behind; ++i) {
    order.weight();
    order.backwardData(own);
  }
  while (order.anyLeft())
    order.weight();
  return std::move(order.actions);
}

} // namespace

std::vector<Action> computationsOf(ScheduleKind kind, int64_t stages,
                                   int64_t microbatches, int64_t chunks,
                                   int64_t stage, int64_t group) {
  assert(scheduleProblem(kind, stages, chunks, microbatches, group).empty());
  switch (kind) {
  case ScheduleKind::GPipe:
    return gpipe(microbatches);
  case ScheduleKind::OneFOneB:
    return oneFOneB(microbatches, stages - stage - 1);
  case ScheduleKind::Interleaved:
    return interleaved(stages, microbatches, chunks, stage,
                       group == 0 ? stages : group);
  case ScheduleKind::ZbH1:
    return zeroBubble(microbatches, stages - stage - 1, stage);
  case ScheduleKind::Zb2p:
    return zeroBubble(microbatches, 2 * (stages - stage - 1), 2 * stage);
  case ScheduleKind::ZbV:
    return zeroBubbleV(stages, microbatches, stage);
  case ScheduleKind::DualPipe:
    return dualPipe(stages / 2, std::min(stage, stages - 1 - stage),
                    microbatches / 2, stage < stages / 2 ? 0 : 1);
  case ScheduleKind::DualPipeV:
    return dualPipe(stages, stage, microbatches, 0);
  }
  return {};
}

Schedule makeComputations(ScheduleKind kind, int64_t stages,
                          int64_t microbatches, int64_t chunks,
                          int64_t group) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.stages = stages;
  schedule.chunks = chunks;
  schedule.microbatches = microbatches;
  schedule.group = group;
  for (int64_t stage = 0; stage < stages; ++stage)
    schedule.actions.push_back(
        computationsOf(kind, stages, microbatches, chunks, stage, group));
  return schedule;
}

int64_t slotCount(ScheduleKind kind, int64_t stages, int64_t microbatches,
                  int64_t stage) {
  switch (kind) {
  case ScheduleKind::GPipe:
    return microbatches;
  case ScheduleKind::OneFOneB:
    return std::min(microbatches, stages - stage);
  case ScheduleKind::ZbH1:
    return std::min(microbatches, stages);
  case ScheduleKind::Zb2p:
    return std::min(microbatches, 2 * stages - 1);
  case ScheduleKind::Interleaved:
  case ScheduleKind::ZbV:
  case ScheduleKind::DualPipe:
  case ScheduleKind::DualPipeV:
    break;
  }
  assert(false && "a schedule of one chunk");
  return microbatches;
}

int64_t fillingMicrobatches(ScheduleKind kind, int64_t stages,
                            int64_t microbatches, int64_t group) {
  if (kind == ScheduleKind::GPipe)
    return microbatches;
  if (group == 0)
    group = stages;
  const int64_t last =
      kind == ScheduleKind::Interleaved ? microbatches % group : 0;
  return std::min(microbatches, 4 * group + last);
}

namespace {

bool covers(const InFlight &a, const InFlight &b) {
  for (size_t chunk = 0; chunk < a.saved.size(); ++chunk)
    if (a.saved[chunk] < b.saved[chunk] || a.kept[chunk] < b.kept[chunk])
      return false;
  return true;
}

} // namespace

std::vector<InFlight> inFlight(ScheduleKind kind, int64_t stages,
                               int64_t microbatches, int64_t chunks,
                               int64_t stage, int64_t group) {
  if (kind == ScheduleKind::GPipe || kind == ScheduleKind::OneFOneB)
    return {{{slotCount(kind, stages, microbatches, stage)}, {0}}};
  const int64_t filling =
      fillingMicrobatches(kind, stages, microbatches, group);
  const std::vector<Action> actions =
      computationsOf(kind, stages, filling, chunks, stage, group);
  const std::vector<int64_t> none(static_cast<size_t>(chunks), 0);
  InFlight now{none, none};
  std::vector<InFlight> most;
  const size_t width = static_cast<size_t>(filling);
  std::vector<bool> apart(static_cast<size_t>(chunks) * width, false);
  for (const Action &action : actions) {
    const size_t chunk = static_cast<size_t>(action.chunk);
    const size_t task = chunk * width + static_cast<size_t>(action.microbatch);
    if (action.kind == ActionKind::Forward) {
      ++now.saved[chunk];
    } else if (action.kind == ActionKind::BackwardData) {
      if (action.joined)
        continue;
      apart[task] = true;
      ++now.kept[chunk];
    } else {
      --now.saved[chunk];
      if (apart[task])
        --now.kept[chunk];
      continue;
    }
    if (std::any_of(most.begin(), most.end(), [&](const InFlight &other) {
          return covers(other, now);
        }))
      continue;
    std::erase_if(most,
                  [&](const InFlight &other) { return covers(now, other); });
    most.push_back(now);
  }
  return most;
}

ScheduleFacts scheduleFacts(ScheduleKind kind, int64_t stages,
                            int64_t microbatches, int64_t chunks,
                            int64_t group) {
  ScheduleFacts facts;
  const bool plain = chunks == 1 && !splitsBackward(kind);
  if (!plain)
    facts.borders =
        makeSchedule(kind, stages,
                     fillingMicrobatches(kind, stages, microbatches, group),
                     chunks, group)
            .borders;
  for (int64_t stage = 0; stage < stages; ++stage) {
    facts.inFlight.push_back(
        inFlight(kind, stages, microbatches, chunks, stage, group));
    if (plain) // one buffer each, but at the ends
      facts.borders.push_back(
          {stage + 1 < stages, stage + 1 < stages, stage > 0});
  }
  return facts;
}

} // namespace shardwright::cost
