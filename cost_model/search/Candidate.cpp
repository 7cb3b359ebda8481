#include "cost_model/search/Candidate.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {

std::string_view name(Field field) {
  switch (field) {
  case Field::Dp: return "dp";
  case Field::Tp: return "tp";
  case Field::Pp: return "pp";
  case Field::Ep: return "ep";
  case Field::Etp: return "etp";
  case Field::Sp: return "sp";
  case Field::MicroBatch: return "microbatch";
  case Field::Zero: return "zero";
  case Field::Schedule: return "schedule";
  case Field::Recompute: return "recompute";
  case Field::FullLayers: return "full_layers";
  case Field::FirstLayers: return "first_layers";
  case Field::LastLayers: return "last_layers";
  case Field::Chunks: return "vp";
  case Field::Cp: return "cp";
  case Field::CpKind: return "cp_kind";
  case Field::ZeroRanks: return "zero_ranks";
  case Field::Offload: return "offload";
  case Field::Order: return "order";
  case Field::Group: return "microbatch_group";
  }
  return "";
}

int64_t stageCount(const Candidate &candidate) {
  return stageCount(candidate.schedule, candidate.pp, candidate.chunks);
}

std::vector<int64_t> evenSplit(int64_t layers, int64_t stages) {
  std::vector<int64_t> counts(static_cast<size_t>(stages), layers / stages);
  int64_t rest = layers % stages;
  for (int64_t stage = 1; stage + 1 < stages && rest > 0; ++stage, --rest)
    ++counts[static_cast<size_t>(stage)];
  if (rest > 0)
    ++counts[0];
  return counts;
}

StageStarts::StageStarts(const Candidate &c, int64_t layers)
    : stages(stageCount(c)), layers(layers), first(c.firstLayers),
      last(c.lastLayers) {
  if (stages > 2) {
    each = (layers - first - last) / (stages - 2);
    longer = (layers - first - last) % (stages - 2);
  }
}

std::vector<int64_t> layersPerStage(const Candidate &candidate,
                                    int64_t layers) {
  const int64_t stages = stageCount(candidate);
  if (stages == 1)
    return {layers};
  if (candidate.firstLayers == 0)
    return evenSplit(layers, stages);
  const StageStarts starts(candidate, layers);
  std::vector<int64_t> counts;
  for (int64_t stage = 0; stage < stages; ++stage)
    counts.push_back(starts.count(stage));
  return counts;
}

bool holdsBothEnds(const Candidate &c) {
  return stageAt(c.schedule, c.pp, {0, c.chunks - 1}) == stageCount(c) - 1;
}

std::vector<Split> splits(int64_t layers, int64_t stages, const Ranges &ranges) {
  std::vector<Split> result;
  const Range &firstRange = ranges[static_cast<int>(Field::FirstLayers)];
  const Range &lastRange = ranges[static_cast<int>(Field::LastLayers)];
  if (stages > layers)
    return result;
  auto add = [&](int64_t first, int64_t last) {
    if (!firstRange.contains(first) || !lastRange.contains(last))
      return;
    int64_t largest = std::max(first, last);
    if (stages > 2)
      largest = std::max(largest, ceilDiv(layers - first - last, stages - 2));
    result.push_back({first, last, largest});
  };
  if (stages == 1) {
    add(layers, layers);
    return result;
  }
  const int64_t interior = stages - 2;
  for (int64_t first = 1; first + interior + 1 <= layers; ++first) {
    if (interior == 0) {
      add(first, layers - first);
      continue;
    }
    for (int64_t last = 1; first + interior + last <= layers; ++last)
      add(first, last);
  }
  return result;
}

Candidate withSplit(const Candidate &policy, const Split &split) {
  Candidate candidate = policy;
  candidate.firstLayers = split.first;
  candidate.lastLayers = split.last;
  return candidate;
}

bool FullRule::allows(int64_t n, int64_t count) const {
  if (n == 0)
    return none && layers.contains(0);
  if (n < count)
    return layers.contains(n);
  return layers.contains(-1) || (layers.bounded() && layers.most >= count);
}

int64_t FullRule::floor() const {
  if (none && layers.contains(0))
    return 0;
  if (layers.most < 1)
    return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(1, layers.least);
}

std::vector<Stage> stagesWith(const Program &program,
                              const std::vector<int64_t> &counts,
                              Recompute policy,
                              const std::vector<int64_t> &full) {
  // The stack is embedding, layers of one or several kinds, head.
  const std::vector<Run> &stack = program.stack;
  assert(stack.size() >= 2 && "a stack has an embedding and a head");
  size_t run = 1;          // next run of layers
  int64_t used = 0;        // layers taken of it
  std::vector<Stage> stages(counts.size());
  auto append = [](Stage &stage, const std::string &kind, int64_t count,
                   Recompute recompute) {
    if (count == 0)
      return;
    if (!stage.runs.empty() && stage.runs.back().kind == kind &&
        stage.runs.back().recompute == recompute)
      stage.runs.back().count += count;
    else
      stage.runs.push_back({kind, count, recompute});
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    Stage &stage = stages[i];
    if (i == 0)
      append(stage, program.kinds[stack.front().kind].name,
             stack.front().count, Recompute::None);
    int64_t own = counts[i]; // layers of this stage that take the policy
    if (policy == Recompute::Full && !full.empty())
      own = std::min(own, full[i]);
    int64_t left = counts[i];
    while (left > 0) {
      assert(run + 1 < stack.size() && "counts exceed the layers");
      const std::string &kind = program.kinds[stack[run].kind].name;
      int64_t take = std::min(left, stack[run].count - used);
      int64_t taken = std::min(take, own);
      append(stage, kind, taken, policy);
      append(stage, kind, take - taken, Recompute::None);
      own -= taken;
      left -= take;
      used += take;
      if (used == stack[run].count) {
        ++run;
        used = 0;
      }
    }
    if (i + 1 == counts.size())
      append(stage, program.kinds[stack.back().kind].name, stack.back().count,
             Recompute::None);
  }
  return stages;
}

void setFields(const Program &program, Plan &plan,
               const Candidate &candidate) {
  plan.dp = candidate.dp;
  plan.tp = candidate.tp;
  plan.pp = candidate.pp;
  plan.cp = candidate.cp;
  plan.ep = candidate.ep;
  plan.etp = candidate.etp;
  plan.sp = candidate.sp;
  plan.cpKind = candidate.cpKind;
  plan.order = candidate.order;
  plan.zero = candidate.zero;
  plan.zeroRanks = candidate.zeroRanks;
  plan.offloadOptimizer = candidate.offload;
  if (candidate.products)
    plan.dtypes.products = *candidate.products;
  if (candidate.gradients)
    plan.dtypes.grad = plan.dtypes.reduce = *candidate.gradients;
  plan.microBatch = candidate.microBatch;
  plan.schedule = candidate.schedule;
  plan.chunks = candidate.chunks;
  plan.group = candidate.group;
  plan.kvReplicas = kvReplicasOf(program, plan.tp);
}

void setDegrees(const Program &program, Plan &plan,
                const Candidate &candidate) {
  setFields(program, plan, candidate);
  setMesh(plan);
}

Plan planAt(const Program &program, const Plan &base,
            const Candidate &candidate) {
  Plan plan = base;
  plan.stages = stagesWith(program, layersPerStage(candidate, program.layers),
                           candidate.recompute, candidate.full);
  setDegrees(program, plan, candidate);
  return plan;
}

} // namespace shardwright::cost
