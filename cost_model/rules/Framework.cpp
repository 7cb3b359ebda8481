#include "cost_model/rules/Framework.h"

#include <algorithm>

namespace shardwright::cost {

std::string_view name(Framework framework) {
  switch (framework) {
  case Framework::Native: return "native";
  case Framework::MegatronCore: return "megatron-core";
  case Framework::TorchTitan: return "torchtitan";
  case Framework::DeepSpeed: return "deepspeed";
  }
  return "";
}

bool parseFramework(std::string_view text, Framework &framework) {
  for (Framework other : frameworks)
    if (text == name(other)) {
      framework = other;
      return true;
    }
  return false;
}

std::string frameworkNames() {
  std::string names;
  for (size_t i = 0; i < std::size(frameworks); ++i) {
    if (i > 0)
      names += i + 1 < std::size(frameworks) ? ", " : " or ";
    names += name(frameworks[i]);
  }
  return names;
}

const FrameworkFacts &factsOf(Framework framework) {
  using Kind = ScheduleKind;
  // Context parallelism is planned and priced, not compiled yet.
  static const FrameworkFacts native = {
      "this compiler",
      "compiler/Driver/Compile.cpp",
      {0, 1},
      {0, 1},
      {Kind::OneFOneB, Kind::GPipe},
      false,
      true,
      {CpKind::P2P, CpKind::AllGather, CpKind::AllToAll},
      true,
      {},
      {},
      {MeshOrder::PpDp},
      {DType::F32},
      {Narrow::None},
      true,
      HostActivations::Never,
      ExpertTensor::Any,
      true};
  static const FrameworkFacts megatron = {
      "Megatron Core 0.20 (d98e8a6)",
      "megatron/training/arguments.py: use_distributed_optimizer, "
      "data_parallel_sharding_strategy, num_distributed_optimizer_instances, "
      "optimizer_cpu_offload, grad_reduce_in_bf16; initialize.py: order "
      "tp-cp-ep-dp-pp or tp-cp-ep-pp-dp; core/transformer/"
      "transformer_config.py: cp_comm_type, fp8, fp4; "
      "core/transformer/attention.py: num_query_groups < tp since "
      "NVIDIA/Megatron-LM#2565; core/pipeline_parallel/schedules.py: "
      "microbatch_group_size_per_vp_stage",
      {0, 1, 2, 3},
      {0, 1},
      {Kind::OneFOneB, Kind::Interleaved},
      false,
      true,
      {CpKind::P2P, CpKind::AllGather, CpKind::AllToAll},
      true,
      {1},
      {1},
      {MeshOrder::PpDp, MeshOrder::DpPp},
      {DType::F32, DType::BF16},
      {Narrow::None, Narrow::Fp8, Narrow::Mxfp8, Narrow::Fp8Block,
       Narrow::Fp4Block},
      // 8 bytes an element leave the device: 15.3 GB of 1.9e9 elements
      // (NVIDIA-NeMo/Megatron-Bridge b00deab, cpu-offloading/card.yaml).
      false,
      // core/transformer/transformer_config.py: cpu_offloading.
      HostActivations::WithoutPipeline,
      ExpertTensor::Any,
      false,
      true,
      false,
      // core/transformer/attention.py, get_query_key_value_tensors:
      // all_gather_last_dim_from_tensor_parallel_region.
      true};
  // Its offload moves parameters and gradients, too; that is not priced.
  static const FrameworkFacts titan = {
      "torchtitan 0.2.2",
      "torchtitan/config/job_config.py: data_parallel_replicate_degree, "
      "fsdp_reshard_after_forward, context_parallel_rotate_method (alltoall "
      "passes shards on round a ring), mixed_precision_reduce; distributed/"
      "parallel_dims.py: mesh pp, dp_replicate, dp_shard, cp, tp, etp; "
      "distributed/pipeline_parallel.py; components/quantization; "
      "models/llama4/infra/parallelize.py: apply_moe_ep_tp; "
      "torch/distributed/pipelining/schedules.py: ScheduleInterleaved1F1B; "
      "pipelining/stage.py, backward_maybe_with_nosync: under a pipeline FSDP "
      "keeps gathered parameters, and gradients whole, to the last microbatch",
      {0, 2, 3},
      {0, 1},
      {Kind::OneFOneB, Kind::GPipe, Kind::Interleaved, Kind::ZbV,
       Kind::DualPipeV},
      true,
      false,
      {CpKind::AllGather, CpKind::P2P},
      true,
      {1, 2, 3},
      {},
      {MeshOrder::PpDp},
      {DType::F32},
      {Narrow::None, Narrow::Fp8, Narrow::Fp8Block},
      true,
      HostActivations::Never,
      // Without a mesh of experts, that of tp splits them.
      ExpertTensor::TensorUnlessExperts,
      false,
      false, // shards of a DTensor may differ
      true};
  static const FrameworkFacts deepspeed = {
      "DeepSpeed 0.19.6 (edaa722)",
      "deepspeed/runtime/pipe/engine.py: \"ZeRO-2 and ZeRO-3 are incompatible "
      "with pipeline parallelism\"; pipe/schedule.py (TrainSchedule); "
      "pipe/topology.py: axes pipe, data, model, none of a sequence; "
      "zero/config.py: offload_optimizer, mics_shard_size; "
      "activation_checkpointing/config.py: cpu_checkpointing; config.py: "
      "communication_data_type, grad_accum_dtype; "
      "sequence_parallel/ulysses_sp.py; moe/layer.py: "
      "enable_expert_tensor_parallelism",
      {0, 1, 2, 3},
      {0, 1},
      {Kind::OneFOneB},
      false,
      false,
      {CpKind::AllToAll},
      false,
      {3},
      {1, 2, 3},
      {MeshOrder::PpDp},
      {DType::F32, DType::BF16},
      {Narrow::None},
      true,
      HostActivations::Checkpoints,
      ExpertTensor::OneOrTensor,
      false,
      false}; // the model's table as it is
  switch (framework) {
  case Framework::Native: return native;
  case Framework::MegatronCore: return megatron;
  case Framework::TorchTitan: return titan;
  case Framework::DeepSpeed: return deepspeed;
  }
  return native;
}

int zeroAsRun(Framework framework, int zero, int64_t pp) {
  const std::vector<int> &stages = factsOf(framework).zeroUnderPipeline;
  while (pp > 1 && zero > 0 &&
         std::find(stages.begin(), stages.end(), zero) == stages.end())
    --zero;
  return zero;
}

bool splitsExperts(ExpertTensor how, int64_t tp, int64_t ep, int64_t etp) {
  switch (how) {
  case ExpertTensor::Any: return true;
  case ExpertTensor::OneOrTensor: return etp == 1 || etp == tp;
  case ExpertTensor::TensorUnlessExperts:
    return etp == tp || (etp == 1 && ep > 1);
  }
  return true;
}

} // namespace shardwright::cost
