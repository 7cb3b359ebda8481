// Published configs of every family: exact parameter totals, those of the
// published checkpoints.
#include "Configs.h"

using namespace shardwright;
using namespace shardwright::test;

namespace {

struct Published {
  const char *name, *config;
  int64_t parameters;
};

const Published published[] = {
    {"Mistral-7B-v0.1", R"({"model_type": "mistral", "hidden_size": 4096,
      "intermediate_size": 14336, "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096,
      "max_position_embeddings": 32768, "vocab_size": 32000})",
     7241732096},
    {"Devstral-Small-2507", R"({"model_type": "mistral", "head_dim": 128,
      "hidden_size": 5120, "intermediate_size": 32768,
      "num_attention_heads": 32, "num_hidden_layers": 40,
      "num_key_value_heads": 8, "sliding_window": null,
      "max_position_embeddings": 131072, "vocab_size": 131072})",
     23572403200},
    {"Qwen2-7B", R"({"model_type": "qwen2", "hidden_size": 3584,
      "intermediate_size": 18944, "max_window_layers": 28,
      "num_attention_heads": 28, "num_hidden_layers": 28,
      "num_key_value_heads": 4, "sliding_window": 131072,
      "use_sliding_window": false, "max_position_embeddings": 32768,
      "tie_word_embeddings": false, "vocab_size": 152064})",
     7615616512},
    {"Qwen2.5-3B", R"({"model_type": "qwen2", "hidden_size": 2048,
      "intermediate_size": 11008, "num_attention_heads": 16,
      "num_hidden_layers": 36, "num_key_value_heads": 2, "use_mrope": false,
      "max_position_embeddings": 32768, "tie_word_embeddings": true,
      "vocab_size": 151936})",
     3085938688},
    {"cogito-v1-qwen-14B, an odd vocabulary", R"({"model_type": "qwen2",
      "hidden_size": 5120, "intermediate_size": 13824,
      "num_attention_heads": 40, "num_hidden_layers": 48,
      "num_key_value_heads": 8, "max_position_embeddings": 131072,
      "rope_scaling": null, "vocab_size": 151665})",
     14765947904},
    {"Qwen3-0.6B", R"({"model_type": "qwen3", "head_dim": 128,
      "hidden_size": 1024, "intermediate_size": 3072,
      "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 8, "max_position_embeddings": 40960,
      "tie_word_embeddings": true, "vocab_size": 151936})",
     596049920},
    {"Qwen3-4B", R"({"model_type": "qwen3", "head_dim": 128,
      "hidden_size": 2560, "intermediate_size": 9728,
      "num_attention_heads": 32, "num_hidden_layers": 36,
      "num_key_value_heads": 8, "max_position_embeddings": 40960,
      "tie_word_embeddings": true, "vocab_size": 151936})",
     4022468096},
    {"Qwen3-8B", R"({"model_type": "qwen3", "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 12288,
      "num_attention_heads": 32, "num_hidden_layers": 36,
      "num_key_value_heads": 8, "max_position_embeddings": 40960,
      "vocab_size": 151936})",
     8190735360},
    {"Qwen-7B", R"({"model_type": "qwen", "hidden_size": 4096,
      "intermediate_size": 22016, "kv_channels": 128, "no_bias": true,
      "num_attention_heads": 32, "num_hidden_layers": 32, "onnx_safe": null,
      "max_position_embeddings": 32768, "seq_length": 8192,
      "vocab_size": 151936})",
     7721324544},
    {"Gemma-7B", R"({"model_type": "gemma", "head_dim": 256,
      "hidden_act": "gelu", "hidden_size": 3072, "intermediate_size": 24576,
      "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 16, "max_position_embeddings": 8192,
      "vocab_size": 256000})",
     8537680896},
    {"Gemma-2B", R"({"model_type": "gemma", "hidden_size": 2048,
      "intermediate_size": 16384, "num_attention_heads": 8,
      "num_hidden_layers": 18, "num_key_value_heads": 1,
      "max_position_embeddings": 8192, "vocab_size": 256000})",
     2506172416},
    {"Gemma-2-2B", R"({"model_type": "gemma2", "head_dim": 256,
      "hidden_size": 2304, "intermediate_size": 9216,
      "num_attention_heads": 8, "num_hidden_layers": 26,
      "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
      "max_position_embeddings": 8192, "vocab_size": 256000})",
     2614341888},
    {"Gemma-3-270m", R"({"model_type": "gemma3_text", "head_dim": 256,
      "hidden_size": 640, "intermediate_size": 2048, "num_attention_heads": 4,
      "num_hidden_layers": 18, "num_key_value_heads": 1,
      "_sliding_window_pattern": 6, "sliding_window": 512,
      "max_position_embeddings": 32768, "vocab_size": 262144})",
     268098176},
    {"Gemma-3-1B", R"({"model_type": "gemma3_text", "head_dim": 256,
      "hidden_size": 1152, "intermediate_size": 6912,
      "num_attention_heads": 4, "num_hidden_layers": 26,
      "num_key_value_heads": 1, "sliding_window": 512,
      "max_position_embeddings": 32768, "vocab_size": 262144})",
     999885952},
    {"GPT-NeoX-20B", R"({"model_type": "gpt_neox", "hidden_act": "gelu_fast",
      "hidden_size": 6144, "intermediate_size": 24576,
      "num_attention_heads": 64, "num_hidden_layers": 44, "rotary_pct": 0.25,
      "tie_word_embeddings": false, "vocab_size": 50432})",
     20554567680},
    {"OPT-125m", R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072,
      "num_attention_heads": 12, "num_hidden_layers": 12,
      "max_position_embeddings": 2048, "word_embed_proj_dim": 768,
      "do_layer_norm_before": true, "vocab_size": 50272})",
     125239296},
    {"BLOOM", R"({"model_type": "bloom", "n_embed": 14336, "n_layer": 70,
      "num_attention_heads": 112, "vocab_size": 250880,
      "masked_softmax_fusion": true, "pretraining_tp": 4})",
     176247271424},
    {"Falcon-7B", R"({"model_type": "falcon", "hidden_size": 4544,
      "num_attention_heads": 71, "num_hidden_layers": 32, "bias": false,
      "alibi": false, "multi_query": true, "parallel_attn": true,
      "new_decoder_architecture": false, "vocab_size": 65024})",
     6921720704},
    {"Falcon-40B", R"({"model_type": "falcon", "hidden_size": 8192,
      "num_attention_heads": 128, "num_kv_heads": 8, "num_hidden_layers": 60,
      "new_decoder_architecture": true, "vocab_size": 65024})",
     41303293952},
    {"Phi-2", R"({"model_type": "phi", "hidden_size": 2560,
      "intermediate_size": 10240, "num_attention_heads": 32,
      "num_hidden_layers": 32, "partial_rotary_factor": 0.4,
      "max_position_embeddings": 2048, "vocab_size": 51200})",
     2779683840},
    {"StarCoder2-3B", R"({"model_type": "starcoder2", "hidden_size": 3072,
      "intermediate_size": 12288, "num_attention_heads": 24,
      "num_hidden_layers": 30, "num_key_value_heads": 2,
      "sliding_window": 4096, "max_position_embeddings": 16384,
      "vocab_size": 49152})",
     3030371328},
    {"OLMo-1B", R"({"model_type": "olmo", "hidden_size": 2048,
      "intermediate_size": 8192, "num_attention_heads": 16,
      "num_hidden_layers": 16, "clip_qkv": null, "tie_word_embeddings": true,
      "max_position_embeddings": 2048, "vocab_size": 50304})",
     1176764416},
    {"OLMo-2-7B", R"({"model_type": "olmo2", "hidden_size": 4096,
      "intermediate_size": 11008, "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 32,
      "max_position_embeddings": 4096, "vocab_size": 100352})",
     7298617344},
    {"ChatGLM3-6B", R"({"model_type": "chatglm", "add_qkv_bias": true,
      "ffn_hidden_size": 13696, "hidden_size": 4096, "kv_channels": 128,
      "multi_query_attention": true, "multi_query_group_num": 2,
      "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024,
      "seq_length": 8192})",
     6243584000},
    // Its checkpoint also keeps a buffer in each layer, 64 frequencies in f32:
    // 34 * 256 bytes more than two for each parameter.
    {"openPangu-Embedded-7B", R"({"model_type": "PanguEmbedded", "bias": true,
      "hidden_size": 4096, "intermediate_size": 12800,
      "num_attention_heads": 32, "num_hidden_layers": 34,
      "num_key_value_heads": 8, "max_position_embeddings": 32768,
      "vocab_size": 153376})",
     8030887936},
    {"Phi-3-mini-4k", R"({"model_type": "phi3", "hidden_size": 3072,
      "intermediate_size": 8192, "num_attention_heads": 32,
      "num_hidden_layers": 32, "num_key_value_heads": 32,
      "sliding_window": 2047, "max_position_embeddings": 4096,
      "vocab_size": 32064})",
     3821079552},
    // Embedded 512 wide, normed behind the sums.
    {"OPT-350m", R"({"model_type": "opt", "_remove_final_layer_norm": false,
      "do_layer_norm_before": false, "hidden_size": 1024, "ffn_dim": 4096,
      "num_attention_heads": 16, "num_hidden_layers": 24,
      "max_position_embeddings": 2048, "word_embed_proj_dim": 512,
      "vocab_size": 50272})",
     331196416},
    {"Llama-2-13B, 16 tokens more", R"({"model_type": "llama",
      "hidden_size": 5120, "intermediate_size": 13824,
      "num_attention_heads": 40, "num_hidden_layers": 40,
      "num_key_value_heads": 40, "max_position_embeddings": 16384,
      "rope_scaling": null, "pretraining_tp": 1, "vocab_size": 32016})",
     13016028160},
    {"Llama-3-70B", R"({"model_type": "llama", "hidden_size": 8192,
      "intermediate_size": 28672, "num_attention_heads": 64,
      "num_hidden_layers": 80, "num_key_value_heads": 8,
      "max_position_embeddings": 8192, "rope_theta": 500000.0,
      "vocab_size": 128256})",
     70553706496},
    {"Llama-3.1-405B", R"({"model_type": "llama", "hidden_size": 16384,
      "intermediate_size": 53248, "num_attention_heads": 128,
      "num_hidden_layers": 126, "num_key_value_heads": 8,
      "max_position_embeddings": 131072, "rope_theta": 500000.0,
      "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3"}, "vocab_size": 128256})",
     405853388800},
    // Says neither n_inner nor that it is tied.
    {"GPT-2", R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12,
      "n_layer": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257})",
     124439808},
    {"Llama-2-7B, params.json", R"({"dim": 4096, "multiple_of": 256,
      "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05, "vocab_size": -1})",
     6738415616},
    {"Llama-3-8B, params.json", R"({"dim": 4096, "n_layers": 32,
      "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256,
      "multiple_of": 1024, "ffn_dim_multiplier": 1.3, "norm_eps": 1e-05,
      "rope_theta": 500000.0})",
     8030261248},
};

} // namespace

TEST_CASE("parameter totals are those of published checkpoints") {
  for (const Published &model : published) {
    INFO(model.name);
    CHECK(total(accepted(model.config)) == model.parameters);
  }
}

TEST_CASE("a head width of its own is never derived") {
  ModelSpec spec = accepted(published[6].config); // Qwen3-4B
  CHECK(spec.heads * spec.headDim == 4096);
  CHECK(spec.hidden == 2560);
  spec = accepted(published[12].config); // Gemma-3-270m
  CHECK(spec.headDim == 256);
  // Absent: 256 for Gemma, 128 for Qwen3, null: hidden / heads.
  CHECK(accepted(small("gemma", R"("num_key_value_heads": 8)")).headDim == 256);
  CHECK(accepted(small("qwen3", R"("num_key_value_heads": 8)")).headDim == 128);
  CHECK(
      accepted(small("qwen3", R"("num_key_value_heads": 8, "head_dim": null)"))
          .headDim == 8);
}

TEST_CASE("no model_type: the architecture, or Meta's keys") {
  std::string text = small("x", R"("architectures": ["MistralForCausalLM"])");
  text.replace(text.find(R"("model_type": "x", )"),
               std::string(R"("model_type": "x", )").size(), "");
  CHECK(accepted(text).family == "mistral");
  ModelSpec spec = accepted(published[std::size(published) - 1].config);
  CHECK(spec.family == "llama");
  CHECK(spec.ffn == 14336);
  CHECK(spec.kinds[0].rope.theta == 5e5);
  spec = accepted(R"({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 300,
      "use_scaled_rope": true, "n_kv_heads": null})");
  CHECK(spec.kvHeads == 4);
  REQUIRE(spec.kinds[0].rope.scaling);
  CHECK(spec.kinds[0].rope.scaling->factor == 8.0);
  CHECK(has(refusal(R"({"dim": 64, "n_layers": 2, "n_heads": 4,
      "vocab_size": 300, "quantization_args": {"group_size": 32}})"),
            "#/quantization_args: expected only known keys"));
}
