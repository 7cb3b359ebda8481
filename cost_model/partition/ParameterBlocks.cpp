//===- ParameterBlocks.cpp - What ranks hold of parameters, in buckets ----===//
#include "cost_model/partition/LayerTable.h"
#include "cost_model/partition/Layout.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {

namespace {

/// Elements of this rank's part of a parameter.
int64_t localElements(const Plan &plan, const Parameter &parameter) {
  int64_t elements = 1;
  for (const Dim &dim : parameter.dims) {
    int64_t size = plannedSize(plan, dim.role, dim.size);
    int64_t shards = degree(plan, axesOf(plan, parameter.segment, dim.role));
    assert(size % shards == 0 && "a legal plan divides every dim evenly");
    elements = checkedMul(elements, size / shards);
  }
  return elements;
}

/// A parameter that a block has to hold.
struct Member {
  bool expert;
  Axes dataAxes, shardAxes, extraReduceAxes;
  bool decay;
  int index;
  int64_t elements;
};

Member memberOf(const Plan &plan, const Parameter &parameter,
                Axes extraReduceAxes, int index) {
  return {parameter.segment == Segment::Experts,
          dataAxes(plan, parameter.segment),
          plan.zero >= 1 ? shardAxes(plan, parameter.segment)
                         : Axes{},
          std::move(extraReduceAxes),
          parameter.decay,
          index,
          localElements(plan, parameter)};
}

ParameterBlock makeBlock(const Plan &plan, std::vector<Member> members) {
  std::stable_sort(members.begin(), members.end(),
                   [](const Member &a, const Member &b) {
                     if (a.expert != b.expert)
                       return b.expert;
                     if (a.extraReduceAxes != b.extraReduceAxes)
                       return a.extraReduceAxes < b.extraReduceAxes;
                     return a.decay && !b.decay;
                   });
  ParameterBlock block;
  for (const Member &member : members) {
    if (block.buckets.empty() ||
        block.buckets.back().dataAxes != member.dataAxes ||
        block.buckets.back().extraReduceAxes != member.extraReduceAxes ||
        block.buckets.back().decay != member.decay) {
      Bucket &bucket = block.buckets.emplace_back();
      bucket.dataAxes = member.dataAxes;
      bucket.extraReduceAxes = member.extraReduceAxes;
      bucket.decay = member.decay;
      bucket.shardAxes = member.shardAxes;
      bucket.shards = degree(plan, bucket.shardAxes);
    }
    Bucket &bucket = block.buckets.back();
    bucket.parameters.push_back(member.index);
    bucket.offsets.push_back(bucket.elements);
    bucket.elements = checkedAdd(bucket.elements, member.elements);
  }
  for (Bucket &bucket : block.buckets) {
    bucket.elements = roundUp(bucket.elements, checkedMul(bucket.shards, 128));
    bucket.offset = block.elements;
    block.elements = checkedAdd(block.elements, bucket.elements);
    block.stateElements =
        checkedAdd(block.stateElements, bucket.elements / bucket.shards);
  }
  return block;
}

} // namespace

std::vector<Axes>
extraReduceAxesOf(const Plan &plan, const Kind &kind,
                  const KindVariant &variant, const PlannedVariant &planned) {
  std::vector<Axes> axes(kind.parameters.size());
  const Function &function = variant.weightGrad;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const Result &result = function.results[i];
    if (result.kind != ResultKind::ParameterGrad)
      continue;
    axes[result.index] = planned.weightGrad.results[i].partialAxes;
    for (Axis data :
         dataAxes(plan, kind.parameters[result.index].segment))
      axes[result.index].erase(data);
  }
  return axes;
}

ParameterBlock blockOf(const Plan &plan, const Kind &kind,
                       const std::vector<Axes> &extraAxes) {
  std::vector<Member> members;
  for (size_t i = 0; i < kind.parameters.size(); ++i) {
    const Parameter &parameter = kind.parameters[i];
    if (parameter.shared.empty())
      members.push_back(
          memberOf(plan, parameter, extraAxes[i], static_cast<int>(i)));
  }
  return makeBlock(plan, std::move(members));
}

int64_t zeroDegree(const Plan &plan) {
  return plan.zero == 0 ? 1 : checkedMul(zeroDataRanks(plan), plan.cp);
}

std::vector<SharedParameter> sharedParameters(const Program &program) {
  std::vector<SharedParameter> shared;
  for (size_t kind = 0; kind < program.kinds.size(); ++kind) {
    const std::vector<Parameter> &parameters = program.kinds[kind].parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string &name = parameters[i].shared;
      if (!name.empty() &&
          std::none_of(
              shared.begin(), shared.end(),
              [&](const SharedParameter &s) { return s.name == name; }))
        shared.push_back(
            {name, static_cast<int>(kind), static_cast<int>(i)});
    }
  }
  return shared;
}

std::vector<int64_t> ownerStages(const Program &program, const Plan &plan,
                                 std::string_view name) {
  std::vector<int64_t> owners;
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    bool owns = false;
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      int kind = kindIndex(program, run.kind);
      assert(kind >= 0 && "a legal plan runs kinds of its program");
      for (const Parameter &parameter : program.kinds[kind].parameters)
        owns = owns || parameter.shared == name;
    });
    if (owns)
      owners.push_back(stage);
  }
  return owners;
}

ParameterBlock parameterBlock(const Plan &plan, const Kind &kind) {
  const KindVariant &variant = kind.variants.front();
  return blockOf(plan, kind,
                 extraReduceAxesOf(plan, kind, variant,
                                   plannedVariant(plan, kind, variant)));
}

ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           const LayerTable &table, int64_t stage) {
  std::vector<Member> members;
  const std::vector<SharedParameter> shared = sharedParameters(program);
  for (size_t i = 0; i < shared.size(); ++i) {
    const StageRun *user = nullptr;
    int parameterIndex = -1;
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      const Kind &kind = program.kinds[kindIndex(program, run.kind)];
      for (size_t p = 0; p < kind.parameters.size() && !user; ++p)
        if (kind.parameters[p].shared == shared[i].name) {
          user = &run;
          parameterIndex = static_cast<int>(p);
        }
    });
    if (!user)
      continue;
    const Parameter &parameter =
        program.kinds[kindIndex(program, user->kind)]
            .parameters[parameterIndex];
    members.push_back(
        memberOf(plan, parameter,
                 table.of(*user).extraReduceAxes[parameterIndex],
                 static_cast<int>(i)));
  }
  return makeBlock(plan, std::move(members));
}

ParameterBlock sharedBlock(const Plan &plan, const Program &program,
                           int64_t stage) {
  if (sharedParameters(program).empty())
    return {};
  return sharedBlock(plan, program, LayerTable(program, plan, stage), stage);
}

} // namespace shardwright::cost
