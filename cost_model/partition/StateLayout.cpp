#include "cost_model/partition/StateLayout.h"

#include "cost_model/program/ModelParts.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {

namespace {

Cut cutOf(const Plan &plan, int64_t size, const Axes &axes, Segment segment) {
  if (axes.empty())
    return {size, 1, ""};
  return {size, degree(plan, axes),
          axisName(plan, axes, segment == Segment::Experts)};
}

/// The tensor, which lies in `block` as parameter `index`.
TensorLayout tensorIn(const Plan &plan, const Parameter &parameter,
                      const ParameterBlock &block, int index) {
  TensorLayout tensor{parameter.hfName, parameter.segment, {}, {}, 0, false};
  const Encoding encoding = parameterEncoding(plan, parameter);
  for (size_t i = 0; i < parameter.dims.size(); ++i) {
    const auto [size, role] = parameter.dims[i];
    tensor.dims.push_back({role, cutOf(plan, plannedSize(plan, role, size),
                                       encoding.dims[i], parameter.segment)});
  }
  for (const Bucket &bucket : block.buckets)
    for (size_t i = 0; i < bucket.parameters.size(); ++i)
      if (bucket.parameters[i] == index) {
        tensor.bucket =
            cutOf(plan, bucket.elements, bucket.shardAxes, parameter.segment);
        tensor.offset = bucket.offsets[i];
      }
  tensor.flat = plan.zero >= 3 && tensor.bucket.ranks > 1;
  return tensor;
}

/// The same of a tensor that several kinds use.
TensorLayout sharedTensor(const Program &program, const Plan &plan,
                          const Parameter &parameter) {
  const std::vector<SharedParameter> shared = sharedParameters(program);
  const auto found = std::find_if(
      shared.begin(), shared.end(),
      [&](const SharedParameter &one) { return one.name == parameter.shared; });
  assert(found != shared.end() && "the program lists what its kinds share");
  const int64_t owner = ownerStages(program, plan, parameter.shared).front();
  return tensorIn(plan, parameter, sharedBlock(plan, program, owner),
                  static_cast<int>(found - shared.begin()));
}

/// Layers of `kind` on each rank of the pipeline.
std::vector<std::vector<int64_t>>
layersOfStages(const Program &program, const Plan &plan, const Kind &kind) {
  std::vector<std::vector<int64_t>> ofEntries;
  int64_t next = 0;
  for (const Stage &stage : plan.stages) {
    std::vector<int64_t> &own = ofEntries.emplace_back();
    for (const StageRun &run : stage.runs) {
      const bool counts = isLayer(
          program.kinds[static_cast<size_t>(kindIndex(program, run.kind))]);
      for (int64_t i = 0; i < run.count; ++i)
        if (run.kind == kind.name)
          own.push_back(counts ? next + i : i);
      next += counts ? run.count : 0;
    }
  }
  std::vector<std::vector<int64_t>> ofRanks;
  for (int64_t rank = 0; rank < plan.pp; ++rank) {
    std::vector<int64_t> &own = ofRanks.emplace_back();
    for (int64_t entry : stagesOfRank(plan, rank)) {
      const std::vector<int64_t> &more = ofEntries[static_cast<size_t>(entry)];
      own.insert(own.end(), more.begin(), more.end());
    }
    std::sort(own.begin(), own.end());
  }
  return ofRanks;
}

} // namespace

std::vector<KindLayout> stateLayout(const Program &program, const Plan &plan) {
  std::vector<KindLayout> layouts;
  for (const Run &run : runsByKind(program)) {
    const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
    KindLayout &layout = layouts.emplace_back();
    layout.kind = kind.name;
    layout.layers = run.count;
    layout.layersOfStages = layersOfStages(program, plan, kind);
    const ParameterBlock block = parameterBlock(plan, kind);
    for (size_t i = 0; i < kind.parameters.size(); ++i) {
      const Parameter &parameter = kind.parameters[i];
      layout.tensors.push_back(
          parameter.shared.empty()
              ? tensorIn(plan, parameter, block, static_cast<int>(i))
              : sharedTensor(program, plan, parameter));
    }
  }
  return layouts;
}

} // namespace shardwright::cost
