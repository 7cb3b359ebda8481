#include "cost_model/validation/Validation.h"
#include "cost_model/hardware/Constants.h"
#include "cost_model/validation/Measured.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

const std::string kRow = R"({"id": "a", "set": "s", "grade": "A",
 "source": "nobody", "model": {"name": "m", "family": "llama", "layers": 4,
 "hidden": 2048, "ffn_hidden": 5632, "heads": 16, "kv_heads": 8,
 "head_dim": 128, "vocab": 32000, "seq_len": 2048, "gated_mlp": true,
 "tied_embeddings": false}, "hardware": {"gpu": "A100-80GB", "gpus": 16,
 "gpus_per_node": 8, "interconnect": "NVLink 600GB/s; 4 x 100 Gb/s per node"},
 "parallel": {"tp": 4, "pp": 2, "dp": 2, "zero_stage": 1},
 "batch": {"global_batch": 16, "micro_batch": 1}, "precision": "bf16",
 "recompute": "selective", "measured": {"step_time_s": 0.25},
 "framework": "megatron", "software_year": 2022})";

std::string edited(std::string text, std::string_view from,
                   std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  return text;
}
std::string line(std::string text = kRow) {
  return edited(text, "nobody", "x");
}

std::string named(const std::string &id, const std::string &text) {
  return edited(text, "\"id\": \"a\"", "\"id\": \"" + id + "\"");
}

ValidationRow rowOf(const std::string &text) {
  std::vector<ValidationRow> rows;
  Failure failure;
  const bool read = readValidationRows(text, "r.jsonl", rows, failure);
  for (const std::string &message : failure.messages)
    UNSCOPED_INFO(message);
  REQUIRE(read);
  REQUIRE(rows.size() == 1);
  return rows.front();
}

bool llamaOf(const ValidationModel &model, Program &program, Failure &) {
  program = smallLlama({.sequence = model.sequence,
                        .hidden = model.hidden,
                        .kvHeads = model.kvHeads,
                        .group = model.heads / model.kvHeads,
                        .headDim = model.headDim,
                        .ffn = model.ffn,
                        .vocab = model.vocab,
                        .layers = model.layers,
                        .tied = model.tied});
  return true;
}

} // namespace

TEST_CASE("a row becomes a plan, a cluster and a profile") {
  const ValidationRow row = rowOf(line());
  CHECK(row.sp); // absent: on since 2022 where tp > 1
  Program program;
  Failure failure;
  REQUIRE(llamaOf(row.model, program, failure));
  ValidationCase made;
  REQUIRE(validationCase(row, program, made) == "");
  CHECK(made.hardware.name == "dgx-a100");
  CHECK(made.hardware.nodes == 2);
  CHECK(made.hardware.levels[1].nics == 4);
  CHECK(made.hardware.levels[1].bandwidth.count() == 12.5e9);
  CHECK(made.profile.name == "megatron-2022");
  CHECK(made.plan.zero == 1);
  CHECK(made.plan.dtypes.param == DType::BF16);
  CHECK(made.plan.stages[0].runs.back().recompute == Recompute::Selective);
}

TEST_CASE(
    "the profile follows from software and year, the kernel from the row") {
  const auto profileOf = [](const std::string &text) {
    const ValidationRow row = rowOf(text);
    Program program;
    Failure failure;
    llamaOf(row.model, program, failure);
    ValidationCase made;
    REQUIRE(validationCase(row, program, made) == "");
    return made.profile;
  };
  CHECK(profileOf(edited(line(), "2022}", "2021}")).name == "megatron-2021");
  CHECK(profileOf(edited(line(), "2022}", "2023}")).name ==
        "megatron-flash-2023");
  // DeepSpeed's optimizers, under a pipeline.
  const std::string fork = edited(line(), "\"framework\": \"megatron\"",
                                  "\"framework\": \"megatron-deepspeed\"");
  const std::string f16 =
      edited(fork, "\"precision\": \"bf16\"", "\"precision\": \"fp16\"");
  CHECK(profileOf(fork).name == "deepspeed-2022-bf16");
  CHECK(profileOf(f16).name == "deepspeed-2022");
  CHECK(profileOf(edited(fork, "2022}", "2024}")).name == "deepspeed");
  CHECK(profileOf(edited(f16, "2022}", "2024}")).name == "megatron-flash-2023");
  CHECK(profileOf(edited(fork, "\"zero_stage\": 1", "\"zero_stage\": 0")).name ==
        "megatron-2021");
  CHECK(profileOf(edited(edited(line(), "2022}", "2023}"),
                         "\"precision\":",
                         "\"attention_kernel\": \"flash_attention2\", "
                         "\"precision\":"))
            .name == "scaling-2023");
  const std::string core =
      edited(line(), "\"framework\": \"megatron\"",
             "\"framework\": \"megatron-core\", \"features\": {\"dp_overlap\": "
             "false, \"tp_overlap\": false, \"grad_dtype\": \"bf16\"}");
  CHECK(profileOf(core).name == "megatron-core");
  CHECK_FALSE(profileOf(core).overlapGradientReduce);
  CHECK_FALSE(profileOf(core).overlapForwardTensor);
  const std::string flash =
      edited(line(), "\"recompute\"",
             "\"attention_kernel\": \"flash_attention2\", \"recompute\"");
  CHECK(profileOf(flash).attention ==
        std::vector<AttentionVariant>{AttentionVariant::Flash2});
}

TEST_CASE("a row's network and memory are those that it states") {
  const auto hardwareOf = [](const std::string &network,
                             const std::string &memory) {
    const ValidationRow row = rowOf(edited(
        edited(line(), "NVLink 600GB/s; 4 x 100 Gb/s per node", network),
        "\"gpus_per_node\": 8", "\"gpus_per_node\": 8" + memory));
    Program program;
    Failure failure;
    REQUIRE(llamaOf(row.model, program, failure));
    ValidationCase input;
    REQUIRE(validationCase(row, program, input) == "");
    return input.hardware;
  };
  const auto rate = [&](const std::string &network) {
    const Level &net = hardwareOf(network, "").levels[1];
    return std::pair(net.nics, net.bandwidth.count() * 8 / 1e9);
  };
  CHECK(rate("4 x 100 Gb/s per node") == std::pair(int64_t(4), 100.0));
  CHECK(rate("NVLink; 8x200Gb HDR") == std::pair(int64_t(8), 200.0));
  CHECK(rate("1600 Gbps/node RoCE") == std::pair(int64_t(8), 200.0));
  CHECK(rate("800 Gbps per node") == std::pair(int64_t(8), 100.0));
  CHECK(rate("InfiniBand 3200 Gbps") == std::pair(int64_t(8), 400.0));
  // Of one port; a DGX A100 has eight.
  CHECK(rate("InfiniBand, 100Gb/s") == std::pair(int64_t(8), 100.0));
  CHECK(rate("100Gb/s per port") == std::pair(int64_t(8), 100.0));
  CHECK(rate("NVLink 600GB/s") == rate("unknown"));

  const Device usual = hardwareOf("unknown", "").device;
  CHECK(hardwareOf("unknown", ", \"gpu_mem_gb\": 80").device.usable ==
        usual.usable);
  CHECK(hardwareOf("unknown", ", \"gpu_mem_gb\": 85").device.usable ==
        usual.usable); // GB for GiB
  CHECK(static_cast<double>(hardwareOf("unknown", ", \"gpu_mem_gb\": 96")
                                .device.usable.count()) ==
        Approx(1.2 * static_cast<double>(usual.usable.count())));
}

TEST_CASE("a framework without a profile is extrapolated with another's") {
  const auto outcomeOf = [](const std::string &text) {
    return validate({rowOf(text)}, llamaOf).rows.front();
  };
  const ValidationOutcome own = outcomeOf(line());
  CHECK_FALSE(own.standIn);
  REQUIRE(own.interval);
  CHECK_FALSE(own.interval->extrapolating);
  const std::string other = edited(line(), "\"megatron\"", "\"alpa\"");
  const std::string recent = edited(other, "2022}", "2025}");
  const auto flat = [](const std::string &text) {
    return edited(text, "\"tp\": 4, \"pp\": 2, \"dp\": 2",
                  "\"tp\": 1, \"pp\": 1, \"dp\": 16");
  };
  const std::pair<std::string, const char *> cases[] = {
      {other, "megatron-flash-2023"},
      {recent, "megatron-core"},
      {flat(other), "fsdp-2023"},
      {flat(recent), "fsdp"},
      {flat(edited(recent, "alpa", "maxtext")), "megatron-core"}};
  for (const auto &[text, profile] : cases) {
    const ValidationOutcome outcome = outcomeOf(text);
    CHECK(outcome.unsupported == "");
    CHECK(outcome.profile == profile);
    CHECK(outcome.standIn);
    REQUIRE(outcome.interval);
    CHECK(outcome.interval->extrapolating);
  }
  CHECK(validate({rowOf(other)}, llamaOf).standIns ==
        std::map<std::string, int64_t>{{"alpa by megatron-flash-2023", 1}});
}

TEST_CASE("what is not modelled is said and counted") {
  const auto reason = [](std::string_view from, std::string_view to) {
    return unsupportedReason(rowOf(edited(line(), from, to)));
  };
  CHECK(reason("x", "y") == "");
  CHECK(reason("\"gated_mlp\"", "\"experts\": 8, \"gated_mlp\"") ==
        "experts of unstated size");
  CHECK(reason("\"bf16\"", "\"int8\"") == "precision int8");
  CHECK(reason("\"zero_stage\": 1", "\"zero_stage\": 3") == "");
  CHECK(reason("\"zero_stage\": 1", "\"zero_stage\": 1, \"zero_group\": 3") ==
        "optimizer state sharded over ranks that do not divide the data axis");
  CHECK(reason("A100-80GB", "V100") == "no cluster file for V100");
  CHECK(reason("\"pp\": 2", "\"vp\": 3, \"pp\": 2") ==
        "layers that do not divide over virtual stages");
  // Three microbatches over two ranks run in a group of three; one in none.
  const std::string chunks = edited(line(), "\"pp\": 2", "\"vp\": 2, \"pp\": 2");
  const std::string odd =
      edited(chunks, "\"global_batch\": 16", "\"global_batch\": 6");
  CHECK(validate({rowOf(odd)}, llamaOf).summary.predicted == 1);
  CHECK(unsupportedReason(
            rowOf(edited(odd, "\"global_batch\": 6", "\"global_batch\": 2"))) ==
        "interleaving with fewer microbatches than stages");
  const std::string text =
      line() + "\n\n" + named("b", edited(line(), "\"bf16\"", "\"int8\"")) +
      "\n";
  std::vector<ValidationRow> rows;
  Failure failure;
  REQUIRE(readValidationRows(text, "r.jsonl", rows, failure));
  const ValidationReport report = validate(rows, llamaOf);
  REQUIRE(report.rows.size() == 2);
  CHECK(report.unsupported ==
        std::map<std::string, int64_t>{{"precision int8", 1}});
  CHECK(report.summary.rows == 2);
  CHECK(report.summary.predicted == 1);
  CHECK(report.summary.time.configurations == 1);
  REQUIRE(report.rows[0].error());
  CHECK_FALSE(report.rows[1].error());
  CHECK(report.summary.time.signedMedian == Approx(*report.rows[0].error()));
  const std::string json = validationJson(report);
  CHECK(json.find("\"predicted_step_time_seconds\"") != std::string::npos);
  CHECK(json.find("\"unsupported\": \"precision int8\"") != std::string::npos);
}

TEST_CASE("repeats of one configuration count once, with their median") {
  std::string text;
  for (const char *seconds : {"0.2}", "0.3}", "0.4}"})
    text += named(seconds, edited(line(), "0.25}", seconds)) + "\n";
  std::vector<ValidationRow> rows;
  Failure failure;
  REQUIRE(readValidationRows(text, "r.jsonl", rows, failure));
  const ValidationReport report = validate(rows, llamaOf);
  CHECK(report.summary.predicted == 3);
  CHECK(report.summary.time.configurations == 1);
  CHECK(report.summary.time.signedMedian == Approx(*report.rows[1].error()));
}

TEST_CASE("narrow products and sharded parameters are estimated, not planned") {
  const auto predicted = [](std::string text) {
    std::vector<ValidationRow> rows = {rowOf(text)};
    const ValidationReport report = validate(rows, llamaOf);
    INFO(report.rows[0].unsupported);
    REQUIRE(report.rows[0].predictedSeconds);
    return report.rows[0];
  };
  const std::string hopper = edited(
      edited(edited(line(), "A100-80GB", "H100"), "\"pp\": 2", "\"pp\": 1"),
      "\"gpus\": 16", "\"gpus\": 8");
  // Only products of layers are faster, and inputs are quantized: it pays for
  // wide layers alone.
  const auto ratio = [&](const std::string &text) {
    return *predicted(edited(text, "\"bf16\"", "\"fp8\"")).predictedSeconds /
           *predicted(text).predictedSeconds;
  };
  const std::string wide = edited(
      edited(hopper, "\"hidden\": 2048", "\"hidden\": 8192"),
      "\"ffn_hidden\": 5632", "\"ffn_hidden\": 28672");
  CHECK(ratio(wide) < 0.9);
  CHECK(ratio(wide) > 1 / 1.9);
  CHECK(ratio(hopper) > ratio(wide));
  // ZeRO 3 moves more and holds less of many layers.
  const std::string deep = edited(hopper, "\"layers\": 4", "\"layers\": 40");
  const ValidationOutcome whole = predicted(deep);
  const ValidationOutcome sharded =
      predicted(edited(deep, "\"zero_stage\": 1", "\"zero_stage\": 3"));
  CHECK(*sharded.predictedSeconds >= *whole.predictedSeconds);
  CHECK(*sharded.predictedGib < *whole.predictedGib);
}

TEST_CASE("parts of a sequence do its work and send keys and values") {
  const auto predicted = [](std::string text) {
    const ValidationReport report = validate({rowOf(text)}, llamaOf);
    INFO(report.rows[0].unsupported);
    REQUIRE(report.rows[0].predictedSeconds);
    return *report.rows[0].predictedSeconds;
  };
  std::string whole = edited(line(), "\"seq_len\": 2048", "\"seq_len\": 32768");
  whole = edited(whole, "\"pp\": 2", "\"pp\": 1");
  whole = edited(whole, "\"gpus\": 16", "\"gpus\": 8");
  // Kernels that skip what is masked: parts skip it either way.
  whole = edited(whole, "2022}", "2024}");
  // The same sequences over the same 8 devices: two data ranks of one sequence
  // each, or pairs of ranks that share two.
  const std::string parts = edited(whole, "\"dp\": 2", "\"dp\": 1, \"cp\": 2");
  CHECK(predicted(parts) > predicted(whole));
  CHECK(predicted(parts) < 1.2 * predicted(whole));
  // Sequences that do not divide into two chunks a rank are told so.
  const ValidationReport odd =
      validate({rowOf(edited(parts, "32768", "32772"))}, llamaOf);
  CHECK(odd.rows[0].unsupported ==
        "plan that breaks rule sequence_divisible_by_cp");
}

TEST_CASE("errors, fits and order of layouts, by hand") {
  const auto outcome = [](std::string layout, double measured, double predicted,
                          bool fits, bool saidToFit) {
    ValidationOutcome row;
    row.set = "s";
    row.gpu = layout.size() > 1 ? "H100" : "A100";
    row.problem = "p";
    row.configuration = layout;
    row.measuredFits = fits;
    row.predictedFits = saidToFit;
    if (fits) {
      row.measuredSeconds = measured;
      row.predictedSeconds = predicted;
    }
    row.measuredGib = 10;
    row.predictedGib = 9;
    return row;
  };
  ValidationReport report;
  // Measured order a b c d, predicted b a c d: one swap of neighbours among
  // four is a rank correlation of 1 - 6 * 2 / (4 * 15) = 0.8. The model would
  // choose b, which takes 1.1 of a.
  report.rows = {
      outcome("a", 1.0, 1.2, true, true), outcome("b", 1.1, 1.1, true, true),
      outcome("c", 2.0, 1.8, true, true), outcome("d", 4.0, 4.0, true, false),
      outcome("e", 0, 0, false, false),   outcome("f", 0, 0, false, true),
      outcome("gg", 1, 9, true, true)};
  report.rows[1].memoryKind = "peak";
  report.rows.back().headline = false;
  groupOutcomes(report, ValidationBy::Gpu);
  REQUIRE(report.groups.size() == 1); // the other group has no headline row
  const ValidationGroup &group = report.groups.front();
  CHECK(group.name == "A100");
  CHECK(group.rows == 6);
  CHECK(group.time.configurations == 4);
  CHECK(group.time.mean == Approx((0.2 + 0 + 0.1 + 0) / 4));
  CHECK(group.time.median == Approx(0.05));
  CHECK(group.time.maximum == Approx(0.2));
  CHECK(group.time.signedMedian == Approx(0));
  CHECK(group.memory.configurations == 1); // of stated kind
  CHECK(group.memory.signedMedian == Approx(-0.1));
  CHECK(*group.balancedAccuracy() == Approx((3.0 / 4 + 1.0 / 2) / 2));
  CHECK(*group.falseFits() == Approx(0.5));
  CHECK(group.problems == 1);
  CHECK(group.medianSpearman == Approx(0.8));
  CHECK(group.medianRegret == Approx(0.1));
}

TEST_CASE("measured collectives and kernels are compared as they are named") {
  Failure failure;
  MeasuredReport collectives;
  REQUIRE(
      compareCollectives(
          R"({"collective": "all_gather", "gpu": "H100-SXM", "gpus": 8, "nodes": 1,
 "bytes": 8388608, "time_us": 60})" +
              std::string(),
          "c", collectives, failure) == false); // one object a line
  failure = {};
  collectives = {};
  REQUIRE(compareCollectives(
      "{\"collective\": \"all_gather\", \"gpu\": \"H100-SXM\", \"gpus\": 8, "
      "\"nodes\": 1, \"bytes\": 8388608, \"time_us\": 60}\n"
      "{\"collective\": \"sendrecv\", \"gpu\": \"H100-SXM\", \"gpus\": 8, "
      "\"nodes\": 1, \"bytes\": 8, \"time_us\": 9}\n",
      "c", collectives, failure));
  CHECK(collectives.summary.configurations == 1);
  CHECK(collectives.summary.median < 0.5);
  CHECK(collectives.unsupported ==
        std::map<std::string, int64_t>{{"collective sendrecv", 1}});
  MeasuredReport kernels;
  REQUIRE(compareKernels(
      "{\"gpu\": \"A100-SXM-80G\", \"kernel\": \"gemm\", \"dtype\": \"bf16\", "
      "\"shape\": {\"m\": 2048, \"n\": 6144, \"k\": 4096}, \"tflops\": "
      "252.7}\n",
      "k", kernels, failure));
  CHECK(kernels.groups.at("dgx-a100 gemm").median < 0.06);
}

TEST_CASE("a benchmark is compared with what it times") {
  const auto predicted = [](const std::string &gpu, const std::string &source) {
    MeasuredReport report;
    Failure failure;
    REQUIRE(compareCollectives(
        "{\"collective\": \"all_reduce\", \"gpu\": \"" + gpu +
            "\", \"gpus\": 8, \"nodes\": 1, \"bytes\": 32768, "
            "\"time_us\": 40, \"source\": \"" + source + "\"}\n",
        "c", report, failure));
    return report.rows.front();
  };
  const double plain = predicted("H200-SXM", "x").predictedSeconds;
  // A call on an idle device waits for the host.
  CHECK(predicted("H200-SXM", "stas00/ml-engineering@1 a").predictedSeconds ==
        Approx(plain + 25e-6));
  const std::string azure = "Azure/AI-benchmarking-guide@1 a";
  CHECK(predicted("H200-SXM", azure).predictedSeconds > plain);
  CHECK(predicted("A100-SXM-80G", azure).unsupported ==
        "NCCL_ALGO=nvls on A100-SXM-80G");
}

TEST_CASE("every fitted constant is listed with its source") {
  std::map<std::string, int> counts;
  for (const FittedConstant &constant : fittedConstants()) {
    CHECK_FALSE(constant.source.empty());
    const std::string kind = constant.name.substr(0, constant.name.find('/'));
    ++counts[kind == "shared"
                 ? kind
                 : constant.name.substr(0, constant.name.rfind('/'))];
  }
  CHECK(counts.at("shared") <= 12);
  for (const std::string &name : shippedProfileNames())
    CHECK(counts.at("profile/" + name) <= 6);
}

TEST_CASE("a row that is given twice is read once") {
  std::vector<ValidationRow> rows;
  Failure failure;
  int64_t repeats = 0;
  const std::string text = line() + "\n" + named("b", line()) + "\n";
  REQUIRE(readValidationRows(text, "r.jsonl", rows, failure, &repeats));
  CHECK(repeats == 0);
  REQUIRE(readValidationRows(text + line(), "again.jsonl", rows, failure,
                             &repeats));
  CHECK(repeats == 3);
  CHECK(rows.size() == 2);
  // Another measurement under the name of one that is known.
  REQUIRE(readValidationRows(edited(line(), "0.25}", "0.26}"), "o.jsonl", rows,
                             failure, &repeats));
  CHECK(repeats == 3);
  CHECK(rows.size() == 3);
}

TEST_CASE("unknown, missing and duplicate keys of a row are errors") {
  const auto refusal = [](const std::string &text) {
    std::vector<ValidationRow> rows;
    Failure failure;
    REQUIRE_FALSE(readValidationRows(text, "r.jsonl", rows, failure));
    return failure.messages.front().text;
  };
  CHECK(refusal(edited(line(), "\"grade\"", "\"class\": 1, \"grade\"")) ==
        "r.jsonl:1#/class: unknown key");
  CHECK(refusal("\n" + edited(line(), "\"grade\": \"A\",", "")) ==
        "r.jsonl:2#/grade: expected a value, but the key is missing");
  CHECK(refusal(edited(line(), "\"tp\": 4", "\"tp\": 4, \"tp\": 2")) ==
        "r.jsonl:1#/parallel/tp: expected every key once, but got it twice");
  CHECK(refusal(edited(line(), "\"tp\": 4", "\"tp\": 0")) ==
        "r.jsonl:1#/parallel/tp: expected an integer >= 1, but got 0");
}

TEST_CASE(
    "modules that a row recomputes, graphs and routing reach its profile") {
  const auto caseOf = [](const std::string &extra) {
    const ValidationRow row = rowOf(edited(
        line(), "\"framework\": \"megatron\", \"software_year\": 2022",
        "\"framework\": \"megatron-core\", \"software_year\": 2025, " + extra));
    Program program;
    Failure failure;
    REQUIRE(llamaOf(row.model, program, failure));
    ValidationCase result;
    REQUIRE(validationCase(row, program, result).empty());
    return result;
  };
  const ValidationCase some =
      caseOf("\"recompute_text\": \"selective:layernorm,moe_act\", "
             "\"features\": {\"cuda_graph\": \"transformer_engine\"}");
  CHECK(some.profile.redoes("mlp_norm"));
  CHECK(some.profile.redoes("expert_act"));
  CHECK_FALSE(some.profile.redoes("core_attention"));
  CHECK(some.profile.graphs == GraphCapture::Layers);
  // Modules are redone op by op, on top of what is saved without recomputation.
  for (const StageRun &run : some.plan.stages[1].runs)
    CHECK(run.recompute == Recompute::None);
  const ValidationCase core =
      caseOf("\"recompute_text\": \"selective:core_attn\", "
             "\"features\": {\"cuda_graph\": \"none:none\"}");
  CHECK(core.profile.redoneLabels.empty());
  CHECK(core.profile.graphs == GraphCapture::None);
  CHECK(core.plan.stages[0].runs.back().recompute == Recompute::Selective);
  CHECK(caseOf("\"features\": {\"cuda_graph\": \"local:full_iteration\"}")
            .profile.graphs == GraphCapture::Whole);
}
