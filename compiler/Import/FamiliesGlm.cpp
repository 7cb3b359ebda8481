//===- FamiliesGlm.cpp - GLM-4.5 ------------------------------------------===//
#include "compiler/Import/ExpertReader.h"

namespace shardwright {

namespace {

/// Router and shared experts of DeepSeek-V3 behind grouped-query attention.
void readGlm4Moe(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader, "Glm4MoeForCausalLM", 8);
  if (!reader.has("rms_norm_eps"))
    spec.normEps = 1e-5;
  reader.setRotaryFraction(spec.kinds[0].rope,
                           reader.number("partial_rotary_factor", 0.5),
                           "partial_rotary_factor");
  spec.qkvBias = reader.flag("attention_bias", false); // not of o_proj
  if (reader.flag("use_qk_norm", false))
    spec.qkNorm = QkNorm::PerHead;

  readExperts(reader, "n_routed_experts", "moe_intermediate_size", 0);
  ExpertSpec &experts = spec.experts;
  experts.score = ExpertScore::Sigmoid;
  experts.balancingBias = true;
  experts.normalize = reader.flag("norm_topk_prob", true);
  experts.scale = reader.number("routed_scaling_factor", 1.0);
  experts.sharedFfn =
      reader.size("n_shared_experts", maxExperts, 1) * experts.ffn;
  readExpertGroups(reader);
  noteLaterTokens(reader);
  setExpertLayers(spec, layersBehindDense(reader, 1));
  reader.refuseUnknown();
}

constexpr Family table[] = {
    {"glm4_moe", "Glm4MoeForCausalLM", readGlm4Moe},
};
} // namespace

std::span<const Family> glmFamilies() { return table; }

} // namespace shardwright
