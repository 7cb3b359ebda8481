//===- FamilyReader.cpp - Keys that several families share ----------------===//
#include "compiler/Import/Families.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

using nlohmann::json;

namespace {
/// Keys of every family that never change what is computed in training:
/// provenance, generation, and switches of training frameworks.
constexpr std::string_view harmless[] = {
    // Provenance and files.
    "_name_or_path", "name_or_path", "_commit_hash", "transformers_version",
    "tokenizer", "tokenizer_class", "torch_dtype", "dtype", "auto_map",
    "unsloth_version", "transformers.js_config", "is_llama_config",
    "unsloth_fixed", "model_name", "_from_model_config",
    // Implementation choices and outputs.
    "use_cache", "_attn_implementation", "attn_implementation",
    "_attn_implementation_autoset", "_attn_implementation_internal",
    "gradient_checkpointing", "return_dict", "use_return_dict",
    "output_hidden_states", "output_attentions", "output_scores",
    "return_dict_in_generate", "torchscript", "use_bfloat16", "tf_legacy_loss",
    "chunk_size_feed_forward", "tie_encoder_decoder", "is_decoder",
    "pretraining_tp", "sequence_parallel_enabled",
    "selective_checkpoint_enabled", "max_sequence_length", "loss_type",
    "attention_softmax_in_fp32", "masked_softmax_fusion", "softmax_in_fp32",
    "fp16", "bf16", "fp32", "use_flash_attn", "use_flash_attention_2",
    "cache_implementation",
    // Tokens and labels.
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    "unk_token_id", "decoder_start_token_id", "_num_labels", "id2label",
    "label2id", "num_labels", "finetuning_task", "problem_type",
    "task_specific_params", "prefix",
    // Generation.
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "max_new_tokens"};

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
/// Names of Hugging Face. Three of them are one formula:
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
constexpr NamedActivation activations[] = {
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
    {"gelu", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"relu", Activation::Relu}};
} // namespace

void FamilyReader::readCommon(std::string_view architecture, bool quantized) {
  for (std::string_view key : harmless)
    ignore(key);
  ignore("model_type");
  only("is_encoder_decoder", false);
  only("add_cross_attention", false);
  only("cross_attention_hidden_size", nullptr);
  only("pruned_heads", json::object());
  if (quantized) {
    if (find("quantization_config"))
      spec.notes.push_back(where("quantization_config") +
                           ": how a checkpoint is stored; the model is read as "
                           "not quantized");
  } else
    only("quantization_config", nullptr);
  const json *architectures = find("architectures");
  if (!architectures)
    return;
  json wanted = json::array({architecture});
  if (!architectures->is_array())
    malformed("architectures",
              "expected " + shown(wanted) + ", but got " +
                  shown(*architectures),
              cost::Diag::wrong_type);
  else if (!architectures->empty() && *architectures != wanted)
    unsupported("architectures",
                "expected " + shown(wanted) + ", but got " +
                    shown(*architectures) + ", which is not supported",
                cost::Diag::unsupported_architecture);
}

std::string_view
FamilyReader::either(std::initializer_list<std::string_view> keys) {
  const std::string_view *found = nullptr;
  for (const std::string_view &key : keys) {
    if (!has(key))
      continue;
    if (!found) {
      found = &key;
      continue;
    }
    const json &first = root.at(std::string(*found));
    const json *other = find(key);
    if (*other != first)
      malformed(key,
                "expected the value of " + std::string(*found) + " (" +
                    shown(first) + "), but got " + shown(*other),
                cost::Diag::conflicting_keys);
  }
  return found ? *found : *keys.begin();
}

void FamilyReader::noteDropout(std::string_view key) {
  if (dropout(key))
    spec.notes.push_back(where(key) + ": dropout is not applied");
}

void FamilyReader::readSizes() {
  spec.hidden = size(spec.keys.hidden, maxWidth);
  spec.layers = size(spec.keys.layers, maxLayers);
  spec.heads = size(spec.keys.heads, maxHeads);
  spec.vocab = size(spec.keys.vocab, maxVocab);
}

void FamilyReader::readKvHeads(int64_t absent) {
  const std::string &key = spec.keys.kvHeads;
  const int64_t heads = std::max<int64_t>(spec.heads, 0);
  spec.kvHeads = size(key, maxHeads, given(key) || !absent ? heads : absent);
  if (spec.heads > 0 && spec.kvHeads > 0 && spec.heads % spec.kvHeads != 0)
    malformed(key,
              "expected a divisor of " + spec.keys.heads + " (" +
                  std::to_string(spec.heads) + "), but got " +
                  std::to_string(spec.kvHeads) +
                  (has(key) ? "" : ", the default of the family"),
              cost::Diag::heads_divide);
}

void FamilyReader::deriveHeadDim() {
  if (spec.heads <= 0 || spec.hidden <= 0)
    return;
  if (spec.hidden % spec.heads == 0)
    spec.headDim = spec.hidden / spec.heads;
  else
    malformed(spec.keys.heads,
              "expected a divisor of " + spec.keys.hidden + " (" +
                  std::to_string(spec.hidden) + "), but got " +
                  std::to_string(spec.heads),
              cost::Diag::heads_divide);
}

void FamilyReader::readHeadDim(int64_t absent) {
  spec.headDim = size("head_dim", maxWidth, given("head_dim") ? 0 : absent);
  if (spec.headDim == 0 && !has("head_dim"))
    deriveHeadDim();
  const int64_t width = spec.kinds[0].rope.width;
  if (width < 0 && spec.headDim % 2 != 0)
    malformed(has("head_dim") ? "head_dim" : spec.keys.hidden,
              "expected an even head width for the rotary embedding, "
              "but got " +
                  std::to_string(spec.headDim),
              cost::Diag::odd_rotary_width);
}

void FamilyReader::readPositions(int64_t absent) {
  spec.positions = size(spec.keys.positions, maxPositions, absent);
}

Activation
FamilyReader::readActivation(std::string_view key, std::string_view absent,
                             std::initializer_list<Activation> supported) {
  const std::string found = text(key, absent);
  std::string wanted;
  for (const NamedActivation &entry : activations) {
    if (std::find(supported.begin(), supported.end(), entry.activation) ==
        supported.end())
      continue;
    if (entry.name == found)
      return entry.activation;
    // One name per formula is enough for a message.
    if (entry.name != "swish" && entry.name != "gelu_fast" &&
        entry.name != "gelu_pytorch_tanh")
      wanted +=
          (wanted.empty() ? "\"" : " or \"") + std::string(entry.name) + "\"";
  }
  unsupported(key, "expected " + wanted + ", but got " + shown(json(found)) +
                       ", which is not supported");
  return *supported.begin();
}

/// Ding et al., arXiv:2402.13753, as in transformers' modeling_rope_utils.py:
/// the original positions stand beside rope_scaling.
void FamilyReader::readLongRope(ConfigReader &reader,
                                RopeScaling &scaling) {
  scaling.type = RopeScaling::Type::Long;
  const std::string_view key = "original_max_position_embeddings";
  const bool outside = has(key);
  scaling.originalPositions =
      outside ? size(key, maxPositions)
              : reader.size(key, maxPositions,
                            spec.positions > 0 ? spec.positions : -1);
  scaling.factor = reader.number("factor", 1);
  if (outside && scaling.originalPositions > 0 && spec.positions > 0)
    scaling.factor = static_cast<double>(spec.positions) /
                     static_cast<double>(scaling.originalPositions);
  const double grown =
      scaling.factor > 1 && scaling.originalPositions > 1
          ? std::sqrt(1 + std::log(scaling.factor) /
                              std::log(static_cast<double>(
                                  scaling.originalPositions)))
          : 1;
  scaling.attentionFactor = reader.number("attention_factor", grown);
  auto read = [&](const char *name, std::vector<double> &factors) {
    const json *list = reader.find(name);
    bool good = list && list->is_array() && !list->empty();
    for (size_t i = 0; good && i < list->size(); ++i) {
      const json &factor = (*list)[i];
      good = factor.is_number() && factor.get<double>() > 0 &&
             std::isfinite(factor.get<double>());
      if (good)
        factors.push_back(factor.get<double>());
    }
    if (!good)
      reader.malformed(name, "expected a list of numbers above 0, but got " +
                                 (list ? shown(*list) : "no such key"));
  };
  read("short_factor", scaling.shortFactors);
  read("long_factor", scaling.longFactors);
}

/// One rotary description; transformers before version 5 keep rope_theta
/// beside `rope_scaling`, later ones inside `rope_parameters`.
void FamilyReader::readRopeObject(const json &object, std::string_view key,
                                  Rope &rope) {
  ConfigReader reader(object, spec.file, pointer + "/" + std::string(key),
                      problems);
  rope.theta = reader.number("rope_theta", rope.theta);
  std::string oldName = reader.text("type", "");
  std::string type = reader.text("rope_type", oldName);
  if (!oldName.empty() && oldName != type)
    reader.malformed("type",
                     "expected the value of rope_type (" + shown(json(type)) +
                         "), but got " + shown(json(oldName)),
                     cost::Diag::conflicting_keys);
  RopeScaling scaling;
  if (type == "linear") {
    scaling.type = RopeScaling::Type::Linear;
    scaling.factor = reader.requiredNumber("factor");
    rope.scaling = scaling;
  } else if (type == "llama3") {
    scaling.type = RopeScaling::Type::Llama3;
    scaling.factor = reader.requiredNumber("factor");
    scaling.lowFreqFactor = reader.requiredNumber("low_freq_factor");
    scaling.highFreqFactor = reader.requiredNumber("high_freq_factor");
    scaling.originalPositions =
        reader.size("original_max_position_embeddings", maxPositions);
    if (scaling.highFreqFactor < scaling.lowFreqFactor &&
        reader.has("high_freq_factor") && reader.has("low_freq_factor"))
      reader.malformed("high_freq_factor",
                       "expected at least low_freq_factor (" +
                           shown(object["low_freq_factor"]) + "), but got " +
                           shown(object["high_freq_factor"]),
                       cost::Diag::conflicting_keys);
    rope.scaling = scaling;
  } else if (type == "yarn") {
    scaling.type = RopeScaling::Type::Yarn;
    scaling.factor = reader.requiredNumber("factor");
    scaling.betaFast = reader.number("beta_fast", 32);
    scaling.betaSlow = reader.number("beta_slow", 1);
    scaling.originalPositions =
        reader.size("original_max_position_embeddings", maxPositions,
                    spec.positions > 0 ? spec.positions : -1);
    scaling.truncate = reader.flag("truncate", true);
    // Peng et al., arXiv:2309.00071, and what DeepSeek added.
    auto magnitude = [&](double weight) {
      return scaling.factor > 1 ? 0.1 * weight * std::log(scaling.factor) + 1
                                : 1.0;
    };
    const double part = reader.number("mscale", 1);
    const bool split = reader.has("mscale_all_dim");
    scaling.allDimFactor =
        split ? magnitude(reader.number("mscale_all_dim", 1)) : 1;
    scaling.attentionFactor = reader.number(
        "attention_factor", magnitude(part) / scaling.allDimFactor);
    rope.scaling = scaling;
  } else if (type == "longrope" || type == "su") {
    readLongRope(reader, scaling);
    rope.scaling = scaling;
  } else if (type.empty() && reader.has("rope_theta") && object.size() == 1) {
    // rope_parameters with nothing but the base.
  } else if (type.empty()) {
    reader.malformed("rope_type",
                     "expected one of \"default\", \"linear\", \"llama3\", "
                     "\"yarn\", \"longrope\", but got no such key",
                     cost::Diag::missing_key);
    return;
  } else if (type != "default") {
    reader.unsupported("rope_type", "expected one of \"default\", \"linear\", "
                                    "\"llama3\", \"yarn\", \"longrope\", but "
                                    "got " +
                                        shown(json(type)) +
                                        ", which is not supported");
    return; // its own keys are no further problem
  }
  reader.refuseUnknown();
}

void FamilyReader::readRope(Rope &rope, double theta) {
  rope.theta = number(spec.keys.rope, theta);
  const json *older = find("rope_scaling"), *newer = find("rope_parameters");
  if (older && newer && older->is_object() && newer->is_object()) {
    json scaling = *older, parameters = *newer;
    scaling.erase("rope_theta");
    parameters.erase("rope_theta");
    if (scaling != parameters)
      malformed("rope_parameters",
                "expected what rope_scaling says or no such key, but got " +
                    shown(*newer),
                cost::Diag::conflicting_keys);
  }
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (const json *value = find(key)) {
      if (!value->is_object())
        malformed(key, "expected an object or null, but got " + shown(*value),
                  cost::Diag::wrong_type);
      else
        readRopeObject(*value, key, rope);
    }
}

void FamilyReader::setRotaryFraction(Rope &rope, double fraction,
                                     std::string_view key) {
  // As Hugging Face: int(head_dim * fraction).
  const int64_t width =
      static_cast<int64_t>(static_cast<double>(spec.headDim) * fraction);
  rope.width = width == spec.headDim ? -1 : width;
  if (spec.headDim > 0 && (width < 2 || width > spec.headDim || width % 2 != 0))
    malformed(key,
              "expected an even number of rotated columns from 2 to " +
                  std::to_string(spec.headDim) + ", but got " +
                  std::to_string(width),
              cost::Diag::odd_rotary_width);
}

std::vector<bool>
FamilyReader::readLayerTypes(const std::vector<bool> &absent) {
  const json *types = find("layer_types");
  if (!types)
    return absent;
  if (!types->is_array() ||
      static_cast<int64_t>(types->size()) != spec.layers) {
    malformed("layer_types",
              "expected a list of " + spec.keys.layers + " (" +
                  std::to_string(spec.layers) + ") strings, but got " +
                  (types->is_array() ? std::to_string(types->size())
                                     : shown(*types)));
    return absent;
  }
  std::vector<bool> result;
  for (size_t i = 0; i < types->size(); ++i) {
    const json &type = (*types)[i];
    if (type != "sliding_attention" && type != "full_attention") {
      unsupported("layer_types",
                  "expected \"sliding_attention\" or \"full_attention\", but "
                  "got " +
                      shown(type) + ", which is not supported");
      return absent;
    }
    result.push_back(type == "sliding_attention");
  }
  return result;
}

void FamilyReader::setLayers(const std::vector<bool> &windowed, int64_t window,
                             const Rope &local, const Rope &global) {
  const bool some = window > 0 && std::find(windowed.begin(), windowed.end(),
                                            true) != windowed.end();
  const bool all = some && std::find(windowed.begin(), windowed.end(), false) ==
                               windowed.end();
  spec.stack.clear();
  if (all || !some) {
    // One kind; a list of windowed layers without a window is one of full ones
    // only if both turn alike.
    if (all || local == global || windowed.empty() ||
        std::find(windowed.begin(), windowed.end(), true) == windowed.end()) {
      spec.kinds = {{"dense", all ? window : 0, all ? local : global}};
      return;
    }
  }
  spec.kinds = {{"local", window, local}, {"global", 0, global}};
  for (bool local : windowed) {
    const int kind = local ? 0 : 1;
    if (spec.stack.empty() || spec.stack.back().kind != kind)
      spec.stack.push_back({kind, 0});
    ++spec.stack.back().count;
  }
}

int64_t FamilyReader::sizeOrNull(std::string_view key, int64_t limit,
                                 int64_t absent) {
  return size(key, limit, given(key) ? 0 : absent);
}

double FamilyReader::numberOrNull(std::string_view key, double absent) {
  return number(key, given(key) ? 0.0 : absent);
}

} // namespace shardwright
