//===- PlanStages.cpp - Which rank of a pipeline runs what ----------------===//
#include "cost_model/plan/Plan.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {

bool splitsBackward(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::GPipe:
  case ScheduleKind::OneFOneB:
  case ScheduleKind::Interleaved:
    return false;
  case ScheduleKind::ZbH1:
  case ScheduleKind::Zb2p:
  case ScheduleKind::ZbV:
  case ScheduleKind::DualPipe:
  case ScheduleKind::DualPipeV:
    return true;
  }
  return false;
}

ChunkRange chunksOf(ScheduleKind kind) {
  constexpr int64_t many = int64_t(1) << 20;
  switch (kind) {
  case ScheduleKind::GPipe:
  case ScheduleKind::OneFOneB:
  case ScheduleKind::ZbH1:
  case ScheduleKind::Zb2p:
    return {1, 1};
  case ScheduleKind::Interleaved:
    return {2, many};
  case ScheduleKind::ZbV:
  case ScheduleKind::DualPipe:
  case ScheduleKind::DualPipeV:
    return {2, 2};
  }
  return {1, 1};
}

/// Whether groups of `size`, of pp to all microbatches, fill the pipeline to the
/// last one.
static bool areFull(int64_t pp, int64_t microbatches, int64_t size) {
  const int64_t last = microbatches % size;
  return last == 0 || last >= pp;
}

std::string scheduleProblem(ScheduleKind kind, int64_t pp, int64_t chunks,
                            int64_t microbatches, int64_t group) {
  const std::string schedule(name(kind));
  const auto wrong = [&](const std::string &wanted, int64_t found) {
    std::string message = "expected ";
    message += wanted;
    message += " for schedule ";
    message += schedule;
    message += ", but got ";
    return message += std::to_string(found);
  };
  const ChunkRange range = chunksOf(kind);
  if (chunks < range.least || chunks > range.most)
    return wrong("chunks " +
                     (range.least == range.most
                          ? "= " + std::to_string(range.least)
                          : ">= " + std::to_string(range.least)),
                 chunks);
  if (chunks > 1 && pp == 1)
    return wrong("pp > 1", pp);
  if (group != 0 && kind != ScheduleKind::Interleaved)
    return wrong("no microbatch_group", group);
  const std::string count = "the number of microbatches ";
  switch (kind) {
  case ScheduleKind::GPipe:
  case ScheduleKind::OneFOneB:
  case ScheduleKind::ZbH1:
  case ScheduleKind::Zb2p:
  case ScheduleKind::ZbV:
    return "";
  case ScheduleKind::Interleaved: {
    const int64_t size = group == 0 ? pp : group;
    const std::string ranks = "pp = " + std::to_string(pp);
    if (microbatches < pp)
      return wrong(count + "to be at least " + ranks, microbatches);
    if (size < pp || size > microbatches)
      return wrong("microbatch_group from " + ranks + " to the " +
                       std::to_string(microbatches) + " microbatches",
                   size);
    if (areFull(pp, microbatches, size))
      return "";
    if (size == pp)
      return wrong(count + "to be a multiple of " + ranks, microbatches);
    return wrong("the last of groups of " + std::to_string(size) + " in " +
                     std::to_string(microbatches) +
                     " microbatches to have at least " + ranks,
                 microbatches % size);
  }
  case ScheduleKind::DualPipe:
    if (pp % 2 != 0)
      return wrong("an even pp", pp);
    if (microbatches % 2 != 0)
      return wrong(count + "to be even", microbatches);
    [[fallthrough]];
  case ScheduleKind::DualPipeV:
    if (microbatches < 2 * pp)
      return wrong(count + "to be at least 2 pp = " + std::to_string(2 * pp),
                   microbatches);
    return "";
  }
  return "";
}

int64_t leastGroup(int64_t pp, int64_t microbatches, int64_t from) {
  for (int64_t size = std::max(pp, from); size <= microbatches; ++size)
    if (areFull(pp, microbatches, size))
      return size;
  return 0;
}

std::vector<int64_t> groupsNear(int64_t pp, int64_t microbatches,
                                int64_t size) {
  std::vector<int64_t> groups;
  if (microbatches < pp) // no group fills the pipeline
    return groups;
  for (int64_t below = std::min(size, microbatches + 1) - 1;
       below >= pp && groups.size() < 2; --below)
    if (areFull(pp, microbatches, below))
      groups.push_back(below);
  std::reverse(groups.begin(), groups.end());
  int64_t above = size;
  for (int i = 0; i < 2 && above < microbatches; ++i) {
    above = leastGroup(pp, microbatches, above + 1);
    groups.push_back(above); // at the latest all in a row
  }
  return groups;
}

int64_t evenGroup(int64_t pp, int64_t microbatches) {
  const int64_t groups = microbatches / pp;
  return groups > 0 && microbatches % groups == 0 ? microbatches / groups : 0;
}

int64_t groupOf(const Plan &plan) {
  if (plan.schedule != ScheduleKind::Interleaved)
    return 0;
  return plan.group == 0 ? plan.pp : plan.group;
}

int64_t groupField(ScheduleKind kind, int64_t pp, int64_t size) {
  return kind == ScheduleKind::Interleaved && size == pp ? 0 : size;
}

int64_t stageCount(ScheduleKind kind, int64_t pp, int64_t chunks) {
  return kind == ScheduleKind::DualPipe ? pp : checkedMul(pp, chunks);
}

bool runsBeside(ScheduleKind kind) {
  return kind == ScheduleKind::DualPipe || kind == ScheduleKind::DualPipeV;
}

int64_t stageOwners(ScheduleKind kind) {
  return kind == ScheduleKind::DualPipe ? 2 : 1;
}

int64_t chunkMicrobatches(ScheduleKind kind, int64_t microbatches) {
  return kind == ScheduleKind::DualPipe ? microbatches / 2 : microbatches;
}

namespace {

/// Whether microbatches of this chunk go from high ranks to low ones.
bool goesBack(ScheduleKind kind, int64_t chunk) {
  return chunk == 1 &&
         (kind == ScheduleKind::ZbV || kind == ScheduleKind::DualPipeV ||
          kind == ScheduleKind::DualPipe);
}

constexpr ChunkPlace nowhere{-1, -1};

/// The neighbour of `place` on the way of its stream, or against it.
ChunkPlace neighbour(ScheduleKind kind, int64_t pp, int64_t chunks,
                     ChunkPlace place, bool behind) {
  const bool up = goesBack(kind, place.chunk) != behind;
  const int64_t rank = place.rank + (up ? 1 : -1);
  if (rank >= 0 && rank < pp)
    return {rank, place.chunk};
  if (kind == ScheduleKind::DualPipe)
    return nowhere;
  const int64_t chunk = place.chunk + (behind ? 1 : -1);
  if (chunk < 0 || chunk >= chunks)
    return nowhere;
  // A V turns on the rank where it is; dealt chunks begin anew.
  if (kind == ScheduleKind::Interleaved)
    return {up ? 0 : pp - 1, chunk};
  return {place.rank, chunk};
}

} // namespace

int64_t stageAt(ScheduleKind kind, int64_t pp, ChunkPlace place) {
  const auto [rank, chunk] = place;
  if (kind == ScheduleKind::DualPipe)
    return chunk == 0 ? rank : pp - 1 - rank;
  return chunk * pp + (goesBack(kind, chunk) ? pp - 1 - rank : rank);
}

ChunkPlace placeBehind(ScheduleKind kind, int64_t pp, int64_t chunks,
                       ChunkPlace place) {
  return neighbour(kind, pp, chunks, place, true);
}
ChunkPlace placeBefore(ScheduleKind kind, int64_t pp, int64_t chunks,
                       ChunkPlace place) {
  return neighbour(kind, pp, chunks, place, false);
}

std::vector<int64_t> stagesOfRank(const Plan &plan, int64_t rank) {
  std::vector<int64_t> stages;
  for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
    stages.push_back(stageAt(plan.schedule, plan.pp, {rank, chunk}));
  return stages;
}

} // namespace shardwright::cost
