#include "cost_model/rules/Framework.h"

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

Framework frameworkOfProfile(std::string_view profile) {
  for (std::string_view megatron : {"megatron", "nanotron", "internevo"})
    if (profile.substr(0, megatron.size()) == megatron)
      return Framework::MegatronCore;
  return profile.substr(0, 4) == "fsdp" ? Framework::TorchTitan
                                        : Framework::Native;
}

const FrameworkFacts &factsOf(Framework framework) {
  using Kind = ScheduleKind;
  static const FrameworkFacts native = {
      "this compiler", "compiler/Driver/Compile.cpp", {0, 1}, {0, 1},
      {Kind::OneFOneB, Kind::GPipe}, false, true};
  static const FrameworkFacts megatron = {
      "Megatron Core 0.16",
      "megatron/training/arguments.py (use_distributed_optimizer), "
      "megatron/core/pipeline_parallel/schedules.py and "
      "megatron/core/transformer/attention.py (num_query_groups < tp since "
      "NVIDIA/Megatron-LM#2565, December 2025)",
      {0, 1}, {0, 1},
      {Kind::OneFOneB, Kind::Interleaved}, false, true};
  static const FrameworkFacts titan = {
      "torchtitan 0.1",
      "torchtitan/parallelisms (FSDP2 with and without reshard_after_forward, "
      "DDP) and torch.distributed.pipelining schedules",
      {0, 2, 3}, {0, 2, 3},
      {Kind::OneFOneB, Kind::GPipe, Kind::Interleaved, Kind::ZbV}, true};
  static const FrameworkFacts deepspeed = {
      "DeepSpeed 0.16",
      "deepspeed/runtime/pipe/engine.py: \"ZeRO-2 and ZeRO-3 are incompatible "
      "with pipeline parallelism\"; schedule.py (TrainSchedule)",
      {0, 1, 2, 3}, {0, 1},
      {Kind::OneFOneB}};
  switch (framework) {
  case Framework::Native: return native;
  case Framework::MegatronCore: return megatron;
  case Framework::TorchTitan: return titan;
  case Framework::DeepSpeed: return deepspeed;
  }
  return native;
}

} // namespace shardwright::cost
