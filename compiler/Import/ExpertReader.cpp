//===- ExpertReader.cpp - What families with experts read alike -----------===//
#include "compiler/Import/ExpertReader.h"

#include <algorithm>

namespace shardwright {

void readExpertBase(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.ignoreAll({"output_router_logits", "ep_size", "use_flash_attention",
                    "initial_context_length"});
  reader.only("moe_frequency", 1); // NeMo and Neuron: every so many layers
  if (reader.number("router_jitter_noise", 0, /*zeroAllowed=*/true) != 0)
    spec.notes.push_back(reader.where("router_jitter_noise") +
                         ": noise of the router is not applied");
  reader.readBase();
  spec.activation =
      reader.readActivation("hidden_act", "silu", {Activation::Silu});
  reader.noteDropouts({"attention_dropout", "hidden_dropout"});
  reader.readRope(spec.kinds[0].rope);
}

void readExperts(FamilyReader &reader,
                 std::initializer_list<std::string_view> countKeys,
                 std::string_view widthKey, double auxAbsent) {
  ExpertSpec &experts = reader.spec.experts;
  const ClassDefaults &absent = reader.defaults();
  const std::string countKey(reader.either(countKeys));
  experts.countKey = countKey;
  experts.widthKey = widthKey;
  experts.count = reader.sizeOf(countKey, maxExperts, absent.experts);
  experts.topK =
      reader.sizeOf(reader.either({"num_experts_per_tok", "experts_per_token"}),
                    maxExperts, absent.topK);
  // Without MLPs of another width an expert's key is that of ffn.
  experts.ffn = widthKey == reader.spec.keys.ffn
                    ? reader.spec.ffn
                    : reader.sizeOf(widthKey, maxFfn, absent.expertFfn);
  experts.auxLoss = reader.number("router_aux_loss_coef", auxAbsent, true);
  if (experts.count > 0 && experts.topK > experts.count)
    reader.malformed("num_experts_per_tok",
                     "expected at most " + countKey + " (" +
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

void readExpertGroups(FamilyReader &reader, int64_t groupsAbsent,
                      int64_t chosenAbsent) {
  ExpertSpec &experts = reader.spec.experts;
  auto read = [&](const char *key, int64_t absent) {
    return std::max<int64_t>(absent == 1
                                 ? reader.size(key, maxExperts, 1)
                                 : reader.sizeOrNull(key, maxExperts, absent),
                             1);
  };
  experts.groups = read("n_group", groupsAbsent);
  experts.topGroups = read("topk_group", chosenAbsent);
  if (experts.count > 0 && (experts.count % experts.groups != 0 ||
                            experts.topGroups > experts.groups))
    reader.malformed("n_group",
                     "expected a divisor of n_routed_experts (" +
                         std::to_string(experts.count) +
                         ") that is at least topk_group (" +
                         std::to_string(experts.topGroups) + "), but got " +
                         std::to_string(experts.groups),
                     cost::Diag::expert_numbers);
}

void readSharedExperts(FamilyReader &reader, int64_t absent) {
  const char *key = "n_shared_experts";
  const nlohmann::json *value = reader.find(key);
  const int64_t count =
      value && *value == 0 ? 0 : reader.sizeOrNull(key, maxExperts, absent);
  ExpertSpec &experts = reader.spec.experts;
  experts.sharedFfn = count * experts.ffn;
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
  const char *key = "first_k_dense_replace";
  const nlohmann::json *value = reader.find(key);
  const int64_t first =
      value && *value == 0 ? 0 : reader.sizeOrNull(key, maxLayers, absent);
  std::vector<bool> layers = everyLayer(reader.spec);
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i] = static_cast<int64_t>(i) >= first;
  return layers;
}

} // namespace shardwright
