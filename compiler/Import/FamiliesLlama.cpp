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
void readBase(FamilyReader &reader, int64_t kvHeadsAbsent,
              int64_t headDimAbsent = 0, double theta = 10000.0) {
  ModelSpec &spec = reader.spec;
  reader.readSizes();
  spec.ffn = reader.size(spec.keys.ffn, maxFfn);
  reader.readKvHeads(kvHeadsAbsent);
  reader.readHeadDim(headDimAbsent);
  reader.readPositions();
  spec.tied = reader.flag("tie_word_embeddings", false);
  spec.normEps = reader.number(spec.keys.norm, 1e-6);
  spec.initializerRange = reader.number("initializer_range", 0.02);
  spec.activation =
      reader.readActivation("hidden_act", "silu", {Activation::Silu});
  reader.noteDropouts(
      {"attention_dropout", "hidden_dropout", "hidden_dropout_prob"});
  reader.readRope(spec.kinds[0].rope, theta);
}

/// All layers see `window` keys (0: all).
void setWindow(ModelSpec &spec, int64_t window) {
  spec.kinds[0].window = window;
}

void readLlama(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readCommon("LlamaForCausalLM");
  readBase(reader, 0);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.upBias = spec.downBias = reader.flag("mlp_bias", false);
  reader.only("rope_interleaved", false);
  reader.refuseUnknown();
}

void readMistral(FamilyReader &reader) {
  reader.readCommon("MistralForCausalLM");
  readBase(reader, 8);
  setWindow(reader.spec,
            reader.sizeOrNull("sliding_window", maxPositions, 4096));
  reader.refuseUnknown();
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
  reader.readCommon("Qwen2ForCausalLM");
  readBase(reader, 32);
  reader.spec.qkvBias = true;
  reader.only("use_mrope", false);
  readQwenWindow(reader);
  reader.refuseUnknown();
}

void readQwen3(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readCommon("Qwen3ForCausalLM");
  readBase(reader, 32, 128);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.qkNorm = QkNorm::PerHead;
  readQwenWindow(reader);
  reader.refuseUnknown();
}

void readOlmo(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readCommon("OlmoForCausalLM");
  spec.norm = NormKind::LayerPlain;
  spec.keys.norm = "layer_norm_eps"; // no config has it: the code says 1e-5
  readBase(reader, 0);
  spec.normEps = 1e-5;
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.qkvClip = reader.find("clip_qkv") ? reader.number("clip_qkv", 0) : 0;
  reader.refuseUnknown();
}

void readOlmo2(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readCommon("Olmo2ForCausalLM");
  readBase(reader, 0);
  if (!reader.has("rms_norm_eps"))
    spec.normEps = 1e-5;
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.qkNorm = QkNorm::Whole;
  spec.names.attnNorm = spec.names.mlpNorm = "";
  spec.names.attnPostNorm = "model.layers.{}.post_attention_layernorm";
  spec.names.mlpPostNorm = "model.layers.{}.post_feedforward_layernorm";
  reader.refuseUnknown();
}

/// openPangu dense: Llama with biases in attention.
void readPangu(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.readCommon("PanguEmbeddedForCausalLM");
  readBase(reader, 0);
  spec.qkvBias = spec.outputBias = reader.flag("bias", true);
  reader.refuseUnknown();
}

constexpr Family table[] = {
    {"llama", "LlamaForCausalLM", readLlama},
    {"mistral", "MistralForCausalLM", readMistral},
    {"qwen2", "Qwen2ForCausalLM", readQwen2},
    {"qwen3", "Qwen3ForCausalLM", readQwen3},
    {"olmo", "OlmoForCausalLM", readOlmo},
    {"olmo2", "Olmo2ForCausalLM", readOlmo2},
    {"PanguEmbedded", "PanguEmbeddedForCausalLM", readPangu},
};
} // namespace

std::span<const Family> llamaFamilies() { return table; }

} // namespace shardwright
