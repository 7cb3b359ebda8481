#include "passes/Schedule/ParameterAddresses.h"

#include "cost_model/partition/Layout.h"

using namespace mlir;

namespace shardwright {

static void addBlock(const cost::ParameterBlock &block,
                     std::map<int, int64_t> &offsets) {
  for (const cost::Bucket &bucket : block.buckets)
    for (size_t i = 0; i < bucket.parameters.size(); ++i)
      offsets[bucket.parameters[i]] = bucket.offset + bucket.offsets[i];
}

ParameterAddresses::ParameterAddresses(const PlannedModule &planned)
    : planned(planned) {
  const cost::Program &program = planned.program;
  for (const auto &[key, variant] : planned.variants)
    if (auto [it, isNew] = unshared.try_emplace(key.first); isNew)
      addBlock(cost::parameterBlock(planned.plan, program.kinds[key.first]),
               it->second);
  std::vector<cost::SharedParameter> list = cost::sharedParameters(program);
  for (int64_t stage = 0; stage < planned.plan.pp && !list.empty(); ++stage) {
    std::map<int, int64_t> offsets;
    addBlock(cost::sharedBlock(planned.plan, program, stage), offsets);
    for (auto [index, offset] : offsets) {
      auto [it, isNew] = shared.try_emplace(list[index].name, offset);
      consistent = consistent && (isNew || it->second == offset);
    }
  }
}

Address ParameterAddresses::of(const cost::Kind &kind, int64_t index,
                               bool gradient) const {
  int64_t width = cost::byteWidth(gradient ? planned.plan.dtypes.grad
                                           : planned.plan.dtypes.param);
  const std::string &name = kind.parameters[index].shared;
  if (!name.empty())
    return {gradient ? rt::Base::SharedGrads : rt::Base::SharedParams,
            shared.at(name) * width};
  int number = cost::kindIndex(planned.program, kind.name);
  return {gradient ? rt::Base::Grads : rt::Base::Params,
          unshared.at(number).at(static_cast<int>(index)) * width};
}

} // namespace shardwright
