//===- ExpertModels.cpp - Configs of models with experts, for tests -------===//
#include "ExpertModels.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

namespace shardwright {

const std::string mixtral = R"({"model_type": "mixtral",
  "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "num_experts_per_tok": 2, "vocab_size": 32000, "rope_theta": 1000000.0,
  "rms_norm_eps": 1e-05, "sliding_window": null, "router_aux_loss_coef": 0.02,
  "max_position_embeddings": 32768})";

const std::string mixtralAllHeads = R"({"model_type": "mixtral",
  "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
  "intermediate_size": 14336, "moe_frequency": 1, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 32,
  "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
  "use_flash_attention": true, "max_position_embeddings": 4096})";

const std::string mixtralLarge = R"({"model_type": "mixtral",
  "architectures": ["MixtralForCausalLM"], "hidden_size": 6144,
  "intermediate_size": 16384, "num_hidden_layers": 56,
  "num_attention_heads": 48, "num_key_value_heads": 8, "num_local_experts": 8,
  "num_experts_per_tok": 2, "vocab_size": 32000, "rope_theta": 1000000,
  "max_position_embeddings": 65536, "sliding_window": null})";

static std::string deepseek(const std::string &more) {
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

static std::string glm(const std::string &more) {
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

} // namespace shardwright
