//===- DeepSpeedLaunch.cpp - Megatron-DeepSpeed and its JSON --------------===//
//
// Read beside deepspeedai/DeepSpeed edaa722 (0.19.6):
// runtime/{config,constants, engine}.py,
// runtime/zero/{config,offload_config}.py; and deepspeedai/ Megatron-DeepSpeed
// 4efb479: megatron/{arguments,initialize}.py, megatron/core/parallel_state.py,
// megatron/model/{gpt_model,transformer}.py.
//
//===----------------------------------------------------------------------===//
#include "cost_model/launch/ArgumentTable.h"
#include "cost_model/partition/Layout.h"

namespace shardwright::cost {

namespace {

using Question = LaunchQuestion;
using Value = std::optional<SettingValue>;

constexpr const char *configFile = "ds_config.json";

Value count(int64_t value) { return SettingValue(value); }
Value yesIf(bool wanted) {
  return wanted ? Value(SettingValue(true)) : std::nullopt;
}

/// As config.py spells the type that gradients are summed and sent in.
std::string gradientWord(const Plan &plan) {
  return plan.dtypes.grad == DType::BF16 ? "bf16" : "fp32";
}

const SettingRow settingRows[] = {
    {"train_batch_size",
     [](const Question &q) { return count(q.plan.globalBatch); }},
    {"train_micro_batch_size_per_gpu",
     [](const Question &q) { return count(q.plan.microBatch); }},
    {"gradient_accumulation_steps",
     [](const Question &q) { return count(q.plan.microbatches()); }},
    {"zero_optimization.stage",
     [](const Question &q) { return count(q.plan.zero); }},
    {"zero_optimization.mics_shard_size",
     [](const Question &q) {
       return q.plan.zeroRanks > 0 ? count(zeroDegree(q.plan)) : std::nullopt;
     }},
    {"zero_optimization.offload_optimizer.device",
     [](const Question &q) {
       return q.plan.offloadOptimizer
                  ? Value(SettingValue(std::string("cpu")))
                  : std::nullopt;
     }},
    {"zero_optimization.offload_optimizer.pin_memory",
     [](const Question &q) { return yesIf(q.plan.offloadOptimizer); }},
    {"bf16.enabled",
     [](const Question &q) {
       return yesIf(q.plan.dtypes.compute == DType::BF16);
     }},
    {"fp16.enabled",
     [](const Question &q) {
       return yesIf(q.plan.dtypes.compute == DType::F16);
     }},
    {"data_types.grad_accum_dtype",
     [](const Question &q) {
       return Value(SettingValue(gradientWord(q.plan)));
     }},
    {"communication_data_type",
     [](const Question &q) {
       return Value(SettingValue(gradientWord(q.plan)));
     }},
    // Takes the place of the other where sequences are in parts.
    {"seq_parallel_communication_data_type",
     [](const Question &q) {
       return q.plan.cp > 1 ? Value(SettingValue(gradientWord(q.plan)))
                            : std::nullopt;
     }},
};

bool isFlash(const Profile &profile) {
  return std::any_of(profile.attention.begin(), profile.attention.end(),
                     [](AttentionVariant variant) {
                       return variant == AttentionVariant::Flash1 ||
                              variant == AttentionVariant::Flash2 ||
                              variant == AttentionVariant::Flash3;
                     });
}

StageLayers all(const Question &question) {
  return allLayers(stageLayers(question.program, question.plan));
}

const ArgumentRow argumentRows[] = {
    {"--deepspeed", [](const Question &) { return on(true); }},
    {"--deepspeed_config", [](const Question &) { return text(configFile); }},
    {"--zero-stage", [](const Question &q) { return number(q.plan.zero); }},
    {"--tensor-model-parallel-size",
     [](const Question &q) { return number(q.plan.tp); }},
    {"--sequence-parallel", [](const Question &q) { return on(q.plan.sp); }},
    {"--pipeline-model-parallel-size",
     [](const Question &q) { return number(q.plan.pp); }},
    // Its pipeline of one stage refuses ZeRO 2 and 3.
    {"--no-pipeline-parallel",
     [](const Question &q) { return on(q.plan.pp == 1); }},
    {"--ds-sequence-parallel-size",
     [](const Question &q) { return number(q.plan.cp); }},
    {"--moe-expert-parallel-size",
     [](const Question &q) { return numberIf(hasExperts(q), q.plan.ep); }},
    {"--enable-expert-tensor-parallelism",
     [](const Question &q) { return on(hasExperts(q) && q.plan.etp > 1); }},
    // ZeRO wants the parameters of experts in groups of their own (engine.py).
    {"--create-moe-param-group",
     [](const Question &q) { return on(hasExperts(q) && q.plan.zero > 0); }},
    {"--use-flash-attn-v2",
     [](const Question &q) { return on(isFlash(q.profile)); }},
    {"--micro-batch-size",
     [](const Question &q) { return number(q.plan.microBatch); }},
    {"--global-batch-size",
     [](const Question &q) { return number(q.plan.globalBatch); }},
    {"--seq-length", [](const Question &q) { return number(q.plan.sequence); }},
    {"--bf16",
     [](const Question &q) {
       return on(q.plan.dtypes.compute == DType::BF16);
     }},
    {"--fp16",
     [](const Question &q) { return on(q.plan.dtypes.compute == DType::F16); }},
    {"--recompute-granularity",
     [](const Question &q) {
       return textIf(all(q).full + all(q).selective > 0,
                     all(q).full > 0 ? "full" : "selective");
     }},
    {"--recompute-method",
     [](const Question &q) {
       return textIf(all(q).full > 0, allFull(all(q)) ? "uniform" : "block");
     }},
    {"--recompute-num-layers",
     [](const Question &q) {
       return numberIf(all(q).full > 0, allFull(all(q)) ? 1 : all(q).full);
     }},
    {"--deepspeed-activation-checkpointing",
     [](const Question &q) { return on(q.plan.offloadActivations); }},
    {"--checkpoint-in-cpu",
     [](const Question &q) { return on(q.plan.offloadActivations); }},
    {"--cpu-optimizer",
     [](const Question &q) { return on(q.plan.offloadOptimizer); }},
    {"--make-vocab-size-divisible-by",
     [](const Question &) { return number(128); }},
};

} // namespace

void deepSpeedUnsaid(const Program &program, const Plan &plan,
                     std::vector<std::string> &unsaid) {
  const auto want = [&](bool holds, const std::string &key,
                        const std::string &text) {
    if (!holds)
      unsaid.push_back("#/" + key + ": expected " + text);
  };
  const std::vector<StageLayers> stages = stageLayers(program, plan);
  const StageLayers all = allLayers(stages);
  std::string split;
  for (const StageLayers &stage : stages)
    split += (split.empty() ? "" : ", ") + std::to_string(stage.layers);
  want(stagesEven(stages), "stages",
       "as many layers on every stage under deepspeed, which "
       "splits them itself, but got " + split);
  want(all.full == 0 || allFull(all) || (plan.pp == 1 && all.fullFirst),
       "stages",
       plan.pp > 1 ? "all layers to recompute in full, or none, in a pipeline "
                     "of deepspeed, but got " +
                         std::to_string(all.full) + " of " +
                         std::to_string(all.layers)
                   : "the layers that recompute in full to be the first under "
                     "deepspeed, but got others");
  want(plan.zero < 3 || program.experts == 0, "parallel/zero",
       "zero < 3 with experts under deepspeed (engine.py: \"MoE not supported "
       "with Stage 3\"), but got zero = 3");
  want(plan.cp == 1 || plan.tp == 1, "parallel/tp",
       "tp = 1 with cp > 1 under deepspeed, whose sequence parallelism goes "
       "with "
       "no other, but got tp = " +
           std::to_string(plan.tp));
  want(plan.zero > 0 || plan.dtypes.compute == DType::F32 ||
           plan.dtypes.grad == plan.dtypes.compute,
       "parallel/zero",
       "zero > 0, or gradients in the type of compute, under deepspeed "
       "(\"unsupported "
       "mix\" of engine.py), but got zero = 0 and gradients in " +
           std::string(name(plan.dtypes.grad)));
}

Launch deepSpeedLaunch(const LaunchQuestion &question) {
  const Plan &plan = question.plan;
  Launch result;
  if (plan.sp) // arguments.py demands it
    result.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1"});
  result.torchrun = torchrunArguments(question);
  result.program = {{"pretrain_gpt.py", ""}};
  result.arguments = arguments(argumentRows, question);
  result.configFile = configFile;
  result.config = settings(settingRows, question);
  result.notes.push_back(
      "the model's own arguments, data and optimizer are left "
      "to say");
  if (plan.zeroRanks > 0)
    result.notes.push_back(
        "mics_shard_size wants deepspeed.zero.MiCS_Init in place of "
        "deepspeed.zero.Init, which Megatron-DeepSpeed calls");
  return result;
}

} // namespace shardwright::cost
