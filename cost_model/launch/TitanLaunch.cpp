//===- TitanLaunch.cpp - Settings of torchtitan ---------------------------===//
//
// Read beside pytorch/torchtitan v0.2.2 (73a0e69), the last that reads TOML:
// torchtitan/config/job_config.py, distributed/{parallel_dims,
// pipeline_parallel,activation_checkpoint}.py, models/llama3/infra/
// parallelize.py, components/quantization/float8.py. Names of schedules are
// torch.distributed.pipelining's (get_schedule_class).
//
//===----------------------------------------------------------------------===//
#include "cost_model/launch/ArgumentTable.h"

namespace shardwright::cost {

namespace {

using Question = LaunchQuestion;
using Value = std::optional<SettingValue>;

Value count(int64_t value) { return SettingValue(value); }
Value countIf(bool wanted, int64_t value) {
  return wanted ? count(value) : std::nullopt;
}
Value word(std::string_view value) { return SettingValue(std::string(value)); }
Value wordIf(bool wanted, std::string_view value) {
  return wanted ? word(value) : std::nullopt;
}
Value words(std::vector<std::string> value) {
  return SettingValue(std::move(value));
}

std::string_view scheduleWord(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::GPipe: return "GPipe";
  case ScheduleKind::OneFOneB: return "1F1B";
  case ScheduleKind::Interleaved: return "Interleaved1F1B";
  case ScheduleKind::ZbV: return "ZBVZeroBubble";
  case ScheduleKind::DualPipeV: return "DualPipeV";
  case ScheduleKind::ZbH1:
  case ScheduleKind::Zb2p:
  case ScheduleKind::DualPipe: break; // refused by schedule_of_framework
  }
  return "";
}

/// Names of the modules of every stage, in the order in which a microbatch
/// passes them.
std::vector<std::vector<std::string>> modules(const Question &question) {
  std::vector<std::vector<std::string>> result;
  int64_t layer = 0;
  for (const StageLayers &stage :
       stageLayers(question.program, question.plan)) {
    result.emplace_back();
    for (const int64_t end = layer + stage.layers; layer < end; ++layer)
      result.back().push_back("layers." + std::to_string(layer));
  }
  result.front().insert(result.front().begin(), "tok_embeddings");
  result.back().push_back("norm");
  result.back().push_back("output");
  return result;
}

/// Under a pipeline all sequences of a data rank are one local batch; else a
/// local batch is a microbatch, and gradients accumulate over several.
int64_t localBatch(const Plan &plan) {
  return plan.pp > 1 ? plan.globalBatch / plan.dp : plan.microBatch;
}

/// The stage of ZeRO that FSDP at least is: under a pipeline it keeps what it
/// gathered (zeroAsRun).
int leastSharded(const Plan &plan) { return plan.pp > 1 ? 1 : 2; }
std::string shardedText(const Plan &plan) {
  return plan.pp > 1 ? "zero = 1" : "zero = 2 or 3";
}

int64_t shardDegree(const Plan &plan) {
  return plan.zero >= leastSharded(plan) ? zeroDataRanks(plan) : 1;
}

/// FSDP wraps the model; else nothing casts its parameters, but for data ranks
/// alone.
bool shards(const Plan &plan) { return shardDegree(plan) > 1 || plan.cp > 1; }

/// In full where k > 0: every k-th layer. 0: this cannot be said.
int64_t everyKth(const std::vector<StageLayers> &stages) {
  int64_t k = 0;
  for (const StageLayers &stage : stages) {
    if (stage.layers == 0)
      continue;
    if (stage.full == 0 || stage.layers % stage.full != 0 ||
        (k > 0 && stage.layers / stage.full != k))
      return 0;
    k = stage.layers / stage.full;
  }
  return k;
}

std::string_view mode(const StageLayers &all) {
  if (allFull(all))
    return "full";
  return all.full + all.selective > 0 ? "selective" : "none";
}

Value every(const Question &question) {
  const auto stages = stageLayers(question.program, question.plan);
  const StageLayers all = allLayers(stages);
  // What the profile `fsdp` prices as selective: every second layer.
  const int64_t k = all.selective > 0 ? 2 : everyKth(stages);
  return wordIf(mode(all) == "selective", std::to_string(k));
}

bool isFp8(const Question &question) {
  return question.plan.dtypes.products == Narrow::Fp8;
}

Value converters(const Question &question) {
  if (!isFp8(question))
    return std::nullopt;
  std::vector<std::string> result = {"quantize.linear.float8"};
  if (hasExperts(question))
    result.push_back("quantize.grouped_mm.float8");
  return words(std::move(result));
}

const SettingRow rows[] = {
    {"model.converters", converters},

    {"training.local_batch_size",
     [](const Question &q) { return count(localBatch(q.plan)); }},
    {"training.global_batch_size",
     [](const Question &q) { return count(q.plan.globalBatch); }},
    {"training.seq_len",
     [](const Question &q) { return count(q.plan.sequence); }},
    {"training.dtype", [](const Question &) { return word("float32"); }},
    {"training.mixed_precision_param",
     [](const Question &q) {
       return word(q.plan.dtypes.compute == DType::BF16 ? "bfloat16"
                                                        : "float32");
     }},
    {"training.mixed_precision_reduce",
     [](const Question &) { return word("float32"); }},

    {"parallelism.data_parallel_replicate_degree",
     [](const Question &q) { return count(q.plan.dp / shardDegree(q.plan)); }},
    {"parallelism.data_parallel_shard_degree",
     [](const Question &q) { return count(shardDegree(q.plan)); }},
    {"parallelism.fsdp_reshard_after_forward",
     [](const Question &q) {
       return wordIf(shards(q.plan), q.plan.zero == 3 ? "always" : "never");
     }},
    {"parallelism.tensor_parallel_degree",
     [](const Question &q) { return count(q.plan.tp); }},
    {"parallelism.context_parallel_degree",
     [](const Question &q) { return count(q.plan.cp); }},
    {"parallelism.context_parallel_rotate_method",
     [](const Question &q) {
       return wordIf(q.plan.cp > 1, q.plan.cpKind == CpKind::P2P ? "alltoall"
                                                                 : "allgather");
     }},
    {"parallelism.pipeline_parallel_degree",
     [](const Question &q) { return count(q.plan.pp); }},
    {"parallelism.pipeline_parallel_schedule",
     [](const Question &q) {
       return wordIf(q.plan.pp > 1, scheduleWord(q.plan.schedule));
     }},
    {"parallelism.pipeline_parallel_microbatch_size",
     [](const Question &q) {
       return countIf(q.plan.pp > 1, q.plan.microBatch);
     }},
    {"parallelism.module_fqns_per_model_part",
     [](const Question &q) {
       return q.plan.pp > 1 ? Value(modules(q)) : std::nullopt;
     }},
    {"parallelism.expert_parallel_degree",
     [](const Question &q) { return countIf(hasExperts(q), q.plan.ep); }},
    {"parallelism.expert_tensor_parallel_degree",
     [](const Question &q) { return countIf(hasExperts(q), q.plan.etp); }},

    {"activation_checkpoint.mode",
     [](const Question &q) {
       return word(mode(allLayers(stageLayers(q.program, q.plan))));
     }},
    {"activation_checkpoint.selective_ac_option", every},

    {"quantize.linear.float8.recipe_name",
     [](const Question &q) { return wordIf(isFp8(q), "tensorwise"); }},
    {"quantize.linear.float8.filter_fqns",
     [](const Question &q) {
       return isFp8(q) ? words(hasExperts(q)
                                   ? std::vector<std::string>{"output",
                                                              "router.gate"}
                                   : std::vector<std::string>{"output"})
                       : std::nullopt;
     }},
    {"quantize.grouped_mm.float8.fqns",
     [](const Question &q) {
       return isFp8(q) && hasExperts(q) ? words({"experts"}) : std::nullopt;
     }},
};

} // namespace

void titanUnsaid(const Program &program, const Plan &plan,
                 std::vector<std::string> &unsaid) {
  const auto want = [&](bool holds, const std::string &key,
                        const std::string &text) {
    if (!holds)
      unsaid.push_back("#/" + key + ": expected " + text);
  };
  const std::vector<StageLayers> stages = stageLayers(program, plan);
  const StageLayers all = allLayers(stages);
  want(all.full == 0 || everyKth(stages) > 0,
       "stages",
       "every k-th layer of every stage to recompute in full under torchtitan "
       "(selective_ac_option), but got " + std::to_string(all.full) + " of " +
           std::to_string(all.layers));
  const std::string sharded = shardedText(plan);
  want(plan.cp == 1 || plan.zero >= leastSharded(plan), "parallel/zero",
       sharded +
           " with cp > 1 under torchtitan, which shards parameters over cp, "
           "but got zero = " +
           std::to_string(plan.zero));
  want(shards(plan) || plan.dp == 1 || plan.dp == plan.ranks(), "parallel/zero",
       sharded +
           " with dp > 1 beside tp or pp under torchtitan (\"DDP has not "
           "supported > 1D parallelism\"), but got zero = " +
           std::to_string(plan.zero));
  want(shards(plan) || plan.dtypes.compute != DType::BF16 ||
           plan.tp * plan.pp == 1,
       "parallel/zero",
       "data ranks that shard (" + sharded +
           "), or compute in f32, with tp or pp under torchtitan, where FSDP "
           "casts parameters to bf16, but got neither");
  want(plan.dtypes.products != Narrow::Fp8Block,
       "dtypes/products",
       "none or fp8 of torchtitan, which has no recipe of "
       "blocks, but got fp8_block");
  want(plan.dtypes.products != Narrow::Fp8 || program.experts == 0 ||
           (plan.pp == 1 && plan.cp == 1),
       "dtypes/products",
       "pp = 1 and cp = 1 with experts in fp8 under torchtitan, but got pp = " +
           std::to_string(plan.pp) + ", cp = " + std::to_string(plan.cp));
  want(plan.schedule != ScheduleKind::DualPipeV || plan.ep == 1 ||
           all.full + all.selective == 0,
       "stages",
       "recompute none with dualpipe-v and ep > 1 under torchtitan, but got "
       "layers that run again");
}

Launch titanLaunch(const LaunchQuestion &question) {
  Launch result;
  result.torchrun = torchrunArguments(question);
  result.program = {{"-m", "torchtitan.train"}};
  result.configFlag = "--job.config_file";
  result.configFile = "plan.toml";
  result.config = settings(rows, question);
  result.notes.push_back(
      "[model] name and flavor, data and optimizer are left to "
      "say");
  if (question.plan.pp > 1)
    result.notes.push_back("module_fqns_per_model_part names modules as "
                           "torchtitan's models of text do");
  const StageLayers all =
      allLayers(stageLayers(question.program, question.plan));
  if (all.selective > 0)
    result.notes.push_back(
        "selective is every second layer in full, as the profile fsdp prices "
        "it; torchtitan does not recompute attention cores alone");
  return result;
}

} // namespace shardwright::cost
