#include "cost_model/launch/ArgumentTable.h"

#include <algorithm>

namespace shardwright::cost {

std::vector<StageLayers> stageLayers(const Program &program, const Plan &plan) {
  std::vector<StageLayers> result;
  for (const Stage &stage : plan.stages) {
    StageLayers layers;
    for (const StageRun &run : stage.runs) {
      const int kind = kindIndex(program, run.kind);
      if (kind < 0 || !isLayer(program.kinds[static_cast<size_t>(kind)]))
        continue;
      const bool full = run.recompute == Recompute::Full;
      if (full && layers.layers > layers.full)
        layers.fullFirst = false;
      layers.layers += run.count;
      layers.full += full ? run.count : 0;
      layers.selective +=
          run.recompute == Recompute::Selective ? run.count : 0;
    }
    result.push_back(layers);
  }
  return result;
}

StageLayers allLayers(const std::vector<StageLayers> &stages) {
  StageLayers all;
  for (const StageLayers &stage : stages) {
    all.layers += stage.layers;
    all.full += stage.full;
    all.selective += stage.selective;
    all.fullFirst = all.fullFirst && stage.fullFirst;
  }
  return all;
}

bool stagesEven(const std::vector<StageLayers> &stages) {
  return std::all_of(stages.begin(), stages.end(),
                     [&](const StageLayers &stage) {
                       return stage.layers == stages.front().layers;
                     });
}

bool allFull(const StageLayers &all) {
  return all.layers > 0 && all.full == all.layers;
}

int64_t mostFull(const std::vector<StageLayers> &stages) {
  int64_t most = 0;
  for (const StageLayers &stage : stages)
    most = std::max(most, stage.full);
  return most;
}

std::vector<LaunchArgument> torchrunArguments(const LaunchQuestion &question) {
  const int64_t ranks = question.plan.ranks(),
                each = std::min(ranks, question.gpusPerNode),
                nodes = ranks / each;
  std::vector<LaunchArgument> result = {{"--nnodes", std::to_string(nodes)},
                                  {"--nproc-per-node", std::to_string(each)}};
  if (nodes > 1) {
    result.push_back({"--node-rank", "$NODE_RANK"});
    result.push_back({"--master-addr", "$MASTER_ADDR"});
    result.push_back({"--master-port", "$MASTER_PORT"});
  }
  return result;
}

std::vector<std::string> unsaid(Framework framework, const Program &program,
                                const Plan &plan) {
  std::vector<std::string> result;
  const DTypes &types = plan.dtypes;
  const std::string whose = " of " + std::string(name(framework));
  const auto want = [&](bool holds, const std::string &key,
                        const std::string &what, std::string_view found) {
    if (!holds)
      result.push_back("#/" + key + ": expected " + what + whose +
                       ", but got " + std::string(found));
  };
  const bool f16 = framework != Framework::TorchTitan; // has bf16 alone
  want(types.compute == DType::F32 || types.compute == DType::BF16 ||
           (f16 && types.compute == DType::F16),
       "dtypes/compute", f16 ? "one of f32, bf16, f16" : "one of f32, bf16",
       name(types.compute));
  want(types.param == types.compute, "dtypes/param", "the type of compute",
       name(types.param));
  want(types.master == DType::F32, "dtypes/master", "f32", name(types.master));
  want(types.grad == DType::F32 ||
           (types.grad == DType::BF16 && types.compute == DType::BF16),
       "dtypes/grad", "f32, or bf16 as that of compute", name(types.grad));
  const StageLayers all = allLayers(stageLayers(program, plan));
  want(all.selective == 0 || all.selective == all.layers,
       "stages", "all layers to recompute selectively, or none,",
       std::to_string(all.selective) + " of " + std::to_string(all.layers));
  switch (framework) {
  case Framework::Native: break;
  case Framework::MegatronCore: megatronUnsaid(program, plan, result); break;
  case Framework::TorchTitan: titanUnsaid(program, plan, result); break;
  case Framework::DeepSpeed: deepSpeedUnsaid(program, plan, result); break;
  }
  return result;
}

Launch launch(Framework framework, const LaunchQuestion &question) {
  switch (framework) {
  case Framework::Native: break;
  case Framework::MegatronCore: return megatronLaunch(question);
  case Framework::TorchTitan: return titanLaunch(question);
  case Framework::DeepSpeed: return deepSpeedLaunch(question);
  }
  return {};
}

} // namespace shardwright::cost
