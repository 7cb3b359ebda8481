//===- FamiliesLlama.cpp - RMS norm, rotary positions, gated MLP ----------===//
#include "compiler/Import/Families.h"

#include <algorithm>

namespace shardwright {

ModelSpec llamaSpec() {
  ModelSpec spec;
  spec.family = "llama";
  return spec;
}

namespace {

/// What all of this file read alike.
void readBase(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readBase();
  spec.activation =
      reader.readActivation("hidden_act", "silu", {Activation::Silu});
  reader.noteDropouts(
      {"attention_dropout", "hidden_dropout", "hidden_dropout_prob"});
  reader.readRope(spec.kinds[0].rope);
}

/// Biases of attention, as most have them.
void readAttentionBias(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
}

/// All layers see `window` keys (0: all).
void setWindow(ModelSpec &spec, int64_t window) {
  spec.kinds[0].window = window;
}

void readLlama(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  readAttentionBias(reader);
  spec.upBias = spec.downBias = reader.flag("mlp_bias", false);
  reader.only("rope_interleaved", false);
}

void readMistral(FamilyReader &reader) {
  readBase(reader);
  setWindow(reader.spec,
            reader.sizeOrNull("sliding_window", maxPositions, 4096));
}

/// Windows of Qwen: only with use_sliding_window, and then on the layers from
/// max_window_layers on.
void readQwenWindow(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  const bool use = reader.flag("use_sliding_window", false);
  const int64_t window =
      reader.sizeOrNull("sliding_window", maxPositions, use ? 4096 : 0);
  int64_t first = spec.layers;
  if (const nlohmann::json *value = reader.find("max_window_layers")) {
    if (value->is_number_integer() && *value >= 0)
      first = std::min(spec.layers, value->get<int64_t>());
    else
      reader.malformed("max_window_layers", "expected an integer >= 0, but "
                                            "got " +
                                                shown(*value));
  } else if (use) {
    first = std::min<int64_t>(spec.layers, 28);
  }
  std::vector<bool> windowed(std::max<int64_t>(spec.layers, 0), false);
  if (use)
    std::fill(windowed.begin() + first, windowed.end(), true);
  windowed = reader.readLayerTypes(windowed);
  const Rope rope = spec.kinds[0].rope;
  reader.setLayers(windowed, use ? window : 0, rope, rope);
}

void readQwen2(FamilyReader &reader) {
  readBase(reader);
  reader.spec.qkvBias = true;
  reader.only("use_mrope", false);
  readQwenWindow(reader);
}

void readQwen3(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  readAttentionBias(reader);
  spec.qkNorm = QkNorm::PerHead;
  readQwenWindow(reader);
}

void readOlmo(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.norm = NormKind::LayerPlain;
  spec.keys.norm = ""; // the code says 1e-5, and reads no key
  spec.normEps = 1e-5;
  readBase(reader);
  readAttentionBias(reader);
  spec.qkvClip = reader.find("clip_qkv") ? reader.number("clip_qkv", 0) : 0;
}

void readOlmo2(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  readAttentionBias(reader);
  spec.qkNorm = QkNorm::Whole;
  spec.names.attnNorm = spec.names.mlpNorm = "";
  spec.names.attnPostNorm = "model.layers.{}.post_attention_layernorm";
  spec.names.mlpPostNorm = "model.layers.{}.post_feedforward_layernorm";
}

/// openPangu dense: Llama with biases in attention.
void readPangu(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  spec.qkvBias = spec.outputBias =
      reader.flag(reader.either({"bias", "attention_bias"}), true);
}

// clang-format off
constexpr Family table[] = {
    {"llama", "LlamaForCausalLM",
     {.vocab = 32000, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32,
      .positions = 2048},
     readLlama},
    {"mistral", "MistralForCausalLM",
     {.vocab = 32000, .hidden = 4096, .ffn = 14336, .layers = 32, .heads = 32,
      .kvHeads = 8, .positions = 131072},
     readMistral},
    {"qwen2", "Qwen2ForCausalLM",
     {.vocab = 151936, .hidden = 4096, .ffn = 22016, .layers = 32, .heads = 32,
      .kvHeads = 32, .positions = 32768},
     readQwen2},
    {"qwen3", "Qwen3ForCausalLM",
     {.vocab = 151936, .hidden = 4096, .ffn = 22016, .layers = 32, .heads = 32,
      .kvHeads = 32, .headDim = 128, .positions = 32768},
     readQwen3},
    {"olmo", "OlmoForCausalLM",
     {.vocab = 50304, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32,
      .positions = 2048},
     readOlmo},
    {"olmo2", "Olmo2ForCausalLM",
     {.vocab = 50304, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32,
      .positions = 2048, .normEps = 1e-5},
     readOlmo2},
    {"PanguEmbedded", "PanguEmbeddedForCausalLM",
     {.vocab = 153376, .hidden = 4096, .ffn = 12800, .layers = 34, .heads = 32,
      .kvHeads = 8, .positions = 32768, .theta = 16e6, .normEps = 1e-5},
     readPangu},
};
// clang-format on
} // namespace

std::span<const Family> llamaFamilies() { return table; }

} // namespace shardwright
