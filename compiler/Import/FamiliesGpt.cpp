//===- FamiliesGpt.cpp - Layer norm, plain MLP ----------------------------===//
#include "compiler/Import/Families.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

namespace {

void setBiases(ModelSpec &spec, bool present) {
  spec.qkvBias = spec.outputBias = spec.upBias = spec.downBias = present;
}

/// Layer norm and an MLP without a gate.
void startPlain(ModelSpec &spec) {
  spec.norm = NormKind::Layer;
  spec.normEps = 1e-5;
  spec.gated = false;
  spec.kinds[0].rope.width = 0;
}

void startGpt2(ModelSpec &spec) {
  startPlain(spec);
  setBiases(spec, true);
  spec.activation = Activation::GeluTanh;
  spec.qkv = QkvLayout::SideBySide;
  spec.transposed = true; // Conv1D
  spec.scaledResidualInit = true;
  const std::string layer = "transformer.h.{}.";
  TensorNames &names = spec.names;
  names.embedding = "transformer.wte.weight";
  names.positions = "transformer.wpe.weight";
  names.attnNorm = layer + "ln_1";
  names.qkv = layer + "attn.c_attn";
  names.o = layer + "attn.c_proj";
  names.mlpNorm = layer + "ln_2";
  names.up = layer + "mlp.c_fc";
  names.down = layer + "mlp.c_proj";
  names.finalNorm = "transformer.ln_f";
  ConfigKeys &keys = spec.keys;
  keys.layers = "n_layer";
  keys.hidden = "n_embd";
  keys.heads = keys.kvHeads = keys.attentionBias = "n_head";
  keys.headDim = "";
  keys.ffn = keys.mlpBias = "n_inner";
  keys.norm = "layer_norm_epsilon";
  keys.positions = "n_positions";
}
} // namespace

ModelSpec gpt2Spec() {
  ModelSpec spec;
  spec.family = "gpt2";
  startGpt2(spec);
  return spec;
}

namespace {

void readGpt2(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startGpt2(spec);
  ConfigKeys &keys = spec.keys;
  keys.layers = reader.either({"n_layer", "num_hidden_layers"});
  keys.hidden = reader.either({"n_embd", "hidden_size"});
  keys.heads = reader.either({"n_head", "num_attention_heads"});
  keys.kvHeads = keys.attentionBias = keys.heads;
  keys.positions = reader.either({"n_positions", "max_position_embeddings"});
  reader.readBase();
  // The sequence summary is part of other heads; n_ctx is an old name that
  // current code does not read; upcasting changes rounding only.
  reader.ignoreAll({"summary_activation", "summary_first_dropout",
                    "summary_proj_to_labels", "summary_type",
                    "summary_use_proj", "n_ctx", "output_past",
                    "predict_special_tokens", "reorder_and_upcast_attn"});
  if (!reader.flag("scale_attn_weights", true))
    spec.attentionScale = 1.0;
  reader.only("scale_attn_by_inverse_layer_idx", false);
  spec.activation = reader.readActivation(
      "activation_function", "gelu_new",
      {Activation::Gelu, Activation::GeluTanh, Activation::Relu});
  reader.noteDropouts({"attn_pdrop", "embd_pdrop", "resid_pdrop"});
}

void readNeox(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.norm = "layer_norm_eps";
  spec.keys.kvHeads = spec.keys.heads;
  spec.keys.headDim = "";
  reader.readBase();
  spec.activation = reader.readActivation(
      "hidden_act", "gelu",
      {Activation::Gelu, Activation::GeluTanh, Activation::Relu});
  spec.parallel = reader.flag("use_parallel_residual", true);
  setBiases(spec, true);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", true);
  spec.qkv = QkvLayout::PerKvHead;
  Rope &rope = spec.kinds[0].rope;
  spec.keys.rope = reader.either({"rotary_emb_base", "rope_theta"});
  reader.readRope(rope);
  reader.readRotaryFraction(
      rope, reader.either({"rotary_pct", "partial_rotary_factor"}), 0.25);
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
  const std::string layer = "gpt_neox.layers.{}.";
  TensorNames &names = spec.names;
  names.embedding = "gpt_neox.embed_in.weight";
  names.attnNorm = layer + "input_layernorm";
  names.qkv = layer + "attention.query_key_value";
  names.o = layer + "attention.dense";
  names.mlpNorm = layer + "post_attention_layernorm";
  names.up = layer + "mlp.dense_h_to_4h";
  names.down = layer + "mlp.dense_4h_to_h";
  names.finalNorm = "gpt_neox.final_layer_norm";
  names.head = "embed_out.weight";
}

void readOpt(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.ffn = "ffn_dim";
  spec.keys.hidden = reader.either({"hidden_size", "d_model"});
  spec.keys.kvHeads = spec.keys.heads;
  spec.keys.headDim = spec.keys.norm = "";
  spec.keys.initializer = "init_std";
  reader.readBase();
  spec.keys.norm = "do_layer_norm_before";
  spec.positionOffset = 2; // the first two rows are of no position
  spec.activation = reader.readActivation(
      "activation_function", "relu",
      {Activation::Relu, Activation::Gelu, Activation::GeluTanh});
  setBiases(spec, reader.flag("enable_bias", true));
  if (!reader.flag("layer_norm_elementwise_affine", true))
    spec.norm = NormKind::LayerPlain;
  // OPT-350m norms behind the residual sum and embeds into another width.
  spec.normAfterSum = !reader.flag("do_layer_norm_before", true);
  const bool finalNorm =
      !spec.normAfterSum && !reader.flag("_remove_final_layer_norm", false);
  reader.ignore("_remove_final_layer_norm");
  const int64_t narrow =
      reader.size("word_embed_proj_dim", maxWidth, spec.hidden);
  if (narrow != spec.hidden) {
    spec.embeddingWidth = narrow;
    spec.names.projectIn = "model.decoder.project_in";
    spec.names.projectOut = "model.decoder.project_out";
  }
  reader.noteDropouts(
      {"dropout", "attention_dropout", "activation_dropout", "layerdrop"});
  const std::string layer = "model.decoder.layers.{}.";
  TensorNames &names = spec.names;
  names.embedding = "model.decoder.embed_tokens.weight";
  names.positions = "model.decoder.embed_positions.weight";
  names.attnNorm = layer + "self_attn_layer_norm";
  names.q = layer + "self_attn.q_proj";
  names.k = layer + "self_attn.k_proj";
  names.v = layer + "self_attn.v_proj";
  names.o = layer + "self_attn.out_proj";
  names.mlpNorm = layer + "final_layer_norm";
  names.up = layer + "fc1";
  names.down = layer + "fc2";
  names.finalNorm = finalNorm ? "model.decoder.final_layer_norm" : "";
}

/// Tensors of BLOOM, and of Falcon, which came of its code.
void setBloomNames(TensorNames &names) {
  const std::string layer = "transformer.h.{}.";
  names.embedding = "transformer.word_embeddings.weight";
  names.attnNorm = layer + "input_layernorm";
  names.qkv = layer + "self_attention.query_key_value";
  names.o = layer + "self_attention.dense";
  names.mlpNorm = layer + "post_attention_layernorm";
  names.up = layer + "mlp.dense_h_to_4h";
  names.down = layer + "mlp.dense_4h_to_h";
  names.finalNorm = "transformer.ln_f";
}

void readBloom(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.norm = "layer_norm_epsilon";
  spec.keys.hidden = reader.either({"hidden_size", "n_embed"});
  spec.keys.layers = reader.either({"n_layer", "num_hidden_layers"});
  spec.keys.heads = reader.either({"n_head", "num_attention_heads"});
  spec.keys.kvHeads = spec.keys.heads;
  spec.keys.headDim = "";
  spec.keys.ffn = "n_inner";
  spec.keys.positions = "seq_length";
  reader.readBase();
  spec.activation = Activation::GeluTanh;
  spec.residualFromNorm =
      reader.flag("apply_residual_connection_post_layernorm", false);
  setBiases(spec, true);
  spec.qkv = QkvLayout::PerKvHead;
  spec.alibi = 1.0;
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
  reader.ignoreAll({"slow_but_exact", "offset_alibi", "skip_bias_add",
                    "skip_bias_add_qkv", "bias_dropout_fusion",
                    "hidden_dropout_prob"});
  setBloomNames(spec.names);
  spec.names.embeddingNorm = "transformer.word_embeddings_layernorm";
}

void readFalcon(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.norm = "layer_norm_epsilon";
  spec.keys.layers = reader.either({"num_hidden_layers", "n_layer"});
  spec.keys.heads = reader.either({"num_attention_heads", "n_head"});
  spec.keys.kvHeads = reader.either({"num_kv_heads", "n_head_kv"});
  spec.keys.hidden = reader.either({"hidden_size", "n_embed"});
  spec.keys.headDim = "";
  spec.keys.ffn = "ffn_hidden_size";
  reader.readBase();
  const bool newer = reader.flag("new_decoder_architecture", false);
  const bool one = reader.flag("multi_query", true);
  if (!newer) // the code does not read the key then
    spec.kvHeads = one ? 1 : spec.heads;
  spec.activation = reader.readActivation(
      "activation", "gelu",
      {Activation::Gelu, Activation::GeluTanh, Activation::Relu});
  setBiases(spec, reader.flag("bias", false));
  spec.qkv = QkvLayout::PerKvHead;
  reader.only("apply_residual_connection_post_layernorm", false);
  Rope &rope = spec.kinds[0].rope;
  reader.readRope(rope);
  const bool alibi = reader.flag("alibi", false);
  rope.width = alibi ? 0 : -1;
  if (alibi && spec.headDim > 0) // Falcon scales them with the scores
    spec.alibi = 1.0 / std::sqrt(static_cast<double>(spec.headDim));
  setBloomNames(spec.names);
  const bool parallel = reader.flag("parallel_attn", true);
  spec.parallel = parallel || newer;
  const int64_t norms =
      reader.size("num_ln_in_parallel_attn", 2, newer ? 2 : 1);
  // Without parallel attention nothing reads the key.
  if (!newer && parallel && norms == 2)
    reader.unsupported("num_ln_in_parallel_attn",
                       "expected 1 or null without new_decoder_architecture, "
                       "but got 2: FalconForCausalLM then makes two norms and "
                       "applies a third, which it does not have");
  if (newer && norms == 2) {
    spec.names.attnNorm = "transformer.h.{}.ln_attn";
    spec.names.mlpNorm = "transformer.h.{}.ln_mlp";
  } else if (spec.parallel) {
    spec.names.mlpNorm = "";
  }
  if (newer && !parallel)
    reader.unsupported("parallel_attn", "expected true with "
                                        "new_decoder_architecture, but got "
                                        "false, which is not supported");
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
}

void readPhi(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.norm = "layer_norm_eps";
  reader.readBase();
  spec.activation = reader.readActivation(
      "hidden_act", "gelu_new",
      {Activation::GeluTanh, Activation::Gelu, Activation::Relu});
  setBiases(spec, true);
  spec.headBias = true;
  spec.parallel = true;
  if (reader.flag("qk_layernorm", false))
    spec.qkNorm = QkNorm::Layer;
  Rope &rope = spec.kinds[0].rope;
  reader.readRope(rope);
  reader.readRotaryFraction(rope, "partial_rotary_factor", 0.5);
  reader.noteDropouts({"attention_dropout", "resid_pdrop", "embd_pdrop"});
  TensorNames &names = spec.names;
  names.qNorm = "model.layers.{}.self_attn.q_layernorm";
  names.kNorm = "model.layers.{}.self_attn.k_layernorm";
  names.o = "model.layers.{}.self_attn.dense";
  names.mlpNorm = "";
  names.up = "model.layers.{}.mlp.fc1";
  names.down = "model.layers.{}.mlp.fc2";
  names.finalNorm = "model.final_layernorm";
}

void readStarcoder2(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  startPlain(spec);
  spec.keys.norm = "norm_epsilon";
  spec.kinds[0].rope.width = -1;
  reader.readBase();
  spec.activation = reader.readActivation(
      "hidden_act", "gelu_pytorch_tanh",
      {Activation::GeluTanh, Activation::Gelu, Activation::Relu});
  setBiases(spec, reader.flag("use_bias", true));
  reader.only("mlp_type", "default");
  reader.only("norm_type", "layer_norm");
  reader.readRope(spec.kinds[0].rope);
  spec.kinds[0].window = reader.sizeOrNull("sliding_window", maxPositions, 0);
  reader.noteDropouts(
      {"attention_dropout", "residual_dropout", "embedding_dropout"});
  spec.names.up = "model.layers.{}.mlp.c_fc";
  spec.names.down = "model.layers.{}.mlp.c_proj";
}

// clang-format off
constexpr Family table[] = {
    {"gpt2", "GPT2LMHeadModel",
     {.vocab = 50257, .hidden = 768, .layers = 12, .heads = 12,
      .positions = 1024, .normEps = 1e-5, .tied = true},
     readGpt2},
    {"gpt_neox", "GPTNeoXForCausalLM",
     {.vocab = 50432, .hidden = 6144, .ffn = 24576, .layers = 44, .heads = 64,
      .positions = 2048, .normEps = 1e-5},
     readNeox},
    {"opt", "OPTForCausalLM",
     {.vocab = 50272, .hidden = 768, .ffn = 3072, .layers = 12, .heads = 12,
      .positions = 2048, .tied = true},
     readOpt},
    {"bloom", "BloomForCausalLM",
     {.vocab = 250880, .hidden = 64, .layers = 2, .heads = 8, .normEps = 1e-5,
      .tied = true},
     readBloom},
    {"falcon", "FalconForCausalLM",
     {.vocab = 65024, .hidden = 4544, .layers = 32, .heads = 71,
      .positions = 2048, .normEps = 1e-5, .tied = true},
     readFalcon},
    {"phi", "PhiForCausalLM",
     {.vocab = 51200, .hidden = 2048, .ffn = 8192, .layers = 24, .heads = 32,
      .positions = 2048, .normEps = 1e-5},
     readPhi},
    {"starcoder2", "Starcoder2ForCausalLM",
     {.vocab = 49152, .hidden = 3072, .ffn = 12288, .layers = 30, .heads = 24,
      .kvHeads = 2, .positions = 4096, .normEps = 1e-5,
      .initializerRange = 0.018042, .tied = true},
     readStarcoder2},
};
// clang-format on
} // namespace

std::span<const Family> gptFamilies() { return table; }

} // namespace shardwright
