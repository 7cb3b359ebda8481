//===- ProfileJson.cpp - Reads shardwright.profile/1
//--------------------------===//
#include "cost_model/base/JsonReader.h"
#include "cost_model/hardware/Profile.h"
#include "cost_model/hardware/ShippedData.h"

#include <algorithm>

namespace shardwright::cost {
namespace {

/// End of bytes per element, of operators per operator, of shares.
constexpr double maxPerElement = 1e6;

DType readDType(JsonObject &object, const std::string &key) {
  const std::string text = object.string(key);
  for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
    if (text == name(dtype))
      return dtype;
  object.complain("/" + key,
                  "expected f64, f32, bf16 or f16, but got '" + text + "'");
  return DType::F32;
}

AttentionVariant readVariant(JsonObject &object, const std::string &text) {
  for (AttentionVariant variant :
       {AttentionVariant::Unfused, AttentionVariant::Flash1,
        AttentionVariant::Flash2, AttentionVariant::Flash3,
        AttentionVariant::Host})
    if (text == name(variant))
      return variant;
  object.complain("/attention", "expected unfused, flash1, flash2, flash3 or "
                                "host, but got '" +
                                    text + "'");
  return AttentionVariant::Unfused;
}

StageLayout readLayout(JsonObject &object, const std::string &text) {
  for (StageLayout layout :
       {StageLayout::Layers, StageLayout::Products, StageLayout::Modules})
    if (text == name(layout))
      return layout;
  object.complain("/stages", "expected layers, products or modules, but got '" +
                                 text + "'");
  return StageLayout::Layers;
}

} // namespace

std::string_view name(StageLayout layout) {
  switch (layout) {
  case StageLayout::Layers:
    return "layers";
  case StageLayout::Products:
    return "products";
  case StageLayout::Modules:
    return "modules";
  }
  return "";
}

bool readProfile(std::string_view text, std::string_view file, Profile &profile,
                 Failure &failure) {
  nlohmann::json root;
  const std::string where(file);
  const size_t before = failure.messages.size();
  failure.kind = FailureKind::Input;
  if (!parseStrictly(text, where, root, failure))
    return false;
  JsonObject object(root, where + "#", failure);
  object.schema("shardwright.profile/1");
  Profile result;
  result.name = object.string("name");
  result.description = object.string("description");
  if (object.has("framework"))
    if (const std::string text = object.string("framework");
        !parseFramework(text, result.framework))
      object.complain("/framework", "expected " + frameworkNames() +
                                        ", but got '" + text + "'");
  object.source();

  const nlohmann::json &attention = object.at("attention");
  if (!attention.is_array() || attention.empty())
    object.complain("/attention", "expected kernels in order of preference");
  else
    for (const nlohmann::json &entry : attention)
      result.attention.push_back(readVariant(
          object, entry.is_string() ? entry.get<std::string>() : entry.dump()));
  {
    JsonObject scores = object.child("unfused_scores");
    result.scoreBytesForward = scores.number("forward_bytes", 0, maxPerElement);
    result.scoreBytesBackward =
        scores.number("backward_bytes", 0, maxPerElement);
    result.scoreSavedBytes = scores.number("saved_bytes", 0, maxPerElement);
    scores.source();
    scores.finish();
  }
  {
    JsonObject fusion = object.child("fusion");
    result.fuseElementwise = fusion.boolean("elementwise");
    result.fuseNorm = fusion.boolean("norm");
    result.fuseSiblingProducts = fusion.boolean("sibling_products");
    result.fuseGradientAccumulation = fusion.boolean("gradient_accumulation");
    result.gatedInputsApart = fusion.boolean("gated_inputs_apart");
    fusion.finish();
  }
  {
    JsonObject recompute = object.child("recompute");
    result.recomputeWholeLayer = recompute.boolean("whole_layer");
    result.selectiveKeepsOutput = recompute.boolean("selective_keeps_output");
    result.selectiveLayerShare =
        recompute.number("selective_layer_share", 0, 1);
    recompute.source();
    recompute.finish();
  }
  result.stages = readLayout(object, object.string("stages"));
  {
    JsonObject overlap = object.child("overlap");
    result.overlapForwardTensor = overlap.boolean("forward_tensor");
    result.overlapDataGradient = overlap.boolean("data_gradient");
    result.overlapWeightGather = overlap.boolean("weight_gather");
    result.overlapGradientReduce = overlap.boolean("gradient_reduce");
    result.overlapParameterGather = overlap.boolean("parameter_gather");
    result.overlapTransfers = overlap.boolean("transfers");
    overlap.source();
    overlap.finish();
  }
  result.scatterTransfers = object.boolean("scatter_transfers");
  result.gatherLogits = object.boolean("gather_logits");
  result.keepsGatheredInputs = object.boolean("keep_gathered_inputs");
  {
    JsonObject reduction = object.child("reduction");
    result.allReduceUnderZero = reduction.boolean("all_reduce_under_zero");
    result.reducedGradientBytes = reduction.number("wire_bytes", 0, 8);
    result.reductionTraffic =
        reduction.number("traffic_bytes", 0, maxPerElement);
    reduction.source();
    reduction.finish();
  }
  {
    JsonObject host = object.child("host");
    result.launch = Seconds(host.number("operator_seconds", 0, 1));
    result.forwardOperators =
        host.number("forward_operators", 0, maxPerElement);
    result.backwardOperators =
        host.number("backward_operators", 0, maxPerElement);
    result.expertOperators = host.number("expert_operators", 0, maxPerElement);
    result.narrowOperators = host.number("narrow_operators", 0, maxPerElement);
    result.waitsForRows = host.boolean("waits_for_rows");
    host.source();
    host.finish();
  }
  {
    JsonObject eager = object.child("eager_bytes");
    const auto read = [&](const std::string &name, EagerTraffic &traffic) {
      traffic.forward = eager.number(name + "_forward", 0, maxPerElement);
      traffic.backward = eager.number(name + "_backward", 0, maxPerElement);
      traffic.saved = eager.number(name + "_saved", 0, maxPerElement);
    };
    read("norm", result.norm);
    read("rotary", result.rotary);
    read("activation", result.activation);
    read("loss", result.loss);
    eager.source();
    eager.finish();
  }
  {
    JsonObject update = object.child("update");
    result.stateBytesPerParameter =
        update.number("state_bytes_per_parameter", 0, maxPerElement);
    result.gradientBytesPerParameter =
        update.number("gradient_bytes_per_parameter", 0, maxPerElement);
    update.source();
    update.finish();
  }
  {
    JsonObject memory = object.child("memory");
    result.frameworkBytes = Bytes(memory.integer("framework_bytes", 0));
    result.communicatorBytes = Bytes(memory.integer("communicator_bytes", 0));
    result.allocatorSlack = memory.number("allocator_slack", 0, maxPerElement);
    result.masterIsParameter = memory.boolean("master_is_parameter");
    result.gradientCopyBytes =
        memory.number("gradient_copy_bytes", 0, maxPerElement);
    result.bucketBytesPerParameter =
        memory.number("bucket_bytes", 0, maxPerElement);
    result.updateBytesPerParameter =
        memory.number("update_bytes", 0, maxPerElement);
    result.savedMaskBytes = memory.number("saved_mask_bytes", 0, maxPerElement);
    memory.source();
    memory.finish();
  }
  {
    JsonObject dtypes = object.child("dtypes");
    result.dtypes.param = readDType(dtypes, "param");
    result.dtypes.compute = readDType(dtypes, "compute");
    result.dtypes.reduce = readDType(dtypes, "reduce");
    result.dtypes.grad = readDType(dtypes, "grad");
    result.dtypes.master = readDType(dtypes, "master");
    dtypes.finish();
  }
  object.finish();
  if (failure.messages.size() != before)
    return false;
  profile = std::move(result);
  return true;
}

bool Profile::redoes(std::string_view label) const {
  return std::any_of(
      redoneLabels.begin(), redoneLabels.end(), [&](std::string_view entry) {
        return entry.back() == '*'
                   ? label.starts_with(entry.substr(0, entry.size() - 1))
                   : label == entry;
      });
}

const char *shippedProfile(std::string_view name) {
  for (const ShippedText &shipped : shippedProfileTexts())
    if (shipped.name == name)
      return shipped.text;
  return nullptr;
}

std::vector<std::string> shippedProfileNames() {
  std::vector<std::string> names;
  for (const ShippedText &shipped : shippedProfileTexts())
    names.emplace_back(shipped.name);
  std::sort(names.begin(), names.end()); // files sort '-' before '.'
  return names;
}

} // namespace shardwright::cost
