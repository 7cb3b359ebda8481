#include "cost_model/search/Family.h"

#include <algorithm>

namespace shardwright::cost {

std::vector<Candidate> Family::meshes() const {
  std::vector<Candidate> result;
  for (int64_t tp : divisors(options.gpus))
    for (int64_t pp : divisors(options.gpus / tp)) {
      if (!allows(Field::Tp, tp) || !allows(Field::Pp, pp))
        continue;
      for (int64_t cp : divisors(options.gpus / tp / pp)) {
        const int64_t dp = options.gpus / tp / pp / cp;
        if (!allows(Field::Dp, dp) || !allows(Field::Cp, cp))
          continue;
        if (cp > 1 && (options.cpKinds.empty() ||
                       (pp > 1 && !options.contextUnderPipeline)))
          continue;
        Candidate candidate;
        candidate.tp = tp;
        candidate.pp = pp;
        candidate.cp = cp;
        candidate.dp = dp;
        candidate.recompute = options.policies.front();
        addExperts(candidate, result);
      }
    }
  return result;
}

/// The mesh with every expert parallelism.
void Family::addExperts(Candidate candidate, std::vector<Candidate> &result) const {
  candidate.sp = options.experts > 0 && candidate.tp > 1;
  const int64_t ranks = candidate.dp * candidate.cp * candidate.tp;
  for (int64_t etp : divisors(ranks)) {
    if (!allows(Field::Etp, etp) || options.expertFfn % etp != 0)
      continue;
    for (int64_t ep : divisors(ranks / etp)) {
      if ((ep > 1 && (options.experts == 0 || options.experts % ep != 0)) ||
          !allows(Field::Ep, ep) ||
          (options.experts > 0 &&
           !splitsExperts(options.expertTensor, candidate.tp, ep, etp)))
        continue;
      candidate.ep = ep;
      candidate.etp = etp;
      result.push_back(candidate);
    }
  }
}

namespace {

/// The choices of a field that is the base plan's unless the question frees it.
template <typename Value>
std::vector<std::optional<Value>> choices(const std::vector<Value> &free) {
  if (free.empty())
    return {std::nullopt};
  return {free.begin(), free.end()};
}

bool has(const std::vector<int> &stages, int zero) {
  return std::find(stages.begin(), stages.end(), zero) != stages.end();
}

} // namespace

std::vector<Candidate> Family::batches(const Candidate &mesh) const {
  std::vector<Candidate> result;
  if (options.globalBatch % mesh.dp != 0)
    return result;
  Candidate candidate = mesh;
  const auto addSizes = [&] {
    for (int64_t micro : divisors(options.globalBatch / mesh.dp)) {
      if (!allows(Field::MicroBatch, micro))
        continue;
      candidate.microBatch = micro;
      result.push_back(candidate);
    }
  };
  for (int sp = 0; sp <= (mesh.tp > 1 ? 1 : 0); ++sp) {
    if (!allows(Field::Sp, sp) || (mesh.sp && sp == 0)) // experts need it
      continue;
    candidate.sp = sp == 1;
    for (CpKind kind : mesh.cp > 1 ? options.cpKinds
                                   : std::vector<CpKind>{CpKind::P2P}) {
      if (!allowsKind(mesh, kind))
        continue;
      candidate.cpKind = kind;
      for (MeshOrder order :
           mesh.pp > 1 && mesh.dp > 1 &&
                   (mesh.cp * mesh.tp) % options.nodeRanks != 0
               ? options.orders
               : std::vector<MeshOrder>{MeshOrder::PpDp}) {
        if (!allows(Field::Order, static_cast<int64_t>(order)))
          continue;
        candidate.order = order;
        for (std::optional<Narrow> products : choices(options.products)) {
          candidate.products = products;
          addSizes();
        }
      }
    }
  }
  return result;
}

/// Plans without parts of a sequence have every kind, unless "none" is meant.
bool Family::allowsKind(const Candidate &c, CpKind kind) const {
  const Range &range = options.ranges[static_cast<int>(Field::CpKind)];
  if (c.cp > 1)
    return range.contains(static_cast<int64_t>(kind));
  return !std::binary_search(range.without.begin(), range.without.end(),
                             noCpKind);
}

/// All of them may be meant by 0 or by their number.
bool Family::allowsZeroRanks(const Candidate &c) const {
  const Range &range = options.ranges[static_cast<int>(Field::ZeroRanks)];
  const int64_t ranks = c.zero == 0 ? 1 : c.zeroRanks == 0 ? c.dp : c.zeroRanks;
  if (c.zero > 0 && c.zeroRanks > 0)
    return range.contains(ranks);
  return range.most == 0
             ? range.contains(0)
             : range.contains(ranks) &&
                   !std::binary_search(range.without.begin(),
                                       range.without.end(), int64_t(0));
}

/// The group of microbatches that interleaved chunks run in a row: the least that
/// the framework has and the question allows; 0 if there is none.
int64_t Family::groupFor(int64_t pp, int64_t microbatches) const {
  const Range &range = options.ranges[static_cast<int>(Field::Group)];
  if (options.evenGroups) {
    const int64_t group = evenGroup(pp, microbatches);
    return range.contains(group) ? group : 0;
  }
  int64_t group = leastGroup(pp, microbatches, range.least);
  while (group > 0 && group <= range.most && !range.contains(group))
    group = leastGroup(pp, microbatches, group + 1);
  return group <= range.most ? group : 0;
}

/// ZeRO with one data rank and schedules with one stage are the same program as
/// without: not counted twice.
std::vector<Candidate> Family::states(const Candidate &batch) const {
  std::vector<Candidate> result;
  const int64_t microbatches =
      options.globalBatch / (batch.dp * batch.microBatch);
  const bool hosts = allows(Field::Offload, 1);
  Candidate candidate = batch;
  struct Pipeline {
    ScheduleKind schedule;
    int64_t chunks, group;
  };
  std::vector<Pipeline> schedules;
  const auto addSchedule = [&](ScheduleKind schedule, int64_t chunks) {
    if (!allows(Field::Schedule, static_cast<int64_t>(schedule)) ||
        !allows(Field::Chunks, chunks))
      return;
    const bool grouped = schedule == ScheduleKind::Interleaved;
    const int64_t group = grouped ? groupFor(batch.pp, microbatches) : 0;
    if ((grouped ? group > 0 : allows(Field::Group, 0)) &&
        scheduleProblem(schedule, batch.pp, chunks, microbatches, group).empty())
      schedules.push_back({schedule, chunks, group == batch.pp ? 0 : group});
  };
  if (batch.pp == 1)
    addSchedule(ScheduleKind::OneFOneB, 1);
  else
    for (ScheduleKind schedule : options.schedules) {
      const ChunkRange range = chunksOf(schedule);
      for (int64_t chunks = range.least;
           chunks <= range.most &&
           stageCount(schedule, batch.pp, chunks) <= options.layers;
           ++chunks)
        addSchedule(schedule, chunks);
    }
  const auto add = [&](const Pipeline &pipeline) {
    candidate.schedule = pipeline.schedule;
    candidate.chunks = pipeline.chunks;
    candidate.group = pipeline.group;
    for (std::optional<DType> gradients : choices(options.gradients)) {
      candidate.gradients = gradients;
      for (bool offload : {false, true}) {
        if (offload ? !hosts || !has(options.offload, candidate.zero)
                    : !allows(Field::Offload, 0))
          continue;
        candidate.offload = offload;
        result.push_back(candidate);
      }
    }
  };
  for (int zero : batch.pp > 1 ? options.zeroUnderPipeline : options.zero) {
    if (!allows(Field::Zero, zero) || (zero > 0 && batch.dp * batch.cp == 1))
      continue;
    candidate.zero = zero;
    // Shards over all data ranks, or over groups of them with copies (HSDP).
    const bool copies =
        has(options.copies, zero) && batch.ep * batch.etp == 1;
    for (int64_t ranks : copies ? divisors(batch.dp)
                                : std::vector<int64_t>{batch.dp}) {
      if (ranks < batch.dp && ranks == 1 && batch.cp == 1)
        continue;
      candidate.zeroRanks = ranks == batch.dp ? 0 : ranks;
      if (allowsZeroRanks(candidate))
        for (const Pipeline &pipeline : schedules)
          add(pipeline);
    }
  }
  return result;
}

/// None is full on no layer: one part for both, if both are asked for.
std::vector<Part> Family::policies(const Candidate &state) const {
  std::vector<Part> result;
  const FullRule rule = fullRule(options);
  const auto has = [&](Recompute policy) {
    return allows(Field::Recompute, static_cast<int64_t>(policy)) &&
           std::find(options.policies.begin(), options.policies.end(),
                     policy) != options.policies.end();
  };
  for (Recompute policy : options.policies) {
    // "Full on n" is asked for by its own field; all layers are -1.
    const bool isWanted =
        policy == Recompute::Full ||
        (rule.layers.contains(-1) &&
         !(policy == Recompute::None && has(Recompute::Full) &&
           rule.floor() == 0));
    if (!has(policy) || !isWanted)
      continue;
    Candidate candidate = state;
    candidate.recompute = policy;
    result.push_back({candidate, Depth::Policy});
  }
  return result;
}

std::vector<Part> Family::children(const Part &parent) const {
  std::vector<Part> result;
  const auto add = [&](const std::vector<Candidate> &candidates, Depth depth) {
    for (const Candidate &candidate : candidates)
      result.push_back({candidate, depth});
  };
  switch (parent.depth) {
  case Depth::Mesh: add(batches(parent.candidate), Depth::Batch); break;
  case Depth::Batch: add(states(parent.candidate), Depth::State); break;
  case Depth::State: return policies(parent.candidate);
  case Depth::Policy:
    for (const Split &split : shape(parent.candidate).splits)
      result.push_back({withSplit(parent.candidate, split), Depth::Complete});
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
    return static_cast<int64_t>(shape.splits.size());
  case Depth::State:
    if (shape.leaves < 0) { // does not depend on the other fields
      shape.leaves = 0;
      for (const Part &child : policies(c))
        shape.leaves += leaves(child);
    }
    return shape.leaves;
  case Depth::Batch: {
    const auto [entry, inserted] = leavesOfBatch.try_emplace(
        {c.dp, c.cp, c.pp, c.ep * c.etp > 1, c.microBatch}, 0);
    if (inserted)
      for (const Candidate &state : states(c))
        entry->second += leaves({state, Depth::State});
    return entry->second;
  }
  case Depth::Mesh: break;
  }
  return 0;
}

Family::Shape &Family::shape(const Candidate &c) const {
  const int64_t stages = stageCount(c);
  const auto [entry, inserted] = shapes.try_emplace(stages);
  if (inserted)
    entry->second.splits =
        cost::splits(options.layers, stages, options.ranges);
  return entry->second;
}

FullRule fullRule(const SearchOptions &options) {
  const auto &range = [&](Field field) -> const Range & {
    return options.ranges[static_cast<size_t>(field)];
  };
  FullRule rule;
  rule.limit = options.memoryLimit;
  rule.layers = range(Field::FullLayers);
  // Who asks for "full:0-3" asks for no layers of some stages, too.
  rule.none = rule.layers.least == 0 ||
              range(Field::Recompute)
                  .contains(static_cast<int64_t>(Recompute::None));
  rule.alike = options.alike;
  return rule;
}

void allow(SearchOptions &options, Framework framework,
           const Hardware &hardware) {
  const FrameworkFacts &facts = factsOf(framework);
  options.zero = facts.zero;
  options.zeroUnderPipeline = facts.zeroUnderPipeline;
  options.schedules = facts.schedules;
  options.evenGroups = facts.evenGroups;
  options.expertTensor = facts.expertTensor;
  options.cpKinds = facts.cpKinds;
  options.contextUnderPipeline = facts.contextUnderPipeline;
  options.alike = !facts.recomputesByStage;
  options.copies = facts.copies;
  options.offload =
      hardware.host.known() ? facts.offload : std::vector<int>{};
  options.nodeRanks = hardware.ranksPerNode();
  options.orders = hardware.nodes > 1
                       ? facts.orders
                       : std::vector<MeshOrder>{MeshOrder::PpDp};
}

} // namespace shardwright::cost
