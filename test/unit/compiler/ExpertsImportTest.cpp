//===- ExpertsImportTest.cpp - Models with experts: totals and layers -----===//
//
// Totals are those of the published checkpoints (sum over the tensors of their
// index); active counts take top-k of the experts.
//
//===----------------------------------------------------------------------===//
#include "ExpertModels.h"

#include "cost_model/program/ProgramJson.h"

#include <catch2/catch.hpp>

using namespace shardwright;
using namespace shardwright::cost;

TEST_CASE("totals and active counts of published models") {
  struct Case {
    const char *name;
    const std::string &config;
    int64_t total, active;
    const char *stack;
  };
  const Case cases[] = {
      {"Mixtral 8x7B", mixtral, 46702792704, 12879925248,
       "1 embed 32 moe 1 head"},
      // A training example of that name whose heads all have keys of their own.
      {"Mixtral 8x7B, 32 key/value heads", mixtralAllHeads, 47508099072,
       13685231616, "1 embed 32 moe 1 head"},
      {"Mixtral 8x22B", mixtralLarge, 140620634112, 39152031744,
       "1 embed 56 moe 1 head"},
      {"DeepSeek-V3", deepseekV3, 671026419200, 37552297472,
       "1 embed 3 dense 58 moe 1 head"},
      {"Kimi K2", kimiK2, 1026408232448, 32861500928,
       "1 embed 1 dense 60 moe 1 head"},
      {"DeepSeek-V2-Lite", deepseekV2Lite, 15706484224, 2661150208,
       "1 embed 1 dense 26 moe 1 head"},
      {"Qwen3-Coder 480B", qwen3Coder, 480154875392, 35474765312,
       "1 embed 62 moe 1 head"},
      {"Qwen3 30B-A3B", qwen3Small, 30532122624, 3353032704,
       "1 embed 48 moe 1 head"},
      {"Qwen1.5-MoE A2.7B", qwen2Moe, 14315784192, 2689173504,
       "1 embed 24 moe 1 head"},
      {"OLMoE 1B-7B", olmoe, 6919161856, 1282017280, "1 embed 16 moe 1 head"},
      {"DBRX", dbrx, 131596523520, 36469708800, "1 embed 40 moe 1 head"},
      {"gpt-oss-120b", gptOss, 116829156672, 5711982912, nullptr},
      // Without the module that predicts one token more.
      {"GLM-4.5", glm45, 352797829024, 33632266144,
       "1 embed 3 dense 89 moe 1 head"},
      {"GLM-4.5-Air", glm45Air, 106852251264, 13424129664,
       "1 embed 1 dense 45 moe 1 head"},
      // Without the vision tower.
      {"Llama-4-Scout", scout, 107769861120, 17172894720, nullptr},
  };
  for (const Case &c : cases) {
    INFO(c.name);
    const Program program = programOf(c.config, 256);
    CHECK(parameterCount(program) == c.total);
    CHECK(activeParameterCount(program) == c.active);
    if (c.stack)
      CHECK(stackText(program) == c.stack);
    // What is written is read.
    Program read;
    Failure failure;
    REQUIRE(readProgram(programJson(program), "p", read, failure));
    CHECK(read == program);
  }
}

TEST_CASE("classes of experts: what a config leaves out") {
  const struct {
    const char *family;
    int64_t total;
    const char *noted;
  } cases[] = {
      // The classes of these are made after published models.
      {"mixtral", 46702792704, "num_local_experts 8, num_experts_per_tok 2"},
      // Twice as wide as OLMoE 1B-7B: 16 layers of 64 experts of 3 x 2048 x 1024
      // more.
      {"olmoe", 6919161856 + 16LL * 64 * 3 * 2048 * 1024,
       "num_experts 64, num_experts_per_tok 8"},
      {"gpt_oss", 116829156672, "num_local_experts 128"},
      {"deepseek_v3", 671026419200, "first_k_dense_replace 3"},
      {"llama4_text", 107769861120, "num_local_experts 16"},
      {"qwen2_moe", 14315784192, "shared_expert_intermediate_size 5632"},
  };
  for (const auto &c : cases) {
    INFO(c.family);
    ModelSpec spec;
    Failure failure;
    REQUIRE(parseHfConfig(R"({"model_type": ")" + std::string(c.family) + "\"}",
                          "config.json", spec, failure));
    Program program;
    REQUIRE(programFromSpec(spec, 256, program, failure));
    CHECK(parameterCount(program) == c.total);
    REQUIRE_FALSE(spec.notes.empty());
    CHECK(spec.notes.back().find(c.noted) != std::string::npos);
  }
  // This class has no number of experts a token.
  ModelSpec spec;
  Failure failure;
  CHECK_FALSE(parseHfConfig(R"({"model_type": "deepseek_v2"})", "config.json",
                            spec, failure));
  REQUIRE(failure.messages.size() == 1);
  CHECK(failure.messages[0].text.find("#/num_experts_per_tok: expected") !=
        std::string::npos);
  // No shared ones: null and 0.
  for (const char *none : {"null", "0"}) {
    REQUIRE(
        parseHfConfig(R"({"model_type": "deepseek_v3", "n_shared_experts": )" +
                          std::string(none) + "}",
                      "config.json", spec, failure));
    CHECK(spec.experts.sharedFfn == 0);
  }
}

TEST_CASE("DeepSeek without routed experts is dense") {
  // null says that there are none; the other keys of experts then say nothing.
  const Program program = programOf(
      R"({"model_type": "deepseek_v3", "n_routed_experts": null,
          "num_experts_per_tok": null, "first_k_dense_replace": 3})",
      256);
  CHECK(stackText(program) == "1 embed 61 dense 1 head");
  const int64_t hidden = 7168, heads = 128;
  const int64_t attention = hidden * 1536 + 1536 + 1536 * heads * 192 +
                            hidden * 576 + 512 + 512 * heads * 256 +
                            heads * 128 * hidden;
  const int64_t layer = attention + 2 * hidden + 3 * hidden * 18432;
  CHECK(parameterCount(program) ==
        61 * layer + 2 * 129280 * hidden + hidden);
  CHECK(activeParameterCount(program) == parameterCount(program));
}

TEST_CASE("layers of Llama 4: every fourth without positions") {
  const Program program = programOf(alternate, 256);
  CHECK(stackText(program).starts_with(
      "1 embed 1 dense 1 moe 1 dense 1 moe_unturned 1 dense 1 moe"));
  // The vision tower of both, which is left out: 34 layers of 1408, patches of
  // 14 x 14 x 3, 577 positions, and what turns it into 5120 columns.
  const int64_t v = 1408, m = 5632;
  const int64_t tower = 34 * (4 * (v * v + v) + 2 * m * v + m + v + 4 * v) +
                        (588 + 1 + 577 + 4) * v +
                        4096 * (m + 4096LL + 5120LL);
  // As published for Scout and Maverick.
  CHECK(parameterCount(programOf(scout, 256)) + tower == 108641793536);
  CHECK(parameterCount(program) + tower == 401583781376);
}

namespace {
/// Forward flops of the scores of a layer of `kind`: 4 d heads pairs.
int64_t scoreFlops(const Program &program, const char *kind) {
  int64_t flops = 0;
  for (const Op &op :
       program.kinds[kindIndex(program, kind)].variants.front().forward.ops)
    if (op.space.kernel == KernelClass::Attention)
      flops += flopsOf(op.space).count();
  return flops;
}
int countOf(const Program &program, const char *kind, const char *label) {
  int count = 0;
  for (const Op &o :
       program.kinds[kindIndex(program, kind)].variants.front().forward.ops)
    count += o.label == label;
  return count;
}
} // namespace

TEST_CASE("attention of Llama 4 past a chunk: local layers and full ones") {
  ModelSpec spec;
  Failure failure;
  REQUIRE(parseHfConfig(scout, "config.json", spec, failure));
  int64_t chosen = 0;
  // What the config states, 10M tokens, is no length that a question means.
  CHECK(chooseSequence(spec, 0, chosen, failure));
  CHECK(chosen == 8192);
  CHECK(chooseSequence(spec, 20000, chosen, failure));
  CHECK(chosen == 20000);

  const int64_t perPair = 4 * 128 * 40;
  auto triangle = [](int64_t s) { return s * (s + 1) / 2; };
  const Program one = programOf(scout, 8000);
  CHECK(scoreFlops(one, "moe") == perPair * triangle(8000));
  CHECK(scoreFlops(one, "moe_unturned") == perPair * triangle(8000));
  CHECK(countOf(one, "moe_unturned", "q_scale") == 0);
  // 20000 = 8192 + 8192 + 3616.
  const Program three = programOf(scout, 20000);
  CHECK(scoreFlops(three, "moe") ==
        perPair * (2 * triangle(8192) + triangle(3616)));
  CHECK(scoreFlops(three, "moe_unturned") == perPair * triangle(20000));
  // Queries without positions are scaled instead.
  CHECK(countOf(three, "moe_unturned", "q_scale") == 1);
  CHECK(countOf(three, "moe", "q_scale") == 0);
  CHECK(parameterCount(three) == parameterCount(one));

  // Other chunks, layers and scales, by the keys of the class.
  const Program own = programOf(
      llama4(R"("num_local_experts": 16, "no_rope_layer_interval": 2,
          "floor_scale": 512, "attn_scale": 0.2)"),
      1024);
  CHECK(countOf(own, "moe_unturned", "q_scale") == 1);
  CHECK(stackText(own).starts_with("1 embed 1 moe 1 moe_unturned 1 moe"));
  const Program off = programOf(
      llama4(R"("num_local_experts": 16, "attn_temperature_tuning": false)"),
      20000);
  CHECK(countOf(off, "moe_unturned", "q_scale") == 0);
  std::string types = R"("full_attention")";
  for (int layer = 1; layer < 48; ++layer)
    types += R"(, "full_attention")";
  const Program full = programOf(
      llama4(R"("num_local_experts": 16, "layer_types": [)" + types + "]"),
      20000);
  CHECK(scoreFlops(full, "moe_full") == perPair * triangle(20000));
}

TEST_CASE("lists of the layers of Llama 4") {
  auto stackOf = [](const std::string &lists) {
    return stackText(programOf(
        llama4(R"("num_local_experts": 16, )" + lists), 256));
  };
  std::string flags = "1";
  for (int layer = 1; layer < 48; ++layer)
    flags += layer == 2 ? ", 0" : ", 1";
  CHECK(stackOf(R"("moe_layers": [1], "no_rope_layers": [)" + flags + "]") ==
        "1 embed 1 dense 1 moe 1 dense_unturned 45 dense 1 head");
  const std::pair<const char *, const char *> wrong[] = {
      {R"("moe_layers": [48])",
       "/moe_layers/0: expected a layer number from 0 to 47, but got 48"},
      {R"("moe_layers": 2)",
       "/moe_layers: expected a list of layer numbers from 0 to 47, but got "
       "2"},
      {R"("layer_types": ["sliding_attention"])",
       "/layer_types: expected a list of num_hidden_layers (48) strings, but "
       "got 1"},
      {R"("no_rope_layers": [0, 1])",
       "expected a list of 0 or 1 for each of 48 layers"},
  };
  for (const auto &[list, why] : wrong) {
    ModelSpec spec;
    Failure failure;
    CHECK_FALSE(parseHfConfig(
        llama4(R"("num_local_experts": 16, )" + std::string(list)),
        "config.json", spec, failure));
    CHECK(failure.kind == FailureKind::Input);
    REQUIRE(failure.messages.size() == 1);
    CHECK(failure.messages[0].text.find(why) != std::string::npos);
  }
}

TEST_CASE("what is read past in a config of experts is noted") {
  const auto notes = [](const std::string &member) {
    ModelSpec spec;
    Failure failure;
    REQUIRE(parseHfConfig(mixtral.substr(0, mixtral.size() - 1) + ", " +
                              member + "}",
                          "config.json", spec, failure));
    std::string all;
    for (const std::string &note : spec.notes)
      all += note + "\n";
    return all;
  };
  CHECK(notes(R"("router_jitter_noise": 0.0)").empty());
  CHECK(notes(R"("router_jitter_noise": 0.1)").find("noise of the router") !=
        std::string::npos);
  CHECK(notes(R"("quantization_config": {"quant_method": "gptq", "bits": 4})")
            .find("read as not quantized") != std::string::npos);
}

TEST_CASE("what a config of experts may not say") {
  auto messages = [](const std::string &text) {
    ModelSpec spec;
    Failure failure;
    CHECK_FALSE(parseHfConfig(text, "config.json", spec, failure));
    std::string all;
    for (const std::string &message : failure.messages)
      all += message + "\n";
    return all;
  };
  auto with = [](std::string text, const std::string &from,
                 const std::string &to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  CHECK(messages(with(mixtral, "\"num_experts_per_tok\": 2",
                      "\"num_experts_per_tok\": 9"))
            .find("at most num_local_experts (8), but got 9") !=
        std::string::npos);
  CHECK(messages(with(deepseekV3, "\"n_group\": 8", "\"n_group\": 7"))
            .find("a divisor of n_routed_experts (256)") != std::string::npos);
  CHECK(messages(with(deepseekV3, "noaux_tc", "other")).find("topk_method") !=
        std::string::npos);
  CHECK(messages(with(qwen3Coder, "\"mlp_only_layers\": []",
                      "\"mlp_only_layers\": [62]"))
            .find("#/mlp_only_layers/0: expected a layer number from 0 to 61, "
                  "but got 62") != std::string::npos);
  CHECK(messages(with(qwen3Coder, "\"mlp_only_layers\": []",
                      "\"mlp_only_layers\": [\"x\", 3.5]"))
            .find("#/mlp_only_layers/1: expected a layer number from 0 to 61, "
                  "but got 3.5") != std::string::npos);
  CHECK(messages(with(mixtralAllHeads, "\"moe_frequency\": 1",
                      "\"moe_frequency\": 2"))
            .find("#/moe_frequency: expected 1, but got 2") !=
        std::string::npos);
}

TEST_CASE("models of published tables build with experts and later tokens") {
  ModelShape shape;
  shape.name = "shape";
  shape.layers = 4;
  shape.hidden = 5120;
  shape.ffn = 12288;
  shape.heads = 128;
  shape.vocab = 102400;
  shape.sequence = 256;
  shape.gated = true;
  shape.experts = 160;
  shape.topK = 6;
  shape.expertFfn = 1536;
  shape.sharedFfn = 3072;
  shape.denseLayers = 1;
  shape.latent = {512, 1536, 128, 64, 128};
  Program program, later;
  Failure failure;
  REQUIRE(programFromSpec(specFromShape(shape), 256, program, failure));
  CHECK(stackText(program) == "1 embed 1 dense 3 moe 1 head");
  shape.mtpLayers = 1;
  REQUIRE(programFromSpec(specFromShape(shape), 256, later, failure));
  // One more layer, a 2h x h projection and three norms; tables are shared.
  const Kind &moe = program.kinds[kindIndex(program, "moe")];
  int64_t layer = 0;
  for (const Parameter &parameter : moe.parameters)
    layer += elementCount(parameter);
  CHECK(parameterCount(later) ==
        parameterCount(program) + layer + 2 * 5120 * 5120 + 3 * 5120);
  CHECK(modelFlopsPerToken(later, FlopsConvention::CausalHalved) >
        modelFlopsPerToken(program, FlopsConvention::CausalHalved));
}
