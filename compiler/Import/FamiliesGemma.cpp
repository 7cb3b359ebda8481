//===- FamiliesGemma.cpp - Gemma 1, 2 and 3 -------------------------------===//
//
// Scaled embeddings, norms with weight 1 + w, gelu in the gate, tied heads.
// Gemma 2 adds norms behind attention and MLP, alternating windows and bounds
// on scores and logits; Gemma 3 norms of queries and keys, other windows and
// two rotary bases.
//
//===----------------------------------------------------------------------===//
#include "compiler/Import/Families.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

namespace {

void readBase(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.norm = NormKind::RmsUnitOffset;
  reader.readBase();
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  // Early configs say "gelu" where the code has always computed the tanh form,
  // and has a key of its own for the others.
  spec.activation = reader.readActivation(
      "hidden_activation", "gelu_pytorch_tanh", {Activation::GeluTanh});
  const std::string old = reader.text("hidden_act", "gelu_pytorch_tanh");
  if (old != "gelu" && old != "gelu_pytorch_tanh" && old != "gelu_new")
    reader.unsupported("hidden_act",
                       "expected \"gelu_pytorch_tanh\", but got " +
                           shown(nlohmann::json(old)) +
                           ", which is not supported");
  reader.noteDropout("attention_dropout");
  reader.only("use_bidirectional_attention", false);
  spec.embeddingScale = std::sqrt(static_cast<double>(spec.hidden));
}

/// What Gemma 2 and 3 add to it; `cap` bounds scores and logits by default.
void readSecond(FamilyReader &reader, double attentionCap, double logitCap) {
  ModelSpec &spec = reader.spec;
  spec.names.attnPostNorm = "model.layers.{}.post_attention_layernorm";
  spec.names.mlpNorm = "model.layers.{}.pre_feedforward_layernorm";
  spec.names.mlpPostNorm = "model.layers.{}.post_feedforward_layernorm";
  spec.attentionScale =
      1.0 / std::sqrt(reader.number("query_pre_attn_scalar", 256.0));
  spec.attentionSoftcap =
      reader.numberOrNull("attn_logit_softcapping", attentionCap);
  spec.logitSoftcap = reader.numberOrNull("final_logit_softcapping", logitCap);
}

/// Every `pattern`-th layer sees all, the others a window.
std::vector<bool> windowedBut(int64_t layers, int64_t pattern) {
  std::vector<bool> result;
  for (int64_t i = 0; i < layers; ++i)
    result.push_back(pattern < 1 || (i + 1) % pattern != 0);
  return result;
}

void readGemma(FamilyReader &reader) {
  readBase(reader);
  reader.readRope(reader.spec.kinds[0].rope);
}

void readGemma2(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  readSecond(reader, 50.0, 30.0);
  Rope rope;
  reader.readRope(rope);
  const int64_t window =
      reader.sizeOrNull("sliding_window", maxPositions, 4096);
  reader.setLayers(reader.readLayerTypes(windowedBut(spec.layers, 2)), window,
                   rope, rope);
}

void readGemma3(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readBase(reader);
  readSecond(reader, 0.0, 0.0);
  spec.qkNorm = QkNorm::PerHead;
  Rope global, local;
  local.theta = reader.number("rope_local_base_freq", 10000.0);
  if (reader.readRopeOf("full_attention", global))
    reader.readRopeOf("sliding_attention", local);
  else
    reader.readRope(global);
  const int64_t window =
      reader.sizeOrNull("sliding_window", maxPositions, 4096);
  const std::string_view key =
      reader.either({"sliding_window_pattern", "_sliding_window_pattern"});
  const int64_t pattern = reader.size(key, maxLayers, 6);
  reader.setLayers(reader.readLayerTypes(windowedBut(spec.layers, pattern)),
                   window, local, global);
}

// clang-format off
constexpr Family table[] = {
    {"gemma", "GemmaForCausalLM",
     {.vocab = 256000, .hidden = 3072, .ffn = 24576, .layers = 28, .heads = 16,
      .kvHeads = 16, .headDim = 256, .positions = 8192, .tied = true},
     readGemma},
    {"gemma2", "Gemma2ForCausalLM",
     {.vocab = 256000, .hidden = 2304, .ffn = 9216, .layers = 26, .heads = 8,
      .kvHeads = 4, .headDim = 256, .positions = 8192, .tied = true},
     readGemma2},
    {"gemma3_text", "Gemma3ForCausalLM",
     {.vocab = 262208, .hidden = 2304, .ffn = 9216, .layers = 26, .heads = 8,
      .kvHeads = 4, .headDim = 256, .positions = 131072, .theta = 1e6,
      .tied = true},
     readGemma3},
};
// clang-format on
} // namespace

std::span<const Family> gemmaFamilies() { return table; }

} // namespace shardwright
