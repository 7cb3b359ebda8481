//===- FamiliesGlm.cpp - GLM-4.5 ------------------------------------------===//
#include "compiler/Import/ExpertReader.h"

namespace shardwright {

namespace {

/// Router and shared experts of DeepSeek-V3 behind grouped-query attention.
void readGlm4Moe(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  reader.readRotaryFraction(spec.kinds[0].rope, "partial_rotary_factor", 0.5);
  spec.qkvBias = reader.flag("attention_bias", false); // not of o_proj
  if (reader.flag("use_qk_norm", false))
    spec.qkNorm = QkNorm::PerHead;

  readExperts(reader, {"n_routed_experts", "num_experts", "num_local_experts"},
              "moe_intermediate_size", 0);
  ExpertSpec &experts = spec.experts;
  experts.score = ExpertScore::Sigmoid;
  experts.balancingBias = true;
  experts.normalize = reader.flag("norm_topk_prob", true);
  experts.scale = reader.number("routed_scaling_factor", 1.0);
  readSharedExperts(reader, 1);
  readExpertGroups(reader);
  noteLaterTokens(reader);
  setExpertLayers(spec, layersBehindDense(reader, 1));
}

// clang-format off
constexpr Family table[] = {
    {"glm4_moe", "Glm4MoeForCausalLM",
     {.vocab = 151552, .hidden = 4096, .ffn = 10944, .layers = 46, .heads = 96,
      .kvHeads = 8, .positions = 131072, .normEps = 1e-5, .experts = 128,
      .topK = 8, .expertFfn = 1408},
     readGlm4Moe},
};
// clang-format on
} // namespace

std::span<const Family> glmFamilies() { return table; }

} // namespace shardwright
