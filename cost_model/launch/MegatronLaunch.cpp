//===- MegatronLaunch.cpp - Arguments of Megatron-LM ----------------------===//
//
// Read beside NVIDIA/Megatron-LM d98e8a6 (Megatron Core 0.20):
// megatron/training/arguments.py, and the dataclasses that it makes arguments
// of: core/transformer/transformer_config.py, core/model_parallel_config.py,
// training/config/{common,training}_config.py.
//
//===----------------------------------------------------------------------===//
#include "cost_model/base/Format.h"
#include "cost_model/launch/ArgumentTable.h"
#include "cost_model/partition/Assignment.h"
#include "cost_model/rules/Rules.h"

#include <algorithm>

namespace shardwright::cost {

namespace {

using Question = LaunchQuestion;

/// Layers of the stages between the first and the last, if those have as many
/// each; of two stages those of the last. 0: arguments for the ends do not do.
int64_t layersBetween(const std::vector<StageLayers> &stages) {
  if (stages.size() < 3)
    return stages.back().layers;
  const int64_t layers = stages[1].layers;
  const bool alike = std::all_of(stages.begin() + 1, stages.end() - 1,
                                 [&](const StageLayers &stage) {
                                   return stage.layers == layers;
                                 });
  return alike ? layers : 0;
}

/// Whether --decoder-{first,last}-pipeline-num-layers say how layers lie: they
/// count layers of a rank, so chunks are a layout's.
bool endsSay(const Question &question,
             const std::vector<StageLayers> &stages) {
  return question.plan.pp > 1 && question.plan.chunks == 1 &&
         !stagesEven(stages) && layersBetween(stages) > 0;
}

Said firstLayers(const Question &question) {
  const auto stages = stageLayers(question.program, question.plan);
  return numberIf(endsSay(question, stages) &&
                      stages.front().layers != layersBetween(stages),
                  stages.front().layers);
}

Said lastLayers(const Question &question) {
  const auto stages = stageLayers(question.program, question.plan);
  return numberIf(endsSay(question, stages) &&
                      stages.back().layers != layersBetween(stages),
                  stages.back().layers);
}

bool needsLayout(const Question &question) {
  const auto stages = stageLayers(question.program, question.plan);
  return question.plan.pp > 1 && !stagesEven(stages) &&
         !endsSay(question, stages);
}

/// "Et*3|t*4|t*4|t*3L": stages in the order in which a microbatch passes them
/// (core/transformer/pipeline_parallel_layer_layout.py).
Said layout(const Question &question) {
  if (!needsLayout(question))
    return std::nullopt;
  const auto stages = stageLayers(question.program, question.plan);
  std::string result = "E";
  for (size_t i = 0; i < stages.size(); ++i) {
    result += i > 0 ? "|" : "";
    if (stages[i].layers > 0)
      result += stages[i].layers == 1
                    ? "t"
                    : "t*" + std::to_string(stages[i].layers);
  }
  return result + "L";
}

bool isSelective(const Question &question) {
  return allLayers(stageLayers(question.program, question.plan)).selective > 0;
}
int64_t fullLayers(const Question &question) {
  return mostFull(stageLayers(question.program, question.plan));
}
bool isUniform(const Question &question) {
  return allFull(allLayers(stageLayers(question.program, question.plan)));
}

bool shardsGradients(const Question &question) {
  return question.plan.zero >= 2; // by Megatron FSDP
}

Said narrowFormat(const Question &question) {
  switch (question.plan.dtypes.products) {
  case Narrow::None:
  case Narrow::Fp4Block: return std::nullopt;
  case Narrow::Fp8: return "hybrid";
  case Narrow::Mxfp8:
  case Narrow::Fp8Block: return "e4m3";
  }
  return std::nullopt;
}
Said narrowRecipe(const Question &question) {
  switch (question.plan.dtypes.products) {
  case Narrow::None:
  case Narrow::Fp4Block: return std::nullopt;
  case Narrow::Fp8: return "tensorwise";
  case Narrow::Mxfp8: return "mxfp8";
  case Narrow::Fp8Block: return "blockwise";
  }
  return std::nullopt;
}

Said mainGradients(const Question &question) {
  return textIf(shardsGradients(question),
                question.plan.dtypes.grad == DType::BF16 ? "bf16" : "fp32");
}

/// A profile whose loss holds nothing beside its 16-bit logits.
bool fusesLoss(const Question &question) {
  return question.profile.loss.saved == 0;
}

/// p2p of interleaved chunks overlaps unless it is switched off, and has to
/// with two stages; without chunks it never does.
bool switchesTransfersOff(const Question &question) {
  return question.plan.chunks > 1 && !question.profile.overlapTransfers;
}

const ArgumentRow rows[] = {
    {"--tensor-model-parallel-size",
     [](const Question &q) { return number(q.plan.tp); }},
    {"--sequence-parallel", [](const Question &q) { return on(q.plan.sp); }},
    {"--pipeline-model-parallel-size",
     [](const Question &q) { return number(q.plan.pp); }},
    {"--num-virtual-stages-per-pipeline-rank",
     [](const Question &q) {
       return numberIf(q.plan.chunks > 1 && !needsLayout(q), q.plan.chunks);
     }},
    {"--microbatch-group-size-per-virtual-pipeline-stage",
     [](const Question &q) {
       return numberIf(q.plan.chunks > 1, groupOf(q.plan));
     }},
    {"--decoder-first-pipeline-num-layers", firstLayers},
    {"--decoder-last-pipeline-num-layers", lastLayers},
    {"--pipeline-model-parallel-layout", layout},
    {"--context-parallel-size",
     [](const Question &q) { return number(q.plan.cp); }},
    {"--cp-comm-type",
     [](const Question &q) {
       return textIf(q.plan.cp > 1, name(q.plan.cpKind));
     }},
    {"--expert-model-parallel-size",
     [](const Question &q) { return numberIf(hasExperts(q), q.plan.ep); }},
    // Its default is tp.
    {"--expert-tensor-parallel-size",
     [](const Question &q) { return numberIf(hasExperts(q), q.plan.etp); }},
    {"--moe-grouped-gemm", [](const Question &q) { return on(hasExperts(q)); }},
    // As rows are priced to be exchanged; its default gathers all of them.
    {"--moe-token-dispatcher-type",
     [](const Question &q) { return textIf(hasExperts(q), "alltoall"); }},
    // As priced: one kernel orders the rows.
    {"--moe-permute-fusion",
     [](const Question &q) { return on(hasExperts(q)); }},
    {"--use-tp-pp-dp-mapping",
     [](const Question &q) { return on(q.plan.order == MeshOrder::DpPp); }},

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
    {"--grad-reduce-in-bf16",
     [](const Question &q) { return on(q.plan.dtypes.grad == DType::BF16); }},
    {"--accumulate-allreduce-grads-in-fp32",
     [](const Question &q) {
       return on(q.plan.dtypes.compute != DType::F32 &&
                 q.plan.dtypes.grad == DType::F32);
     }},
    {"--fp8-format", narrowFormat},
    {"--fp8-recipe", narrowRecipe},
    {"--fp4-format",
     [](const Question &q) {
       return textIf(q.plan.dtypes.products == Narrow::Fp4Block, "e2m1");
     }},
    {"--fp4-recipe",
     [](const Question &q) {
       return textIf(q.plan.dtypes.products == Narrow::Fp4Block, "nvfp4");
     }},

    {"--recompute-granularity",
     [](const Question &q) {
       return textIf(isSelective(q) || fullLayers(q) > 0,
                     isSelective(q) ? "selective" : "full");
     }},
    {"--recompute-modules",
     [](const Question &q) { return textIf(isSelective(q), "core_attn"); }},
    {"--recompute-method",
     [](const Question &q) {
       return textIf(fullLayers(q) > 0, isUniform(q) ? "uniform" : "block");
     }},
    // Of uniform: layers of a unit; of block: of every chunk.
    {"--recompute-num-layers",
     [](const Question &q) {
       return numberIf(fullLayers(q) > 0, isUniform(q) ? 1 : fullLayers(q));
     }},
    {"--cpu-offloading-num-layers",
     [](const Question &q) {
       return numberIf(q.plan.offloadActivations, q.program.layers - 1);
     }},

    {"--use-distributed-optimizer",
     [](const Question &q) { return on(q.plan.zero >= 1); }},
    {"--num-distributed-optimizer-instances",
     [](const Question &q) {
       return numberIf(q.plan.zeroRanks > 0, q.plan.dp / zeroDataRanks(q.plan));
     }},
    {"--use-megatron-fsdp",
     [](const Question &q) { return on(shardsGradients(q)); }},
    {"--data-parallel-sharding-strategy",
     [](const Question &q) {
       return textIf(shardsGradients(q), q.plan.zero == 2
                                             ? "optim_grads"
                                             : "optim_grads_params");
     }},
    {"--ckpt-format",
     [](const Question &q) {
       return textIf(shardsGradients(q), "fsdp_dtensor");
     }},
    {"--megatron-fsdp-main-grads-dtype", mainGradients},
    {"--megatron-fsdp-grad-comm-dtype", mainGradients},
    {"--optimizer-cpu-offload",
     [](const Question &q) { return on(q.plan.offloadOptimizer); }},
    {"--optimizer-offload-fraction",
     [](const Question &q) { return textIf(q.plan.offloadOptimizer, "1.0"); }},
    {"--use-precision-aware-optimizer",
     [](const Question &q) { return on(q.plan.offloadOptimizer); }},

    {"--overlap-grad-reduce",
     [](const Question &q) { return on(q.profile.overlapGradientReduce); }},
    {"--overlap-param-gather",
     [](const Question &q) {
       return on(q.plan.zero >= 1 && q.profile.overlapGradientReduce &&
                 q.profile.overlapParameterGather);
     }},
    {"--tp-comm-overlap",
     [](const Question &q) {
       // Its buffers are mapped within a domain of NVLink.
       return on(q.plan.sp && q.profile.overlapForwardTensor &&
                 q.gpusPerNode % q.plan.tp == 0);
     }},
    {"--no-overlap-p2p-communication",
     [](const Question &q) {
       return on(switchesTransfersOff(q) && q.plan.pp > 2);
     }},

    {"--cross-entropy-loss-fusion",
     [](const Question &q) { return on(fusesLoss(q)); }},
    {"--make-vocab-size-divisible-by",
     [](const Question &) { return number(128); }},
};

} // namespace

Bytes megatronLossCopies(const Program &program, const Plan &plan,
                         const Profile &profile) {
  // core/tensor_parallel/cross_entropy.py, calculate_logits_max. Kernels of
  // Transformer Engine that hold none are refused by validate_args.
  constexpr double copies = 6; // of 10 an element at the peak, 4 are priced
  const double logits =
      static_cast<double>(plan.sequence / plan.cp) *
      static_cast<double>(plan.microBatch) *
      static_cast<double>(paddedVocab(program.vocab, plan.tp) / plan.tp);
  return Bytes(static_cast<int64_t>(
      std::max(0.0, copies - profile.loss.saved) * logits));
}

void megatronUnsaid(const Program &program, const Plan &plan,
                    std::vector<std::string> &unsaid) {
  const std::vector<StageLayers> stages = stageLayers(program, plan);
  const StageLayers all = allLayers(stages);
  if (!all.fullFirst && !allFull(all))
    unsaid.push_back("#/stages: expected the layers that recompute in full to "
                     "be the first of their stage under megatron-core, but got "
                     "others");
  if (plan.offloadActivations && all.layers < 2)
    unsaid.push_back(
        "#/parallel/offload: expected two layers or more with "
        "activations on the host of megatron-core, which keeps one "
        "on the device, but got " +
        std::to_string(all.layers));
}

Launch megatronLaunch(const LaunchQuestion &question) {
  const Plan &plan = question.plan;
  Launch result;
  // validate_args demands it before Blackwell, and that Megatron FSDP has it
  // not.
  if ((plan.tp > 1 || plan.cp > 1) && !shardsGradients(question))
    result.environment.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1"});
  result.torchrun = torchrunArguments(question);
  result.program = {{"pretrain_gpt.py", ""}};
  result.arguments = arguments(rows, question);
  if (const Bytes copies =
          megatronLossCopies(question.program, plan, question.profile);
      copies > Bytes(0))
    result.notes.push_back(
        "the loss of pretrain_gpt.py holds logits in f32, which the profile " +
        question.profile.name + " does not price: up to " + bytesText(copies) +
        " more on the last stage");
  if (shardsGradients(question))
    result.notes.push_back("Megatron FSDP wants CUDA_DEVICE_MAX_CONNECTIONS "
                           "unset, or larger than 1");
  if (plan.dtypes.products == Narrow::Fp8)
    result.notes.push_back(
        "one factor a tensor is written as --fp8-recipe tensorwise, which "
        "takes "
        "it of the tensor at hand; delayed takes it of earlier steps");
  if (switchesTransfersOff(question) && plan.pp == 2)
    result.notes.push_back("Megatron-LM cannot switch the overlap of transfers "
                           "between two stages of interleaved chunks off");
  if (plan.sp && question.profile.overlapForwardTensor &&
      question.gpusPerNode % plan.tp == 0)
    result.notes.push_back("--tp-comm-overlap wants the tensor ranks in one "
                           "NVLink domain; without "
                           "it plan with --profile megatron-core-no-overlap");
  return result;
}

} // namespace shardwright::cost
