#include "cost_model/launch/Launch.h"
#include "cost_model/rules/Rules.h"
#include "Shipped.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

constexpr Framework launched[] = {Framework::MegatronCore,
                                  Framework::TorchTitan, Framework::DeepSpeed};

/// Twelve layers of eight heads, four of them key/value heads.
Program twelveLayers() {
  return smallLlama({64, 48, 4, 2, 6, 80, 1000, 12, false});
}

Launch launchOf(Framework framework, const Program &program, const Plan &plan,
                int64_t gpusPerNode = 8,
                const char *profile = "megatron-core") {
  return launch(framework, {program, plan, profileOf(profile), gpusPerNode});
}

/// The value behind a flag; "-" if the flag is absent.
std::string said(const Launch &launch, const std::string &flag) {
  std::string found = "-";
  for (const auto *list : {&launch.torchrun, &launch.arguments})
    for (const LaunchArgument &argument : *list)
      if (argument.flag == flag) {
        CHECK(found == "-"); // once
        found = argument.value;
      }
  return found;
}
int64_t saidNumber(const Launch &launch, const std::string &flag) {
  return std::stoll(said(launch, flag));
}
const SettingValue *setting(const Launch &launch, const std::string &key) {
  const SettingValue *found = nullptr;
  for (const LaunchSetting &one : launch.config)
    if (one.key == key) {
      CHECK(found == nullptr);
      found = &one.value;
    }
  return found;
}
int64_t settingNumber(const Launch &launch, const std::string &key) {
  const SettingValue *value = setting(launch, key);
  REQUIRE(value != nullptr);
  return std::get<int64_t>(*value);
}
std::string settingText(const Launch &launch, const std::string &key) {
  const SettingValue *value = setting(launch, key);
  return value ? std::get<std::string>(*value) : "-";
}

/// Sets layers of the stages; the first `full` of each recompute in full.
void split(Plan &plan, const std::vector<int64_t> &layers, int64_t full = 0) {
  plan.stages.assign(layers.size(), {});
  plan.stages.front().runs.push_back({"embed", 1, Recompute::None});
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t again = std::min(full, layers[i]);
    if (again > 0)
      plan.stages[i].runs.push_back({"dense", again, Recompute::Full});
    if (layers[i] > again)
      plan.stages[i].runs.push_back(
          {"dense", layers[i] - again, Recompute::None});
  }
  plan.stages.back().runs.push_back({"head", 1, Recompute::None});
}

void requireSaid(Framework framework, const Program &program,
                 const Plan &plan) {
  const std::vector<Violation> violations =
      checkPlan(program, plan, ModelCheck::NameOnly, framework);
  for (const Violation &violation : violations)
    UNSCOPED_INFO(violation.message);
  REQUIRE(violations.empty());
  const std::vector<std::string> left = unsaid(framework, program, plan);
  for (const std::string &message : left)
    UNSCOPED_INFO(message);
  REQUIRE(left.empty());
}

/// The stages of Megatron's layout string, by its own reading: commas dropped,
/// (..)*n and then x*n unrolled, stages between bars.
std::vector<int64_t> layersOfLayout(std::string text) {
  std::string unrolled;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t end = i + 1;
    int64_t times = 1;
    if (end < text.size() && text[end] == '*') {
      times = 0;
      for (++end; end < text.size() && std::isdigit(text[end]); ++end)
        times = times * 10 + (text[end] - '0');
    }
    unrolled.append(static_cast<size_t>(times), text[i]);
    i = end - 1;
  }
  REQUIRE(unrolled.front() == 'E');
  REQUIRE(unrolled.back() == 'L');
  std::vector<int64_t> layers(1);
  for (char c : unrolled.substr(1, unrolled.size() - 2)) {
    REQUIRE((c == 't' || c == '|'));
    if (c == '|')
      layers.push_back(0);
    else
      ++layers.back();
  }
  return layers;
}

} // namespace

TEST_CASE("every field of a plan changes what its framework is told") {
  const Program program = twelveLayers();
  using Change = std::function<void(Plan &)>;
  struct Case {
    const char *field;
    Plan from;
    Change change;
    std::vector<Framework> of;
  };
  const Framework megatron = Framework::MegatronCore,
                  titan = Framework::TorchTitan,
                  speed = Framework::DeepSpeed;
  // 2 stages, 4 data ranks, 2 tensor ranks, ZeRO 1.
  const Plan base = planFor(program, 2, 4, 2, true, 1, 1, 8);
  const Plan flat = planFor(program, 1, 4, 2, true, 3, 1, 8);
  const Plan alone = planFor(program, 1, 4, 1, false, 2, 1, 8);
  Plan rows = planFor(program, 1, 2, 1, false, 3, 1, 8);
  rows.cp = 2;
  rows.cpKind = CpKind::AllToAll;
  setMesh(rows);
  Plan ring = rows;
  ring.cpKind = CpKind::P2P;
  Plan chunked = base;
  chunked.schedule = ScheduleKind::Interleaved;
  chunked.chunks = 2;
  split(chunked, {3, 3, 3, 3});
  const auto remesh = [](auto change) {
    return [change](Plan &plan) {
      change(plan);
      setMesh(plan);
    };
  };
  const auto evenly = [&](int64_t stages, Recompute policy,
                          int64_t full = -1) {
    return [&program, stages, policy, full](Plan &plan) {
      plan.stages = evenStages(program, stages, policy, full);
    };
  };
  const Case cases[] = {
      {"dp",
       base,
       remesh([](Plan &p) {
         p.dp = 8;
         p.globalBatch = 64;
       }),
       {megatron, titan, speed}},
      {"tp", base, remesh([](Plan &p) { p.tp = 4; }), {megatron, titan, speed}},
      {"pp",
       base,
       remesh([&](Plan &p) {
         p.pp = 4;
         split(p, {3, 3, 3, 3});
       }),
       {megatron, titan, speed}},
      {"cp", rows, remesh([](Plan &p) { p.cp = 4; }), {megatron, speed}},
      {"cp", ring, remesh([](Plan &p) { p.cp = 4; }), {titan}},
      {"cp_kind",
       ring,
       [](Plan &p) { p.cpKind = CpKind::AllGather; },
       {megatron, titan}},
      {"sp", base, [](Plan &p) { p.sp = false; }, {megatron, speed}},
      {"zero", base, [](Plan &p) { p.zero = 0; }, {megatron}},
      {"zero", alone, [](Plan &p) { p.zero = 3; }, {megatron, titan, speed}},
      {"zero_ranks",
       base,
       remesh([](Plan &p) { p.zeroRanks = 2; }),
       {megatron}},
      {"zero_ranks",
       flat,
       remesh([](Plan &p) { p.zeroRanks = 2; }),
       {titan, speed}},
      {"order",
       base,
       remesh([](Plan &p) { p.order = MeshOrder::DpPp; }),
       {megatron}},
      {"offload optimizer",
       base,
       [](Plan &p) { p.offloadOptimizer = true; },
       {megatron, speed}},
      {"offload activations",
       planFor(program, 1, 4, 2, true, 1, 1, 8),
       [](Plan &p) { p.offloadActivations = true; },
       {megatron}},
      {"offload activations",
       planFor(program, 1, 4, 2, true, 1, 1, 8, Recompute::Full),
       [](Plan &p) { p.offloadActivations = true; },
       {speed}},
      {"global_batch",
       base,
       [](Plan &p) { p.globalBatch = 64; },
       {megatron, titan, speed}},
      {"micro_batch",
       base,
       [](Plan &p) { p.microBatch = 2; },
       {megatron, titan, speed}},
      {"micro_batch", flat, [](Plan &p) { p.microBatch = 2; }, {titan}},
      {"schedule",
       base,
       [](Plan &p) { p.schedule = ScheduleKind::GPipe; },
       {titan}},
      {"schedule",
       chunked,
       [](Plan &p) { p.schedule = ScheduleKind::ZbV; },
       {titan}},
      {"schedule",
       chunked,
       [](Plan &p) { p.schedule = ScheduleKind::DualPipeV; },
       {titan}},
      {"chunks",
       chunked,
       [](Plan &p) {
         p.chunks = 3;
         split(p, {2, 2, 2, 2, 2, 2});
       },
       {megatron}},
      {"chunks",
       chunked,
       [](Plan &p) {
         p.chunks = 3;
         split(p, {2, 2, 2, 2, 2, 2});
       },
       {titan}},
      {"group", chunked, [](Plan &p) { p.group = 4; }, {megatron}},
      {"layers",
       base,
       [](Plan &p) {
         split(p, {7, 5});
       },
       {megatron, titan}},
      {"layers of chunks",
       chunked,
       [](Plan &p) {
         split(p, {3, 4, 3, 2});
       },
       {megatron}},
      {"recompute", base, evenly(2, Recompute::Selective),
       {megatron, titan, speed}},
      {"recompute", base, evenly(2, Recompute::Full), {megatron, titan, speed}},
      {"recompute", base, evenly(2, Recompute::Full, 2), {megatron, titan}},
      {"recompute", alone, evenly(1, Recompute::Full, 5), {megatron, speed}},
      {"dtypes",
       planFor(program, 1, 4, 1, false, 1, 1, 8),
       [](Plan &p) { p.dtypes.param = p.dtypes.compute = DType::F32; },
       {megatron, speed}},
      {"dtypes",
       base,
       [](Plan &p) { p.dtypes.param = p.dtypes.compute = DType::F32; },
       {titan}},
      {"dtypes",
       base,
       [](Plan &p) { p.dtypes.param = p.dtypes.compute = DType::F16; },
       {megatron, speed}},
      {"gradients",
       base,
       [](Plan &p) { p.dtypes.grad = p.dtypes.reduce = DType::BF16; },
       {megatron, speed}},
      {"gradients",
       alone,
       [](Plan &p) { p.dtypes.grad = p.dtypes.reduce = DType::BF16; },
       {megatron, speed}},
  };
  for (const Case &c : cases)
    for (Framework framework : c.of) {
      CAPTURE(c.field, name(framework));
      Plan changed = c.from;
      c.change(changed);
      requireSaid(framework, program, c.from);
      requireSaid(framework, program, changed);
      const Launch before = launchOf(framework, program, c.from),
                   after = launchOf(framework, program, changed);
      CHECK((before.arguments != after.arguments ||
             before.config != after.config));
    }
  // Lengths and products in fewer bits: of models of their own.
  Program other = smallLlama({128, 48, 4, 2, 6, 80, 1000, 12, false});
  for (Framework framework : launched) {
    CAPTURE(name(framework));
    const Plan from = framework == titan ? flat : base;
    Plan longer = from;
    longer.sequence = 128;
    requireSaid(framework, other, longer);
    const Launch before = launchOf(framework, program, from),
                 after = launchOf(framework, other, longer);
    CHECK((before.arguments != after.arguments ||
           before.config != after.config));
  }
  for (Narrow narrow : narrows) {
    Plan plan = flat;
    plan.dtypes.products = narrow;
    CAPTURE(name(narrow));
    const Launch of = launchOf(megatron, program, plan);
    CHECK(said(of, "--fp8-recipe") == (narrow == Narrow::Fp8    ? "tensorwise"
                                       : narrow == Narrow::Mxfp8 ? "mxfp8"
                                       : narrow == Narrow::Fp8Block
                                           ? "blockwise"
                                           : "-"));
    CHECK(said(of, "--fp4-format") ==
          (narrow == Narrow::Fp4Block ? "e2m1" : "-"));
    CHECK((setting(launchOf(titan, program, plan), "model.converters") !=
           nullptr) == (narrow == Narrow::Fp8));
  }
}

TEST_CASE("fields are said in the words of Megatron-LM and DeepSpeed") {
  const Program program = twelveLayers();
  Plan plan = planFor(program, 2, 8, 2, true, 1, 1, 8);
  plan.cp = 2;
  plan.cpKind = CpKind::AllGather;
  plan.zeroRanks = 2; // of 8: four copies
  plan.order = MeshOrder::DpPp;
  plan.offloadOptimizer = true;
  plan.dtypes.grad = plan.dtypes.reduce = DType::BF16;
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 2;
  plan.group = 4;
  split(plan, {3, 3, 3, 3}, 1);
  setMesh(plan);
  const Launch megatron = launchOf(Framework::MegatronCore, program, plan);
  const std::map<std::string, std::string> wanted = {
      {"--context-parallel-size", "2"},
      {"--cp-comm-type", "all_gather"},
      {"--num-distributed-optimizer-instances", "4"},
      {"--use-tp-pp-dp-mapping", ""},
      {"--optimizer-cpu-offload", ""},
      {"--optimizer-offload-fraction", "1.0"},
      {"--use-precision-aware-optimizer", ""},
      {"--grad-reduce-in-bf16", ""},
      {"--accumulate-allreduce-grads-in-fp32", "-"},
      {"--num-virtual-stages-per-pipeline-rank", "2"},
      {"--microbatch-group-size-per-virtual-pipeline-stage", "4"},
      {"--recompute-granularity", "full"},
      {"--recompute-method", "block"},
      {"--recompute-num-layers", "1"},
      {"--recompute-modules", "-"},
      {"--sequence-parallel", ""},
      {"--seq-length", "64"},
      {"--moe-permute-fusion", "-"},
      {"--make-vocab-size-divisible-by", "128"}};
  for (const auto &[flag, value] : wanted) {
    CAPTURE(flag);
    CHECK(said(megatron, flag) == value);
  }
  CHECK(megatron.environment ==
        std::vector<LaunchArgument>{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}});
  Plan other = planFor(program, 1, 4, 1, false, 1, 1, 8, Recompute::Selective);
  other.offloadActivations = true;
  other.dtypes.products = Narrow::Mxfp8;
  const Launch selective = launchOf(Framework::MegatronCore, program, other);
  CHECK(said(selective, "--recompute-granularity") == "selective");
  CHECK(said(selective, "--recompute-modules") == "core_attn");
  CHECK(said(selective, "--cpu-offloading-num-layers") == "11"); // of 12
  CHECK(said(selective, "--fp8-format") == "e4m3");
  CHECK(selective.environment.empty());

  Plan parts = planFor(program, 1, 8, 1, false, 3, 1, 8, Recompute::Full);
  parts.cp = 2;
  parts.cpKind = CpKind::AllToAll;
  parts.zeroRanks = 2; // and over cp
  parts.offloadOptimizer = parts.offloadActivations = true;
  parts.dtypes.grad = parts.dtypes.reduce = DType::BF16;
  setMesh(parts);
  const Launch speed = launchOf(Framework::DeepSpeed, program, parts);
  CHECK(said(speed, "--ds-sequence-parallel-size") == "2");
  CHECK(said(speed, "--no-pipeline-parallel") == "");
  CHECK(said(speed, "--create-moe-param-group") == "-");
  CHECK(said(speed, "--cpu-optimizer") == "");
  CHECK(said(speed, "--checkpoint-in-cpu") == "");
  CHECK(said(speed, "--deepspeed-activation-checkpointing") == "");
  CHECK(said(speed, "--recompute-method") == "uniform");
  CHECK(said(speed, "--deepspeed_config") == speed.configFile);
  CHECK(settingNumber(speed, "zero_optimization.mics_shard_size") == 4);
  CHECK(settingText(speed, "zero_optimization.offload_optimizer.device") ==
        "cpu");
  CHECK(settingText(speed, "data_types.grad_accum_dtype") == "bf16");
  CHECK(settingText(speed, "communication_data_type") == "bf16");
  CHECK(settingText(speed, "seq_parallel_communication_data_type") == "bf16");
}

TEST_CASE("fields are said in the words of torchtitan") {
  const Program program = twelveLayers();
  Plan plan = planFor(program, 1, 8, 2, true, 2, 3, 4, Recompute::Selective);
  plan.cp = 2;
  plan.cpKind = CpKind::P2P;
  plan.zeroRanks = 2;
  setMesh(plan);
  const Launch flat = launchOf(Framework::TorchTitan, program, plan);
  CHECK(settingNumber(flat, "parallelism.data_parallel_replicate_degree") == 4);
  CHECK(settingNumber(flat, "parallelism.data_parallel_shard_degree") == 2);
  CHECK(settingText(flat, "parallelism.fsdp_reshard_after_forward") == "never");
  CHECK(settingText(flat, "parallelism.context_parallel_rotate_method") ==
        "alltoall");
  CHECK(settingText(flat, "activation_checkpoint.mode") == "selective");
  CHECK(settingText(flat, "activation_checkpoint.selective_ac_option") == "2");
  CHECK(settingText(flat, "training.mixed_precision_param") == "bfloat16");
  CHECK(settingText(flat, "parallelism.pipeline_parallel_schedule") == "-");
  const std::pair<ScheduleKind, const char *> words[] = {
      {ScheduleKind::GPipe, "GPipe"},
      {ScheduleKind::OneFOneB, "1F1B"},
      {ScheduleKind::Interleaved, "Interleaved1F1B"},
      {ScheduleKind::ZbV, "ZBVZeroBubble"},
      {ScheduleKind::DualPipeV, "DualPipeV"}};
  for (const auto &[kind, word] : words) {
    Plan piped = planFor(program, 2, 4, 2, true, 1, 1, 8);
    piped.schedule = kind;
    piped.chunks = chunksOf(kind).least;
    piped.stages = evenStages(program, stageCount(piped), Recompute::Full, 2);
    const Launch of = launchOf(Framework::TorchTitan, program, piped);
    CHECK(settingText(of, "parallelism.pipeline_parallel_schedule") == word);
    // Two of six layers of a stage: every third.
    if (piped.chunks == 1)
      CHECK(settingText(of, "activation_checkpoint.selective_ac_option") ==
            "3");
  }
}

TEST_CASE("experts are said") {
  Program program = twelveLayers();
  program.experts = 8;
  Plan plan = planFor(program, 1, 4, 2, true, 1, 1, 8);
  plan.ep = 4;
  plan.etp = 2;
  setMesh(plan);
  const Launch megatron = launchOf(Framework::MegatronCore, program, plan);
  CHECK(said(megatron, "--expert-model-parallel-size") == "4");
  CHECK(said(megatron, "--expert-tensor-parallel-size") == "2");
  CHECK(said(megatron, "--moe-token-dispatcher-type") == "alltoall");
  const Launch titan = launchOf(Framework::TorchTitan, program, plan);
  CHECK(settingNumber(titan, "parallelism.expert_parallel_degree") == 4);
  CHECK(settingNumber(titan, "parallelism.expert_tensor_parallel_degree") == 2);
  const Launch speed = launchOf(Framework::DeepSpeed, program, plan);
  CHECK(said(speed, "--moe-expert-parallel-size") == "4");
  CHECK(said(speed, "--enable-expert-tensor-parallelism") == "");
  CHECK(said(speed, "--create-moe-param-group") == "");
  // Its engine refuses to shard parameters of experts.
  Plan sharded = planFor(program, 1, 4, 1, false, 2, 1, 8);
  CHECK(unsaid(Framework::DeepSpeed, program, sharded).empty());
  sharded.zero = 3;
  CHECK(unsaid(Framework::DeepSpeed, program, sharded).size() == 1);
}

TEST_CASE("ranks and batches of a launch are those of the plan") {
  const Program program = twelveLayers();
  int64_t seen = 0;
  for (int64_t pp : {1, 2, 4})
    for (int64_t dp : {1, 2, 6})
      for (int64_t tp : {1, 2, 4})
        for (int64_t cp : {1, 2})
          for (int64_t micro : {1, 3})
            for (Framework framework : launched) {
              const bool shards = framework == Framework::TorchTitan;
              Plan plan = planFor(program, pp, dp, tp, tp > 1,
                                  shards && pp == 1 ? 3 : 1, micro, 8);
              plan.cp = cp;
              plan.cpKind = framework == Framework::DeepSpeed
                                ? CpKind::AllToAll
                                : CpKind::P2P;
              setMesh(plan);
              if (!checkPlan(program, plan, ModelCheck::NameOnly, framework)
                       .empty() ||
                  !unsaid(framework, program, plan).empty())
                continue;
              CAPTURE(name(framework), pp, dp, tp, cp, micro);
              ++seen;
              const Launch of = launchOf(framework, program, plan, 2);
              CHECK(saidNumber(of, "--nnodes") *
                        saidNumber(of, "--nproc-per-node") ==
                    dp * tp * pp * cp);
              CHECK((said(of, "--node-rank") == "$NODE_RANK") ==
                    (plan.ranks() > 2));
              if (framework == Framework::TorchTitan) {
                const auto degree = [&](const char *key) {
                  return settingNumber(of, std::string("parallelism.") + key);
                };
                const int64_t data =
                    degree("data_parallel_replicate_degree") *
                    degree("data_parallel_shard_degree");
                CHECK(data == dp);
                CHECK(data * degree("tensor_parallel_degree") *
                          degree("pipeline_parallel_degree") *
                          degree("context_parallel_degree") ==
                      plan.ranks());
                const int64_t local =
                    settingNumber(of, "training.local_batch_size");
                const int64_t accumulated =
                    settingNumber(of, "training.global_batch_size") /
                    (local * data);
                const int64_t microbatches =
                    pp > 1 ? local / degree("pipeline_parallel_microbatch_size")
                           : accumulated;
                CHECK(microbatches == 8);
                CHECK((pp == 1 || accumulated == 1));
                continue;
              }
              const int64_t model =
                  saidNumber(of, "--tensor-model-parallel-size") *
                  saidNumber(of, "--pipeline-model-parallel-size") *
                  saidNumber(of, framework == Framework::DeepSpeed
                                     ? "--ds-sequence-parallel-size"
                                     : "--context-parallel-size");
              CHECK(plan.ranks() / model == dp);
              CHECK(saidNumber(of, "--global-batch-size") ==
                    saidNumber(of, "--micro-batch-size") * dp * 8);
              if (framework == Framework::DeepSpeed)
                CHECK(settingNumber(of, "train_batch_size") ==
                      settingNumber(of, "train_micro_batch_size_per_gpu") *
                          settingNumber(of, "gradient_accumulation_steps") *
                          dp);
            }
  CHECK(seen > 100);
}

TEST_CASE("Megatron reads back the split of layers") {
  const Program program = twelveLayers();
  const std::vector<int64_t> splits[] = {
      {3, 3, 3, 3}, {2, 4, 4, 2}, {4, 3, 3, 2}, {3, 3, 3, 3}, {1, 4, 4, 3},
      {5, 2, 2, 3}, {3, 4, 3, 2}, {2, 3, 3, 4}, {7, 5},       {6, 6},
      {1, 10, 1},   {4, 4, 4},    {1, 1, 10},   {12}};
  for (int64_t chunks : {1, 2})
    for (const std::vector<int64_t> &layers : splits) {
      if (static_cast<int64_t>(layers.size()) % chunks != 0 ||
          (chunks > 1 && layers.size() < 4))
        continue;
      const auto stages = static_cast<int64_t>(layers.size());
      Plan plan = planFor(program, stages / chunks, 1, 1, false, 1, 1, 8);
      if (chunks > 1) {
        plan.schedule = ScheduleKind::Interleaved;
        plan.chunks = chunks;
      }
      split(plan, layers);
      requireSaid(Framework::MegatronCore, program, plan);
      const Launch of = launchOf(Framework::MegatronCore, program, plan);
      CAPTURE(chunks, layers);
      const std::string layout = said(of, "--pipeline-model-parallel-layout"),
                        first = said(of, "--decoder-first-pipeline-num-layers"),
                        last = said(of, "--decoder-last-pipeline-num-layers");
      // transformer_config.py: what the ends leave is shared evenly.
      std::vector<int64_t> read;
      if (layout != "-") {
        CHECK((first == "-" && last == "-"));
        CHECK(said(of, "--num-virtual-stages-per-pipeline-rank") == "-");
        read = layersOfLayout(layout);
      } else {
        int64_t left = 12, between = stages;
        for (const std::string &end : {first, last})
          if (end != "-") {
            CHECK(chunks == 1);
            left -= std::stoll(end);
            --between;
          }
        REQUIRE((between > 0 && left % between == 0));
        read.assign(static_cast<size_t>(stages), left / between);
        if (first != "-")
          read.front() = std::stoll(first);
        if (last != "-")
          read.back() = std::stoll(last);
        CHECK(said(of, "--num-virtual-stages-per-pipeline-rank") ==
              (chunks > 1 ? std::to_string(chunks) : "-"));
      }
      CHECK(read == layers);
    }
}

TEST_CASE("plans of published launch files give their arguments") {
  const Program program = twelveLayers();
  // NVIDIA/Megatron-LM d98e8a6, tests/functional_tests, gpt3_mcore_te_tp1_pp4_
  // vp1_uneven_pipeline: 12 layers, micro 4, global 32.
  Plan uneven = planFor(program, 4, 1, 1, false, 0, 4, 8);
  split(uneven, {2, 4, 4, 2});
  const Launch four = launchOf(Framework::MegatronCore, program, uneven);
  const std::map<std::string, std::string> wanted = {
      {"--tensor-model-parallel-size", "1"},
      {"--pipeline-model-parallel-size", "4"},
      {"--decoder-first-pipeline-num-layers", "2"},
      {"--decoder-last-pipeline-num-layers", "2"},
      {"--micro-batch-size", "4"},
      {"--global-batch-size", "32"},
      {"--bf16", ""}};
  for (const auto &[flag, value] : wanted)
    CHECK(said(four, flag) == value);
  // The same, deepseek_proxy_fsdp_ep2_fsdp2: Megatron FSDP.
  const Plan fsdp = planFor(program, 1, 8, 1, false, 3, 1, 1);
  const Launch sharded = launchOf(Framework::MegatronCore, program, fsdp);
  const std::map<std::string, std::string> shards = {
      {"--use-distributed-optimizer", ""},
      {"--overlap-grad-reduce", ""},
      {"--overlap-param-gather", ""},
      {"--use-megatron-fsdp", ""},
      {"--data-parallel-sharding-strategy", "optim_grads_params"},
      {"--ckpt-format", "fsdp_dtensor"}};
  for (const auto &[flag, value] : shards)
    CHECK(said(sharded, flag) == value);
  CHECK(sharded.environment.empty());
  // pytorch/torchtitan v0.2.2, llama3_70b.toml on its 64 GPUs: FSDP 8 x TP 8,
  // batches of 8 a rank, everything recomputed.
  const Program wide = smallLlama({64, 48, 8, 1, 6, 80, 1000, 12, false});
  const Plan seventy =
      planFor(wide, 1, 8, 8, true, 3, 8, 1, Recompute::Full);
  const Launch toml = launchOf(Framework::TorchTitan, wide, seventy);
  CHECK(settingNumber(toml, "training.local_batch_size") == 8);
  CHECK(settingNumber(toml, "parallelism.data_parallel_replicate_degree") == 1);
  CHECK(settingNumber(toml, "parallelism.data_parallel_shard_degree") == 8);
  CHECK(settingNumber(toml, "parallelism.tensor_parallel_degree") == 8);
  CHECK(settingNumber(toml, "parallelism.pipeline_parallel_degree") == 1);
  CHECK(settingNumber(toml, "parallelism.context_parallel_degree") == 1);
  CHECK(settingText(toml, "activation_checkpoint.mode") == "full");
  // bigscience-workshop, tr10-13B: 4 nodes of 4 GPUs, TP 2, PP 4, ZeRO 1, micro
  // 1, global 2048; transformers.
  const Plan bloom =
      planFor(program, 4, 2, 2, false, 1, 1, 1024, Recompute::Full);
  const Launch json = launchOf(Framework::DeepSpeed, program, bloom, 4);
  CHECK(said(json, "--nnodes") == "4");
  CHECK(said(json, "--nproc-per-node") == "4");
  CHECK(said(json, "--tensor-model-parallel-size") == "2");
  CHECK(said(json, "--pipeline-model-parallel-size") == "4");
  CHECK(said(json, "--zero-stage") == "1");
  CHECK(settingNumber(json, "zero_optimization.stage") == 1);
  CHECK(settingNumber(json, "train_micro_batch_size_per_gpu") == 1);
  CHECK(settingNumber(json, "train_batch_size") == 2048);
}

TEST_CASE("what no argument says is refused") {
  const Program program = twelveLayers();
  struct {
    Framework framework;
    Plan plan;
    std::function<void(Plan &)> change;
  } cases[] = {
      {Framework::MegatronCore, planFor(program, 2, 2, 1),
       [](Plan &p) { p.dtypes.param = p.dtypes.compute = DType::F64; }},
      {Framework::MegatronCore, planFor(program, 1, 2, 1),
       [](Plan &p) {
         p.stages.front().runs = {{"embed", 1, Recompute::None},
                                  {"dense", 6, Recompute::Selective},
                                  {"dense", 6, Recompute::None},
                                  {"head", 1, Recompute::None}};
       }},
      {Framework::MegatronCore, planFor(program, 1, 2, 1),
       [](Plan &p) {
         p.stages.front().runs = {{"embed", 1, Recompute::None},
                                  {"dense", 6, Recompute::None},
                                  {"dense", 6, Recompute::Full},
                                  {"head", 1, Recompute::None}};
       }},
      {Framework::TorchTitan, planFor(program, 2, 2, 1, false, 1),
       [](Plan &p) { split(p, {6, 6}, 4); }}, // no k-th of 6 are 4
      {Framework::TorchTitan, planFor(program, 1, 2, 2, true, 3),
       [](Plan &p) {
         p.zero = 0;
         p.dtypes.param = p.dtypes.compute = DType::F32;
       }},
      {Framework::TorchTitan, planFor(program, 1, 2, 2, true, 3),
       [](Plan &p) {
         p.dp = 1; // nothing is wrapped, nothing casts
         setMesh(p);
       }},
      {Framework::TorchTitan, planFor(program, 1, 2, 1, false, 3),
       [](Plan &p) { p.dtypes.param = p.dtypes.compute = DType::F16; }},
      {Framework::DeepSpeed, planFor(program, 2, 2, 1, false, 1),
       [](Plan &p) { split(p, {7, 5}); }},
      {Framework::DeepSpeed, planFor(program, 2, 2, 1, false, 1),
       [](Plan &p) { split(p, {6, 6}, 2); }},
      {Framework::DeepSpeed, planFor(program, 1, 2, 1, false, 1),
       [](Plan &p) { p.zero = 0; }},
      {Framework::DeepSpeed, planFor(program, 1, 2, 2, true, 1),
       [](Plan &p) {
         p.cp = 2;
         p.cpKind = CpKind::AllToAll;
         setMesh(p);
       }},
  };
  for (auto &c : cases) {
    CAPTURE(name(c.framework));
    CHECK(unsaid(c.framework, program, c.plan).empty());
    c.change(c.plan);
    CHECK(unsaid(c.framework, program, c.plan).size() == 1);
  }
}

TEST_CASE("attention and overlap are those of the profile") {
  const Program program = twelveLayers();
  Plan plan = planFor(program, 4, 2, 2, true, 1, 1, 8);
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 3;
  split(plan, std::vector<int64_t>(12, 1));
  const char *overlaps[] = {"--overlap-grad-reduce", "--overlap-param-gather",
                            "--tp-comm-overlap"};
  const Launch with = launchOf(Framework::MegatronCore, program, plan),
               without = launchOf(Framework::MegatronCore, program, plan, 8,
                                  "megatron-core-no-overlap");
  for (const char *flag : overlaps) {
    CHECK(said(with, flag) == "");
    CHECK(said(without, flag) == "-");
  }
  // Buffers are mapped in one domain of NVLink.
  CHECK(said(launchOf(Framework::MegatronCore, program, plan, 1),
             "--tp-comm-overlap") == "-");
  const Plan flat = planFor(program, 1, 2, 1, false, 1);
  const auto flash = [&](const char *profile) {
    return said(launchOf(Framework::DeepSpeed, program, flat, 8, profile),
                "--use-flash-attn-v2");
  };
  CHECK(flash("megatron-core") == "");
  CHECK(flash("megatron-2021") == "-");
  CHECK(said(with, "--no-overlap-p2p-communication") == "-");
  CHECK(said(without, "--no-overlap-p2p-communication") == "");
}
