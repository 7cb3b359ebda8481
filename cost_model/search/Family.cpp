#include "cost_model/search/Family.h"

#include <algorithm>

namespace shardwright::cost {

std::vector<Candidate> Family::meshes() const {
  std::vector<Candidate> result;
  for (int64_t tp : divisors(options.gpus))
    for (int64_t pp : divisors(options.gpus / tp)) {
      int64_t dp = options.gpus / tp / pp;
      if (!allows(Field::Tp, tp) || !allows(Field::Pp, pp) ||
          !allows(Field::Dp, dp))
        continue;
      Candidate candidate;
      candidate.tp = tp;
      candidate.pp = pp;
      candidate.dp = dp;
      candidate.recompute = options.policies.front();
      addExperts(candidate, result);
    }
  return result;
}

/// The mesh with every expert parallelism. An expert is split (etp) only if
/// the question asks for it.
void Family::addExperts(Candidate candidate, std::vector<Candidate> &result) const {
  candidate.sp = options.experts > 0 && candidate.tp > 1;
  const int64_t ranks = candidate.dp * candidate.tp;
  const Range &split = options.ranges[static_cast<int>(Field::Etp)];
  for (int64_t etp : divisors(ranks)) {
    if (etp > 1 && !(split.bounded() && split.contains(etp)))
      continue;
    for (int64_t ep : divisors(ranks / etp)) {
      if ((ep > 1 && (options.experts == 0 || options.experts % ep != 0)) ||
          !allows(Field::Ep, ep) || !allows(Field::Etp, etp))
        continue;
      candidate.ep = ep;
      candidate.etp = etp;
      result.push_back(candidate);
    }
  }
}

std::vector<Candidate> Family::batches(const Candidate &mesh) const {
  std::vector<Candidate> result;
  if (options.globalBatch % mesh.dp != 0)
    return result;
  for (int sp = 0; sp <= (mesh.tp > 1 ? 1 : 0); ++sp)
    for (int64_t micro : divisors(options.globalBatch / mesh.dp)) {
      if (!allows(Field::Sp, sp) || !allows(Field::MicroBatch, micro) ||
          (mesh.sp && sp == 0)) // experts need it
        continue;
      Candidate candidate = mesh;
      candidate.sp = sp == 1;
      candidate.microBatch = micro;
      result.push_back(candidate);
    }
  return result;
}

/// ZeRO with one data rank and schedules with one stage are the same program as
/// without: not counted twice.
std::vector<Candidate> Family::states(const Candidate &batch) const {
  std::vector<Candidate> result;
  const int64_t microbatches =
      options.globalBatch / (batch.dp * batch.microBatch);
  const auto add = [&](int zero, ScheduleKind schedule, int64_t chunks) {
    if (!allows(Field::Chunks, chunks) ||
        !scheduleProblem(schedule, batch.pp, chunks, microbatches).empty())
      return;
    Candidate candidate = batch;
    candidate.zero = zero;
    candidate.schedule = schedule;
    candidate.chunks = chunks;
    result.push_back(candidate);
  };
  for (int zero : batch.pp > 1 ? options.zeroUnderPipeline : options.zero) {
    if (!allows(Field::Zero, zero) || (zero > 0 && batch.dp == 1))
      continue;
    if (batch.pp == 1) {
      if (allows(Field::Schedule,
                 static_cast<int64_t>(ScheduleKind::OneFOneB)))
        add(zero, ScheduleKind::OneFOneB, 1);
      continue;
    }
    for (ScheduleKind schedule : options.schedules) {
      if (!allows(Field::Schedule, static_cast<int64_t>(schedule)))
        continue;
      const ChunkRange range = chunksOf(schedule);
      for (int64_t chunks = range.least;
           chunks <= range.most &&
           stageCount(schedule, batch.pp, chunks) <= options.layers;
           ++chunks)
        add(zero, schedule, chunks);
    }
  }
  return result;
}

std::vector<Part> Family::policies(const Candidate &state) const {
  std::vector<Part> result;
  const Range &full = options.ranges[static_cast<int>(Field::FullLayers)];
  for (Recompute policy : options.policies) {
    if (!allows(Field::Recompute, static_cast<int64_t>(policy)))
      continue;
    Candidate candidate = state;
    candidate.recompute = policy;
    // "Full on n" is asked for by its own field; all layers are -1.
    if (full.contains(-1))
      result.push_back({candidate, Depth::Policy, -1});
    if (policy != Recompute::Full)
      continue;
    candidate.fullLayers = std::max<int64_t>(1, full.least);
    const int64_t most = std::min(shape(state).largest - 1, full.most);
    if (candidate.fullLayers <= most)
      result.push_back({candidate, Depth::Policy, most});
  }
  return result;
}

std::vector<Part> Family::children(const Part &parent) const {
  std::vector<Part> result;
  const auto add = [&](const std::vector<Candidate> &candidates, Depth depth) {
    for (const Candidate &candidate : candidates)
      result.push_back({candidate, depth, candidate.fullLayers});
  };
  switch (parent.depth) {
  case Depth::Mesh: add(batches(parent.candidate), Depth::Batch); break;
  case Depth::Batch: add(states(parent.candidate), Depth::State); break;
  case Depth::State: return policies(parent.candidate);
  case Depth::Policy:
    for (const Split &split : shape(parent.candidate).splits) {
      if (split.largest <= parent.candidate.fullLayers)
        continue; // the same as full on all
      Candidate candidate = parent.candidate;
      candidate.firstLayers = split.first;
      candidate.lastLayers = split.last;
      result.push_back({candidate, Depth::Complete, candidate.fullLayers});
    }
    break;
  case Depth::Complete: break;
  }
  return result;
}

int64_t Family::leaves(const Part &part) const {
  const Candidate &c = part.candidate;
  if (part.depth == Depth::Complete)
    return 1;
  Shape &shape = this->shape(c);
  switch (part.depth) {
  case Depth::Complete: break;
  case Depth::Policy:
    return c.fullLayers < 0
               ? static_cast<int64_t>(shape.splits.size())
               : shape.aboveSum[static_cast<size_t>(part.fullMost)] -
                     shape.aboveSum[static_cast<size_t>(c.fullLayers) - 1];
  case Depth::State:
    if (shape.leaves < 0) { // does not depend on the other fields
      shape.leaves = 0;
      for (const Part &child : policies(c))
        shape.leaves += leaves(child);
    }
    return shape.leaves;
  case Depth::Batch: {
    int64_t sum = 0;
    for (const Candidate &state : states(c))
      sum += leaves({state, Depth::State, -1});
    return sum;
  }
  case Depth::Mesh: break;
  }
  return 0;
}

Family::Shape &Family::shape(const Candidate &c) const {
  const int64_t stages = stageCount(c);
  const bool even = c.chunks > 1;
  auto [entry, inserted] = shapes.try_emplace({stages, even});
  Shape &shape = entry->second;
  if (!inserted)
    return shape;
  if (!even)
    shape.splits = cost::splits(options.layers, stages, options.ranges);
  else if (allows(Field::FirstLayers, 0) && allows(Field::LastLayers, 0))
    shape.splits = {{0, 0, ceilDiv(options.layers, stages)}};
  for (const Split &split : shape.splits)
    shape.largest = std::max(shape.largest, split.largest);
  const auto count = static_cast<size_t>(shape.largest) + 1;
  shape.above.assign(count, 0);
  for (const Split &split : shape.splits)
    ++shape.above[static_cast<size_t>(split.largest) - 1];
  for (size_t n = count - 1; n-- > 0;)
    shape.above[n] += shape.above[n + 1];
  shape.aboveSum.assign(count, 0);
  for (size_t n = 1; n < count; ++n)
    shape.aboveSum[n] = shape.aboveSum[n - 1] + shape.above[n];
  return shape;
}

} // namespace shardwright::cost
