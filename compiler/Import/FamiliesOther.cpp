//===- FamiliesOther.cpp - Qwen 1, ChatGLM, Phi 3, params.json ------------===//
#include "compiler/Import/Families.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

using nlohmann::json;

namespace {

void readQwen(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.keys.norm = "layer_norm_epsilon";
  spec.keys.rope = "rotary_emb_base";
  spec.keys.kvHeads = spec.keys.heads;
  spec.keys.headDim = "kv_channels";
  reader.readBase();
  const int64_t doubled = spec.ffn;
  if (doubled % 2 != 0)
    reader.malformed(spec.keys.ffn,
                     "expected an even number, the width of gate and up "
                     "together, but got " +
                         std::to_string(doubled));
  spec.ffn = doubled / 2;
  Rope &rope = spec.kinds[0].rope;
  reader.readRope(rope);
  reader.readRotaryFraction(rope, "rotary_pct", 1.0);
  // no_bias speaks of the other products.
  spec.qkvBias = true;
  spec.outputBias = spec.upBias = spec.downBias = !reader.flag("no_bias", true);
  reader.only("scale_attn_weights", true);
  reader.noteDropouts({"attn_dropout_prob", "emb_dropout_prob"});
  // Both scale only sequences past seq_length, and not in training.
  reader.ignoreAll({"use_dynamic_ntk", "use_logn_attn", "seq_length",
                    "onnx_safe", "use_cache_kernel", "use_cache_quantization"});
  spec.qkv = QkvLayout::SideBySide;
  const std::string layer = "transformer.h.{}.";
  TensorNames &names = spec.names;
  names.embedding = "transformer.wte.weight";
  names.attnNorm = layer + "ln_1";
  names.qkv = layer + "attn.c_attn";
  names.o = layer + "attn.c_proj";
  names.mlpNorm = layer + "ln_2";
  names.gate = layer + "mlp.w2";
  names.up = layer + "mlp.w1";
  names.down = layer + "mlp.c_proj";
  names.finalNorm = "transformer.ln_f";
}

void readChatglm(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.keys.norm = "layernorm_epsilon";
  spec.keys.layers = reader.either({"num_layers", "num_hidden_layers"});
  spec.keys.headDim = "kv_channels";
  spec.keys.ffn = "ffn_hidden_size";
  spec.keys.kvHeads = "multi_query_group_num";
  spec.keys.vocab = "padded_vocab_size";
  spec.keys.positions = "seq_length";
  spec.keys.rope = "rope_ratio";
  const bool groups = reader.flag("multi_query_attention", false);
  if (!groups) {
    reader.ignore(spec.keys.kvHeads);
    spec.keys.kvHeads = spec.keys.heads;
  }
  reader.readBase();
  if (!reader.flag("rmsnorm", true))
    spec.norm = NormKind::Layer;
  const bool all = reader.flag("add_bias_linear", false);
  spec.outputBias = spec.upBias = spec.downBias = all;
  spec.qkvBias = reader.flag("add_qkv_bias", false) || all;
  reader.only("apply_residual_connection_post_layernorm", false);
  reader.only("post_layer_norm", true);
  reader.only("original_rope", true);
  reader.only("pre_seq_len", nullptr);
  // Half of a head turns, in pairs of neighbours.
  Rope &rope = spec.kinds[0].rope;
  rope.theta = 10000.0 * reader.number("rope_ratio", 1.0);
  rope.interleaved = true;
  reader.setRotaryFraction(rope, 0.5, "kv_channels");
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
  // The first scales scores down and up again.
  reader.ignoreAll({"apply_query_key_layer_scaling", "bias_dropout_fusion",
                    "fp32_residual_connection", "vocab_size",
                    "quantization_bit", "prefix_projection"});
  spec.qkv = groups ? QkvLayout::SideBySide : QkvLayout::PerKvHead;
  const std::string layer = "transformer.encoder.layers.{}.";
  TensorNames &names = spec.names;
  names.embedding = "transformer.embedding.word_embeddings.weight";
  names.attnNorm = layer + "input_layernorm";
  names.qkv = layer + "self_attention.query_key_value";
  names.o = layer + "self_attention.dense";
  names.mlpNorm = layer + "post_attention_layernorm";
  names.gateUp = layer + "mlp.dense_h_to_4h";
  names.down = layer + "mlp.dense_4h_to_h";
  names.finalNorm = "transformer.encoder.final_layernorm";
  names.head = "transformer.output_layer.weight";
}

void readPhi3(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readBase();
  spec.activation =
      reader.readActivation("hidden_act", "silu", {Activation::Silu});
  reader.only("attention_bias", false);
  Rope &rope = spec.kinds[0].rope;
  reader.readRopeOrLong(rope);
  reader.readRotaryFraction(rope, "partial_rotary_factor", 1.0);
  spec.kinds[0].window = reader.sizeOrNull("sliding_window", maxPositions, 0);
  reader.noteDropouts({"attention_dropout", "resid_pdrop", "embd_pdrop"});
  reader.ignore("original_max_position_embeddings"); // read with the scaling
  spec.qkv = QkvLayout::SideBySide;
  spec.names.qkv = "model.layers.{}.self_attn.qkv_proj";
  spec.names.gateUp = "model.layers.{}.mlp.gate_up_proj";
}

// clang-format off
constexpr Family table[] = {
    {"qwen", "QWenLMHeadModel",
     {.vocab = 151936, .hidden = 4096, .ffn = 22016, .layers = 32, .heads = 32,
      .headDim = 128, .positions = 8192},
     readQwen},
    {"chatglm", "ChatGLMModel",
     {.vocab = 65024, .hidden = 4096, .ffn = 13696, .layers = 28, .heads = 32,
      .kvHeads = 1, .headDim = 128, .positions = 2048, .normEps = 1e-5},
     readChatglm},
    {"phi3", "Phi3ForCausalLM",
     {.vocab = 32064, .hidden = 3072, .ffn = 8192, .layers = 32, .heads = 32,
      .positions = 4096, .normEps = 1e-5},
     readPhi3},
};
// clang-format on
} // namespace

std::span<const Family> otherFamilies() { return table; }

bool looksLikeParamsJson(const json &root) {
  return root.contains("dim") && root.contains("n_layers") &&
         root.contains("n_heads") && !root.contains("model_type");
}

/// Llama as Meta's own code describes it. Weights are named and laid out as in
/// the conversion to Hugging Face, which computes the same.
static void readParams(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  ConfigKeys &keys = spec.keys;
  keys.hidden = "dim";
  keys.layers = "n_layers";
  keys.heads = "n_heads";
  keys.kvHeads = "n_kv_heads";
  keys.ffn = "multiple_of";
  keys.norm = "norm_eps";
  keys.positions = "max_seq_len";
  spec.hidden = reader.size(keys.hidden, maxWidth);
  spec.layers = reader.size(keys.layers, maxLayers);
  spec.heads = reader.size(keys.heads, maxHeads);
  reader.readKvHeads();
  reader.readHeadDim();
  const json *vocab = reader.find(keys.vocab);
  if (!vocab || *vocab == -1) { // absent: ModelArgs has -1
    spec.vocab = reader.defaults().vocab;
    spec.notes.push_back(reader.where(keys.vocab) +
                         ": left to the tokenizer; taken to be the 32000 of "
                         "Llama and Llama 2");
  } else {
    spec.vocab = reader.size(keys.vocab, maxVocab);
  }
  // ModelArgs of Meta's llama: two thirds of 4 dim, a factor, rounded up.
  const int64_t multiple = reader.size("multiple_of", maxFfn, 256);
  const double factor = reader.number("ffn_dim_multiplier", 1.0);
  const double scaled =
      std::floor(factor * static_cast<double>(2 * (4 * spec.hidden) / 3));
  if (multiple > 0 && scaled < static_cast<double>(maxFfn))
    spec.ffn =
        (static_cast<int64_t>(scaled) + multiple - 1) / multiple * multiple;
  if (multiple > 0 && (spec.ffn < 1 || spec.ffn > maxFfn))
    reader.malformed("ffn_dim_multiplier",
                     "expected a feed-forward width from 1 to " +
                         std::to_string(maxFfn) + ", but got " +
                         shown(json(scaled)));
  spec.positions = reader.size(keys.positions, maxPositions, 0);
  spec.normEps = reader.number(keys.norm, reader.defaults().normEps);
  Rope &rope = spec.kinds[0].rope;
  rope.theta = reader.number(keys.rope, reader.defaults().theta);
  if (reader.flag("use_scaled_rope", false)) {
    // Constants of apply_scaling in Meta's llama-models.
    RopeScaling scaling;
    scaling.type = RopeScaling::Type::Llama3;
    scaling.factor = reader.number("rope_scaling_factor", 8.0);
    scaling.highFreqFactor = reader.number("high_freq_factor", 4.0);
    scaling.originalPositions = 8192;
    rope.scaling = scaling;
  }
  reader.ignoreAll(
      {"max_batch_size", "rope_scaling_factor", "high_freq_factor"});
}

const Family &paramsJson() {
  // clang-format off
  static constexpr Family family = {
      "llama", "LlamaForCausalLM",
      {.vocab = 32000, .hidden = 4096, .layers = 32, .heads = 32,
       .normEps = 1e-5},
      readParams};
  // clang-format on
  return family;
}

} // namespace shardwright
