//===- FamiliesDeepseek.cpp - Latent attention and many experts -----------===//
#include "compiler/Import/ExpertReader.h"

#include <cmath>

namespace shardwright {

using nlohmann::json;

namespace {

/// DeepSeek-V2 and -V3 and those that took over their code.
void readDeepseek(FamilyReader &reader, bool third) {
  ModelSpec &spec = reader.spec;
  LatentSpec &latent = spec.latent;
  latent.qRank = reader.sizeOrNull("q_lora_rank", maxWidth, 1536);
  latent.kvRank = reader.sizeOf("kv_lora_rank", maxWidth, 512);
  latent.nope = reader.sizeOf("qk_nope_head_dim", maxWidth, 128);
  latent.rope = reader.sizeOf("qk_rope_head_dim", maxWidth, 64);
  latent.value = reader.sizeOf("v_head_dim", maxWidth, 128);
  reader.ignore("head_dim"); // some copies name a part of it
  // All heads have keys of their own, whatever num_key_value_heads says.
  reader.ignore(spec.keys.kvHeads);
  spec.keys.kvHeads = spec.keys.heads;
  spec.keys.headDim = "";
  spec.headDim = latent.nope + latent.rope;
  readExpertBase(reader);
  if (latent.rope % 2 != 0)
    reader.malformed("qk_rope_head_dim",
                     "expected an even number of rotated columns, but got " +
                         std::to_string(latent.rope),
                     cost::Diag::odd_rotary_width);
  reader.only("attention_bias", false);
  Rope &rope = spec.kinds[0].rope;
  rope.interleaved = reader.flag("rope_interleave", true);
  double magnitude = 1;
  if (rope.scaling && rope.scaling->type == RopeScaling::Type::Yarn)
    magnitude = rope.scaling->allDimFactor;
  spec.attentionScale =
      magnitude * magnitude / std::sqrt(static_cast<double>(spec.headDim));

  ExpertSpec &experts = spec.experts;
  const char *const count = "n_routed_experts";
  if (reader.given(count) && !reader.has(count)) { // null: no layer has any
    reader.ignoreAll(
        {count, "num_experts_per_tok", "n_shared_experts", "n_group",
         "topk_group", "topk_method", "scoring_func", "norm_topk_prob",
         "routed_scaling_factor", "moe_intermediate_size", "moe_layer_freq",
         "first_k_dense_replace", "aux_loss_alpha", "seq_aux",
         "router_aux_loss_coef"});
    noteLaterTokens(reader);
    return setExpertLayers(spec, std::vector<bool>(everyLayer(spec).size()));
  }
  readExperts(reader, {"n_routed_experts", "num_experts", "num_local_experts"},
              "moe_intermediate_size", 0);
  reader.ignore("router_aux_loss_coef");
  experts.auxLoss = reader.number("aux_loss_alpha", third ? 0 : 0.001, true);
  reader.only("seq_aux", true);
  readSharedExperts(reader, third ? 1 : 2);
  experts.normalize = reader.flag("norm_topk_prob", third);
  experts.scale = reader.number("routed_scaling_factor", third ? 2.5 : 1.0);
  const std::string score =
      reader.text("scoring_func", third ? "sigmoid" : "softmax");
  if (score != "sigmoid" && score != "softmax")
    reader.unsupported("scoring_func",
                       "expected \"sigmoid\" or \"softmax\", but got " +
                           shown(json(score)) + ", which is not supported");
  experts.score =
      score == "sigmoid" ? ExpertScore::Sigmoid : ExpertScore::Softmax;
  const std::string method =
      reader.text("topk_method", third ? "noaux_tc" : "greedy");
  if (method != "noaux_tc" && method != "greedy" &&
      method != "group_limited_greedy")
    reader.unsupported("topk_method", "expected \"noaux_tc\", \"greedy\" or "
                                      "\"group_limited_greedy\", but got " +
                                          shown(json(method)) +
                                          ", which is not supported");
  experts.balancingBias = method == "noaux_tc";
  if (method != "greedy")
    readExpertGroups(reader, third ? 8 : 1, third ? 4 : 1);
  reader.ignoreAll({"n_group", "topk_group"}); // greedy has none
  noteLaterTokens(reader);
  std::vector<bool> layers = layersBehindDense(reader, third ? 3 : 0);
  const int64_t step = reader.size("moe_layer_freq", maxLayers, 1);
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i] = layers[i] && step > 0 && static_cast<int64_t>(i) % step == 0;
  setExpertLayers(spec, layers);
}

void readDeepseekV2(FamilyReader &reader) { readDeepseek(reader, false); }
void readDeepseekV3(FamilyReader &reader) { readDeepseek(reader, true); }

// clang-format off
constexpr ClassDefaults deepseekV3 = {
    .vocab = 129280, .hidden = 7168, .ffn = 18432, .layers = 61, .heads = 128,
    .positions = 4096, .experts = 256, .topK = 8, .expertFfn = 2048};

constexpr Family table[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", // without top-k of its own
     {.vocab = 32000, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32,
      .positions = 2048, .experts = 64, .expertFfn = 1407},
     readDeepseekV2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", deepseekV3, readDeepseekV3},
    {"kimi_k2", "DeepseekV3ForCausalLM", deepseekV3, readDeepseekV3},
};
// clang-format on
} // namespace

std::span<const Family> deepseekFamilies() { return table; }

} // namespace shardwright
