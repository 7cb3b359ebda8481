//===- ExpertsTest.cpp - Experts, latent attention: totals and ledgers ----===//
//
// Totals are those of the published checkpoints (sum over the tensors of their
// index); active counts take top-k of the experts.
//
//===----------------------------------------------------------------------===//
#include "compiler/Driver/Load.h"
#include "cost_model/Json.h"
#include "cost_model/Layout.h"
#include "cost_model/Ledger.h"
#include "cost_model/ProgramEstimator.h"
#include "cost_model/Rules.h"

#include <catch2/catch.hpp>

using namespace shardwright;
using namespace shardwright::cost;

namespace {

const std::string mixtral = R"({"model_type": "mixtral",
  "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "num_experts_per_tok": 2, "vocab_size": 32000, "rope_theta": 1000000.0,
  "rms_norm_eps": 1e-05, "sliding_window": null, "router_aux_loss_coef": 0.02,
  "max_position_embeddings": 32768})";

std::string deepseek(const std::string &more) {
  return R"({"model_type": "deepseek_v3",
  "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168,
  "intermediate_size": 18432, "kv_lora_rank": 512, "q_lora_rank": 1536,
  "moe_intermediate_size": 2048, "n_shared_experts": 1, "norm_topk_prob": true,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "scoring_func": "sigmoid",
  "topk_method": "noaux_tc", "rms_norm_eps": 1e-06, "rope_theta": 10000,
  "quantization_config": {"quant_method": "fp8"},
  "max_position_embeddings": 163840, "rope_scaling": {"beta_fast": 32,
    "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "type": "yarn"}, )" +
         more + "}";
}
const std::string deepseekV3 =
    deepseek(R"("first_k_dense_replace": 3, "n_group": 8, "topk_group": 4,
  "n_routed_experts": 256, "num_attention_heads": 128,
  "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "routed_scaling_factor": 2.5, "vocab_size": 129280)");
const std::string kimiK2 =
    deepseek(R"("first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
  "n_routed_experts": 384, "num_attention_heads": 64, "num_key_value_heads": 64,
  "routed_scaling_factor": 2.827, "seq_aux": true, "aux_loss_alpha": 0.001,
  "vocab_size": 163840)");

const std::string deepseekV2Lite = R"({"model_type": "deepseek_v2",
  "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 2048,
  "intermediate_size": 10944, "kv_lora_rank": 512, "q_lora_rank": null,
  "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
  "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_attention_heads": 16,
  "num_key_value_heads": 16, "first_k_dense_replace": 1, "moe_layer_freq": 1,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "scoring_func": "softmax", "topk_method": "greedy", "seq_aux": true,
  "aux_loss_alpha": 0.001, "max_position_embeddings": 163840,
  "vocab_size": 102400})";

const std::string qwen3Coder = R"({"model_type": "qwen3_moe",
  "hidden_size": 6144, "intermediate_size": 8192, "head_dim": 128,
  "moe_intermediate_size": 2560, "num_experts": 160, "num_experts_per_tok": 8,
  "num_hidden_layers": 62, "num_attention_heads": 96, "num_key_value_heads": 8,
  "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [],
  "shared_expert_intermediate_size": 0, "use_qk_norm": true, "qkv_bias": false,
  "sliding_window": null, "use_sliding_window": false, "max_window_layers": 62,
  "rope_theta": 10000000, "router_aux_loss_coef": 0.0, "vocab_size": 151936,
  "max_position_embeddings": 262144})";

const std::string qwen3Small = R"({"model_type": "qwen3_moe",
  "hidden_size": 2048, "intermediate_size": 6144, "head_dim": 128,
  "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
  "norm_topk_prob": true, "vocab_size": 151936,
  "max_position_embeddings": 40960})";

// A shared expert with a gate of its own.
const std::string qwen2Moe = R"({"model_type": "qwen2_moe",
  "hidden_size": 2048, "intermediate_size": 5632,
  "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
  "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
  "num_attention_heads": 16, "num_key_value_heads": 16,
  "norm_topk_prob": false, "decoder_sparse_step": 1,
  "use_sliding_window": false, "sliding_window": 32768,
  "max_window_layers": 21, "vocab_size": 151936,
  "max_position_embeddings": 8192})";

const std::string olmoe = R"({"model_type": "olmoe", "hidden_size": 2048,
  "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
  "num_hidden_layers": 16, "num_attention_heads": 16,
  "num_key_value_heads": 16, "clip_qkv": null, "norm_topk_prob": false,
  "vocab_size": 50304, "max_position_embeddings": 4096})";

const std::string gptOss = R"({"model_type": "gpt_oss", "hidden_size": 2880,
  "intermediate_size": 2880, "head_dim": 64, "num_local_experts": 128,
  "num_experts_per_tok": 4, "experts_per_token": 4, "num_hidden_layers": 36,
  "num_attention_heads": 64, "num_key_value_heads": 8, "attention_bias": true,
  "sliding_window": 128, "swiglu_limit": 7.0, "rope_theta": 150000,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
    "original_max_position_embeddings": 4096, "rope_type": "yarn",
    "truncate": false},
  "vocab_size": 201088, "max_position_embeddings": 131072})";

const std::string dbrx = R"({"model_type": "dbrx", "d_model": 6144,
  "n_heads": 48, "n_layers": 40, "max_seq_len": 32768, "vocab_size": 100352,
  "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
  "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16,
    "moe_top_k": 4, "moe_loss_weight": 0.05, "ffn_act_fn": {"name": "silu"}}})";

std::string glm(const std::string &more) {
  return R"({"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"],
  "attention_bias": true, "head_dim": 128, "partial_rotary_factor": 0.5,
  "max_position_embeddings": 131072, "n_group": 1, "topk_group": 1,
  "norm_topk_prob": true, "num_attention_heads": 96, "num_key_value_heads": 8,
  "num_experts_per_tok": 8, "n_shared_experts": 1,
  "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
  "rope_theta": 1000000, "vocab_size": 151552, )" +
         more + "}";
}
const std::string glm45 = glm(R"("hidden_size": 5120,
  "intermediate_size": 12288, "moe_intermediate_size": 1536,
  "n_routed_experts": 160, "routed_scaling_factor": 2.5,
  "first_k_dense_replace": 3, "num_hidden_layers": 92, "use_qk_norm": true)");
const std::string glm45Air = glm(R"("hidden_size": 4096,
  "intermediate_size": 10944, "moe_intermediate_size": 1408,
  "n_routed_experts": 128, "routed_scaling_factor": 1.0,
  "first_k_dense_replace": 1, "num_hidden_layers": 46, "use_qk_norm": false)");

// Wrapped, as published; every fourth layer has no positions.
std::string llama4(const std::string &more) {
  return R"({"model_type": "llama4",
  "architectures": ["Llama4ForConditionalGeneration"], "text_config": {
    "model_type": "llama4_text", "attention_chunk_size": 8192,
    "head_dim": 128, "hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "max_position_embeddings": 10485760,
    "num_attention_heads": 40, "num_key_value_heads": 8,
    "num_experts_per_tok": 1, "num_hidden_layers": 48, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 16.0, "high_freq_factor": 1.0,
      "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"},
    "rope_theta": 500000.0, "use_qk_norm": true, "vocab_size": 202048, )" +
         more + "}}";
}
const std::string scout =
    llama4(R"("num_local_experts": 16, "interleave_moe_layer_step": 1)");
const std::string alternate =
    llama4(R"("num_local_experts": 128, "interleave_moe_layer_step": 2)");

Program programOf(const std::string &text, int64_t sequence) {
  ModelSpec spec;
  Failure failure;
  Program program;
  bool good = parseHfConfig(text, "config.json", spec, failure) &&
              programFromSpec(spec, sequence, program, failure);
  INFO((failure.messages.empty() ? "" : failure.messages[0].text));
  REQUIRE(good);
  return program;
}

std::string stackText(const Program &program) {
  std::string text;
  for (const Run &run : program.stack)
    text += (text.empty() ? "" : " ") + std::to_string(run.count) + " " +
            program.kinds[run.kind].name;
  return text;
}

Plan planOf(const Program &program, int64_t dp, int64_t tp, int64_t ep,
            int64_t etp, Recompute policy = Recompute::None) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.ep = ep;
  plan.etp = etp;
  plan.sp = tp > 1;
  plan.globalBatch = dp;
  plan.sequence = program.sequence;
  plan.stages = evenStages(program, 1, policy);
  setMesh(plan);
  return plan;
}

LedgerEntry entryOf(const Ledger &ledger, Collective collective,
                    const std::string &axis, Phase phase) {
  auto found = ledger.collectives.find({collective, axis, phase});
  return found == ledger.collectives.end() ? LedgerEntry() : found->second;
}

} // namespace

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

TEST_CASE("attention of one chunk of Llama 4 is causal attention") {
  ModelSpec spec;
  Failure failure;
  REQUIRE(parseHfConfig(scout, "config.json", spec, failure));
  int64_t chosen = 0;
  CHECK(chooseSequence(spec, 0, chosen, failure));
  CHECK(chosen == 8192);
  CHECK(chooseSequence(spec, 8192, chosen, failure));
  CHECK_FALSE(chooseSequence(spec, 8193, chosen, failure));
  CHECK(failure.kind == FailureKind::Unsupported);
  CHECK(failure.messages[0].text.find("at most 8192") != std::string::npos);
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
      {R"("moe_layers": [48])", "expected a list of layer numbers"},
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

TEST_CASE("every policy of an expert layer has its three functions") {
  for (const std::string *config :
       {&mixtral, &deepseekV3, &gptOss, &dbrx, &glm45, &scout}) {
    const Program program = programOf(*config, 128);
    for (const Kind &kind : program.kinds) {
      if (!takesStream(kind) || !givesStream(kind))
        continue;
      CHECK(kind.variants.size() == 3);
      for (const KindVariant &variant : kind.variants) {
        CHECK_FALSE(variant.forward.empty());
        CHECK_FALSE(variant.dataGrad.empty());
        size_t gradients = 0;
        for (const Result &result : variant.weightGrad.results)
          gradients += result.kind == ResultKind::ParameterGrad;
        CHECK(gradients == kind.parameters.size());
      }
    }
  }
}

TEST_CASE("keys and values of latent attention come from narrow latents") {
  const Program program = programOf(deepseekV3, 128);
  const Kind &moe = program.kinds[kindIndex(program, "moe")];
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter &parameter : moe.parameters)
    for (const Dim &dim : parameter.dims)
      shapes[parameter.hfName + "+" + std::to_string(parameter.hfOffset)]
          .push_back(dim.size);
  using Shape = std::vector<int64_t>;
  const std::string a = "model.layers.{}.self_attn.";
  CHECK(shapes[a + "q_a_proj.weight+0"] == Shape{1536, 7168});
  CHECK(shapes[a + "q_b_proj.weight+0"] == Shape{128, 1, 128, 1536});
  CHECK(shapes[a + "kv_a_proj_with_mqa.weight+0"] == Shape{512, 7168});
  // Row 512 of the same tensor on: the rotary key that all heads share.
  CHECK(shapes[a + "kv_a_proj_with_mqa.weight+" + std::to_string(512 * 7168)] ==
        Shape{64, 7168});
  CHECK(shapes[a + "kv_b_proj.weight+0"] == Shape{128, 128, 512});
  CHECK(shapes[a + "kv_b_proj.weight+" + std::to_string(128 * 512)] ==
        Shape{128, 128, 512});
  CHECK(shapes[a + "o_proj.weight+0"] == Shape{7168, 128, 1, 128});
  CHECK(shapes["model.layers.{}.mlp.gate.e_score_correction_bias+0"] ==
        Shape{256});
}

TEST_CASE("flops of an expert layer: top-k of the experts work on a token") {
  // Mixtral, one token forward: q and o 2 * 4096^2, k and v 2 * 4096 * 1024,
  // router 8 * 4096, two experts of 3 * 4096 * 14336; head 32000 * 4096;
  // attention 2 * 2 * 4096 * (s + 1) / 2. Twice that as multiply-adds, three
  // times for training.
  const int64_t s = 4096;
  const Program program = programOf(mixtral, s);
  const double layer = 2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 8 * 4096.0 +
                       2 * 3 * 4096.0 * 14336 +
                       2 * 4096.0 * (s + 1) / 2; // scores and values
  const double token = 3 * 2 * (32 * layer + 32000.0 * 4096);
  CHECK(modelFlopsPerToken(program, FlopsConvention::CausalHalved) ==
        Approx(token).epsilon(1e-12));
}

TEST_CASE("Mixtral 8x7B on 8 ranks with ep 8, by hand") {
  const Program program = programOf(mixtral, 4096);
  const Plan plan = planOf(program, 8, 1, 8, 1);
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);

  // One sequence of 4,096 tokens a rank, two choices: 8,192 rows of 4,096 bf16
  // numbers, 64 MiB; per layer there and back. With them go a weight and an
  // expert of every row, 4 bytes each. Backward the same way without experts,
  // and the weights' gradients come back.
  const int64_t rows = 4096 * 2, wide = rows * 4096 * 2, narrow = rows * 4;
  CHECK(wide == 67108864);
  LedgerEntry forward =
      entryOf(ledger, Collective::AllToAll, "ep", Phase::Forward);
  CHECK(forward.calls == 32 * 4);
  CHECK(forward.payload == Bytes(32 * (2 * wide + 2 * narrow)));
  LedgerEntry backward =
      entryOf(ledger, Collective::AllToAll, "ep", Phase::DataGrad);
  CHECK(backward.calls == 32 * 3);
  CHECK(backward.payload == Bytes(32 * (2 * wide + narrow)));
  CHECK(entryOf(ledger, Collective::AllToAll, "ep", Phase::WeightGrad).calls ==
        0);

  // One expert a layer: 3 * 4096 * 14336; attention 2 * 4096^2 + 2 * 4096 *
  // 1024, two norms, a router of 8 * 4096.
  const int64_t expert = 3 * 4096 * 14336;
  const int64_t rest = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 2 * 4096 + 8 * 4096;
  const int64_t parameters = 32 * (expert + rest) + 2 * 32000 * 4096 + 4096;
  CHECK(ledger.memory.parameters == Bytes(2 * parameters));

  // Experts' gradients are whole on their rank; all others are summed over dp.
  int64_t reduced = 0;
  for (const auto &[key, entry] : ledger.collectives)
    if (key.phase == Phase::Reduce) {
      CHECK(key.axis == "dp");
      reduced += entry.payload.count();
    }
  CHECK(reduced == 4 * (parameters - 32 * expert));
}

TEST_CASE("two groups of experts: their gradients are summed over edp alone") {
  const Program program = programOf(mixtral, 1024);
  Plan plan = planOf(program, 16, 1, 8, 1);
  plan.zero = 1;
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);
  const int64_t expert = 3 * 4096 * 14336;
  LedgerEntry experts =
      entryOf(ledger, Collective::ReduceScatter, "edp", Phase::Reduce);
  CHECK(experts.calls == 32);
  CHECK(experts.payload == Bytes(32 * 4 * expert));
  CHECK(entryOf(ledger, Collective::AllGather, "edp", Phase::Update).payload ==
        Bytes(32 * 2 * expert / 2));
  CHECK(entryOf(ledger, Collective::ReduceScatter, "dp", Phase::Reduce).calls >
        0);
  // Two of 16 ranks hold the same expert: half of its state each.
  const ParameterBlock block =
      parameterBlock(plan, program.kinds[kindIndex(program, "moe")]);
  CHECK(block.buckets.back().shards == 2);
  CHECK(block.buckets.front().shards == 16);
}

TEST_CASE("tensor parallel experts gather rows and scatter their sums") {
  const Program program = programOf(mixtral, 1024);
  const Plan plan = planOf(program, 2, 2, 2, 2);
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);
  // 1,024 tokens over 2 tensor ranks: 1,024 rows a rank, 8 MiB.
  const int64_t wide = 1024 * 4096 * 2;
  CHECK(entryOf(ledger, Collective::AllToAll, "ep", Phase::Forward).payload ==
        Bytes(32 * (2 * wide + 2 * 1024 * 4)));
  // Rows are gathered over etp behind it (with their weights and experts), on
  // the axis that is also tp.
  CHECK(entryOf(ledger, Collective::AllGather, "tp", Phase::Forward).payload >=
        Bytes(32 * (wide + 2 * 1024 * 4)));
  CHECK(entryOf(ledger, Collective::ReduceScatter, "tp", Phase::Forward)
            .payload >= Bytes(32 * 2 * wide));
}

TEST_CASE("full recomputation sends the rows again") {
  const Program program = programOf(mixtral, 1024);
  const Ledger none = predictLedger(program, planOf(program, 8, 1, 8, 1), 0);
  const Ledger full =
      predictLedger(program, planOf(program, 8, 1, 8, 1, Recompute::Full), 0);
  // There again, with weights and experts, but not back.
  CHECK(entryOf(full, Collective::AllToAll, "ep", Phase::DataGrad).calls ==
        entryOf(none, Collective::AllToAll, "ep", Phase::DataGrad).calls +
            32 * 3);
  CHECK(full.memory.saved < none.memory.saved);
}

TEST_CASE("plans of DeepSeek-V3 are legal and their stages hold the stack") {
  const Program program = programOf(deepseekV3, 4096);
  Plan plan = planOf(program, 64, 1, 64, 1);
  plan.pp = 16;
  plan.globalBatch = 64 * 16;
  plan.zero = 1;
  plan.stages = evenStages(program, 16, Recompute::Full);
  setMesh(plan);
  CHECK(checkPlan(program, plan).empty());
  plan.tp = 8;
  plan.sp = true;
  setMesh(plan);
  CHECK(checkPlan(program, plan).empty());
  CHECK(predictLedgers(program, plan).size() == 16);
  plan.ep = 96; // 256 experts
  CHECK_FALSE(checkPlan(program, plan).empty());
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
            .find("mlp_only_layers") != std::string::npos);
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

TEST_CASE("the search over expert degrees agrees with brute force") {
  // One dense and three expert layers: stages differ in what they hold.
  ModelShape shape;
  shape.name = "tiny";
  shape.layers = 4;
  shape.hidden = 512;
  shape.ffn = 1024;
  shape.heads = 8;
  shape.vocab = 4096;
  shape.sequence = 512;
  shape.gated = true;
  shape.experts = 8;
  shape.topK = 2;
  shape.expertFfn = 512;
  shape.denseLayers = 1;
  Program program;
  Failure failure;
  REQUIRE(programFromSpec(specFromShape(shape), 512, program, failure));
  Hardware node, hardware;
  REQUIRE(readHardware(shippedHardware("dgx-h100"), "h", node, failure));
  REQUIRE(resized(node, 8, hardware, failure));
  Profile profile;
  REQUIRE(readProfile(shippedProfile("native"), "p", profile, failure));
  Plan base;
  base.globalBatch = 8;
  base.sequence = 512;
  base.dtypes = profile.dtypes;
  const ProgramEstimator estimator(program, hardware, profile, base);

  SearchOptions options;
  options.gpus = 8;
  options.globalBatch = 8;
  options.layers = 4;
  options.experts = 8;
  options.policies = searchedPolicies(program);
  options.top = 1;
  auto fix = [&](Field field, int64_t value) {
    options.ranges[static_cast<int>(field)] = {value, value};
  };
  fix(Field::Schedule, static_cast<int64_t>(ScheduleKind::OneFOneB));
  fix(Field::FullLayers, -1);

  struct Priced {
    double time;
    Bytes memory;
    Candidate candidate;
  };
  std::vector<Priced> all;
  for (int64_t tp : divisors(8))
    for (int64_t pp : divisors(8 / tp)) {
      if (pp > 4)
        continue;
      const int64_t dp = 8 / tp / pp;
      for (int64_t ep : divisors(dp * tp))
        for (int64_t micro : divisors(8 / dp))
          for (int zero = 0; zero <= (dp > 1 ? 1 : 0); ++zero)
            for (Recompute policy : options.policies)
              for (const Split &split : splits(4, pp, {})) {
                Candidate c;
                c.dp = dp;
                c.tp = tp;
                c.pp = pp;
                c.ep = ep;
                c.sp = tp > 1;
                c.microBatch = micro;
                c.zero = zero;
                c.recompute = policy;
                c.firstLayers = split.first;
                c.lastLayers = split.last;
                if (!estimator.check(c, Depth::Complete).empty())
                  continue;
                all.push_back({estimator.estimate(c).stepTime.count(),
                               estimator.memory(c), c});
              }
    }
  REQUIRE(all.size() > 100);
  for (int64_t percent : {100, 60, 30}) {
    Bytes most(0);
    for (const Priced &priced : all)
      most = std::max(most, priced.memory);
    options.memoryLimit = Bytes(most.count() / 100 * percent + 1);
    double best = 0;
    for (const Priced &priced : all)
      if (priced.memory < options.memoryLimit &&
          (best == 0 || priced.time < best))
        best = priced.time;
    const SearchResult result = search(estimator, options);
    INFO(percent);
    REQUIRE((best > 0) == !result.plans.empty());
    if (best == 0)
      continue;
    CHECK(result.counters.proven);
    CHECK(result.counters.considered == static_cast<int64_t>(all.size()));
    CHECK(result.plans[0].estimate.stepTime.count() == Approx(best));
  }
}
