//===- ExpertReader.cpp - What families with experts read alike -----------===//
#include "compiler/Import/ExpertReader.h"

#include <algorithm>

namespace shardwright {

void readExpertBase(FamilyReader &reader, std::string_view architecture,
                    int64_t kvHeadsAbsent, int64_t headDimAbsent,
                    double theta) {
  ModelSpec &spec = reader.spec;
  reader.readCommon(architecture, /*quantized=*/true);
  reader.ignoreAll({"output_router_logits", "ep_size", "use_flash_attention",
                    "initial_context_length",
                    "moe_frequency"});
  if (reader.number("router_jitter_noise", 0, /*zeroAllowed=*/true) != 0)
    spec.notes.push_back(reader.where("router_jitter_noise") +
                         ": noise of the router is not applied");
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
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
  reader.readRope(spec.kinds[0].rope, theta);
}

void readExperts(FamilyReader &reader, std::string_view countKey,
                 std::string_view widthKey, double auxAbsent) {
  ExpertSpec &experts = reader.spec.experts;
  experts.countKey = countKey;
  experts.widthKey = widthKey;
  experts.count = reader.size(countKey, maxExperts);
  experts.topK = reader.size(
      reader.either({"num_experts_per_tok", "experts_per_token"}), maxExperts);
  experts.ffn = reader.size(widthKey, maxFfn);
  if (reader.find("router_aux_loss_coef"))
    experts.auxLoss = reader.number("router_aux_loss_coef", auxAbsent, true);
  else
    experts.auxLoss = auxAbsent;
  if (experts.count > 0 && experts.topK > experts.count)
    reader.malformed("num_experts_per_tok",
                     "expected at most " + std::string(countKey) + " (" +
                         std::to_string(experts.count) + "), but got " +
                         std::to_string(experts.topK),
                     cost::Diag::expert_numbers);
}

void setExpertLayers(ModelSpec &spec, const std::vector<bool> &experts) {
  const LayerKind like = spec.kinds[0];
  LayerKind dense = like, moe = like;
  moe.name = "moe";
  moe.experts = true;
  const bool any =
      std::find(experts.begin(), experts.end(), true) != experts.end();
  const bool all =
      std::find(experts.begin(), experts.end(), false) == experts.end();
  spec.stack.clear();
  spec.kinds.clear();
  if (!all || experts.empty())
    spec.kinds.push_back(dense);
  if (any)
    spec.kinds.push_back(moe);
  if (!any)
    spec.experts = {};
  const int moeKind = static_cast<int>(spec.kinds.size()) - 1;
  for (bool expert : experts) {
    const int kind = expert ? moeKind : 0;
    if (spec.stack.empty() || spec.stack.back().kind != kind)
      spec.stack.push_back({kind, 0});
    ++spec.stack.back().count;
  }
}

std::vector<bool> everyLayer(const ModelSpec &spec) {
  return std::vector<bool>(std::max<int64_t>(spec.layers, 0), true);
}

void readExpertGroups(FamilyReader &reader) {
  ExpertSpec &experts = reader.spec.experts;
  experts.groups =
      std::max<int64_t>(reader.sizeOrNull("n_group", maxExperts, 1), 1);
  experts.topGroups =
      std::max<int64_t>(reader.sizeOrNull("topk_group", maxExperts, 1), 1);
  if (experts.count > 0 && (experts.count % experts.groups != 0 ||
                            experts.topGroups > experts.groups))
    reader.malformed("n_group", "expected a divisor of n_routed_experts (" +
                                    std::to_string(experts.count) +
                                    ") that is at least topk_group (" +
                                    std::to_string(experts.topGroups) +
                                    "), but got " +
                                    std::to_string(experts.groups),
                     cost::Diag::expert_numbers);
}

void noteLaterTokens(FamilyReader &reader) {
  if (reader.find("num_nextn_predict_layers") &&
      reader.config()["num_nextn_predict_layers"] != 0)
    reader.spec.notes.push_back(
        reader.where("num_nextn_predict_layers") +
        ": modules that predict more tokens are not part of the model, as in "
        "Hugging Face's code");
}

std::vector<bool> layersBehindDense(FamilyReader &reader, int64_t absent) {
  const nlohmann::json *value = reader.find("first_k_dense_replace");
  const int64_t first = value && *value == 0
                            ? 0
                            : reader.size("first_k_dense_replace", maxLayers,
                                          absent);
  std::vector<bool> layers = everyLayer(reader.spec);
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i] = static_cast<int64_t>(i) >= first;
  return layers;
}

} // namespace shardwright
