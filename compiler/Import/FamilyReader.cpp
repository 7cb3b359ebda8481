//===- FamilyReader.cpp - Keys that several families share ----------------===//
#include "compiler/Import/Families.h"

#include <algorithm>

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
    "unsloth_fixed", "model_name", "_from_model_config", "license",
    "model_max_length", "base_model_name_or_path", "custom_pipelines",
    // Implementation choices and outputs.
    "use_cache", "_attn_implementation", "attn_implementation",
    "_attn_implementation_autoset", "_attn_implementation_internal",
    "_flash_attn_2_enabled", "_experts_implementation",
    "gradient_checkpointing", "return_dict", "use_return_dict",
    "output_hidden_states", "output_attentions", "output_scores",
    "return_dict_in_generate", "torchscript", "use_bfloat16", "tf_legacy_loss",
    "chunk_size_feed_forward", "tie_encoder_decoder", "is_decoder",
    "pretraining_tp", "sequence_parallel_enabled",
    "selective_checkpoint_enabled", "max_sequence_length", "loss_type",
    "attention_softmax_in_fp32", "masked_softmax_fusion", "softmax_in_fp32",
    "fp16", "bf16", "fp32", "use_flash_attn", "use_flash_attention_2",
    "cache_implementation",
    // Labels, and heads of other tasks.
    "_num_labels", "id2label", "label2id", "num_labels", "finetuning_task",
    "problem_type", "task_specific_params", "prefix", "classifier_dropout",
    "classifier_dropout_prob",
    // Generation.
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "max_new_tokens"};
/// Endings of names of tokens: bos_token_id, image_token_index, eos_token.
constexpr std::string_view tokenEndings[] = {"_token_id", "_token_ids",
                                             "_token_index", "_token"};

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

void FamilyReader::read(const Family &family) {
  classDefaults = &family.defaults;
  readCommon(family.architecture);
  family.read(*this);
  finish();
}

/// Keys that every config may have; refuses what no family supports.
void FamilyReader::readCommon(std::string_view architecture) {
  ignore("model_type");
  only("is_encoder_decoder", false);
  only("add_cross_attention", false);
  only("cross_attention_hidden_size", nullptr);
  only("pruned_heads", json::object());
  for (const char *key : {"quantization_config", "compression_config"})
    if (const json *value = find(key); value && !isInert(*value))
      spec.notes.push_back(where(key) +
                           ": how a checkpoint is stored; the model is read "
                           "as not quantized");
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

/// Keys with values that say what the model does anyway.
void FamilyReader::passHarmless() {
  for (std::string_view key : harmless)
    ignore(key);
  auto equals = [&](const char *key, const json &value) {
    return has(key) && root.at(key) == value;
  };
  for (const auto &[key, value] : root.items())
    for (std::string_view ending : tokenEndings)
      if (key.ends_with(ending))
        ignore(key);
  if (equals("use_sliding_window", false))
    ignoreAll({"sliding_window", "max_window_layers"});
  if (equals("partial_rotary_factor", 1.0))
    ignore("partial_rotary_factor");
  if (equals("head_dim", spec.headDim))
    ignore("head_dim");
  if (equals("num_key_value_heads", spec.kvHeads))
    ignore("num_key_value_heads");
}

void FamilyReader::unsupportedEntry(std::string_view key, size_t index,
                                    const std::string &what) {
  cost::refuse(problems, cost::Diag::unsupported_setting,
               where(key) + "/" + std::to_string(index) + ": " + what);
}

/// A family that does not read layer_types has layers of one kind.
void FamilyReader::checkLayerTypes() {
  if (sawLayerTypes || spec.layers <= 0)
    return;
  const json *types = findLayerTypes();
  for (size_t i = 0; types && i < types->size(); ++i)
    if ((*types)[i] != "full_attention")
      return unsupportedEntry("layer_types", i,
                              "expected \"full_attention\", but got " +
                                  shown((*types)[i]) +
                                  ", which is not supported");
}

void FamilyReader::finish() {
  passHarmless();
  checkLayerTypes();
  if (innerFraction && *innerFraction != 1.0)
    unsupported("rope_parameters",
                "expected a partial_rotary_factor of 1, but got " +
                    shown(json(*innerFraction)) + ", which is not supported");
  refuseUnknown(&spec.notes);
  if (taken.empty())
    return;
  std::string list;
  for (const std::string &entry : taken)
    list += (list.empty() ? "" : ", ") + entry;
  spec.notes.push_back(spec.file + (pointer.empty() ? "" : "#" + pointer) +
                       ": the config leaves out, and the configuration class "
                       "of the family has: " +
                       list);
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

int64_t FamilyReader::sizeOf(std::string_view key, int64_t limit,
                             int64_t absent) {
  if (given(key) || absent <= 0)
    return size(key, limit);
  ignore(key);
  noteDefault(key, absent);
  return absent;
}

void FamilyReader::readBase() {
  const ConfigKeys &keys = spec.keys;
  const ClassDefaults &absent = defaults();
  spec.hidden = sizeOf(keys.hidden, maxWidth, absent.hidden);
  spec.layers = sizeOf(keys.layers, maxLayers, absent.layers);
  spec.heads = sizeOf(keys.heads, maxHeads, absent.heads);
  spec.vocab = sizeOf(keys.vocab, maxVocab, absent.vocab);
  spec.ffn = absent.ffn > 0 ? sizeOf(keys.ffn, maxFfn, absent.ffn)
                            : size(keys.ffn, maxFfn, 4 * spec.hidden);
  readKvHeads();
  readHeadDim();
  spec.positions = absent.positions > 0
                       ? sizeOf(keys.positions, maxPositions, absent.positions)
                       : size(keys.positions, maxPositions, 0);
  spec.tied = flag("tie_word_embeddings", absent.tied);
  if (!keys.norm.empty())
    spec.normEps = number(keys.norm, absent.normEps);
  spec.initializerRange = number(keys.initializer, absent.initializerRange);
}

void FamilyReader::readKvHeads() {
  const std::string &key = spec.keys.kvHeads;
  const int64_t heads = std::max<int64_t>(spec.heads, 0);
  if (key == spec.keys.heads) {
    spec.kvHeads = heads;
    return;
  }
  const int64_t absent = defaults().kvHeads;
  spec.kvHeads = given(key) || absent == 0 ? size(key, maxHeads, heads)
                                           : sizeOf(key, maxHeads, absent);
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
                  std::to_string(spec.hidden) + ")" +
                  (spec.keys.headDim.empty()
                       ? ""
                       : " where there is no " + spec.keys.headDim) +
                  ", but got " + std::to_string(spec.heads) +
                  (has(spec.keys.heads) ? "" : ", the default of the family"),
              cost::Diag::heads_divide);
}

void FamilyReader::readHeadDim() {
  const std::string &key = spec.keys.headDim;
  if (key.empty() && spec.headDim > 0)
    return; // the family has put it together of others
  const int64_t absent = defaults().headDim;
  spec.headDim = key.empty()                 ? 0
                 : given(key) || absent == 0 ? size(key, maxWidth, 0)
                                             : sizeOf(key, maxWidth, absent);
  const bool derived = key.empty() || !has(key);
  if (spec.headDim == 0 && derived)
    deriveHeadDim();
  if (spec.kinds[0].rope.width < 0 && spec.headDim % 2 != 0)
    malformed(derived ? spec.keys.hidden : key,
              "expected an even head width for the rotary embedding, "
              "but got " +
                  std::to_string(spec.headDim),
              cost::Diag::odd_rotary_width);
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

const json *FamilyReader::findLayerTypes() {
  sawLayerTypes = true;
  const json *types = find("layer_types");
  if (!types || (types->is_array() &&
                 static_cast<int64_t>(types->size()) == spec.layers))
    return types;
  malformed("layer_types", "expected a list of " + spec.keys.layers + " (" +
                               std::to_string(spec.layers) +
                               ") strings, but got " +
                               (types->is_array() ? std::to_string(types->size())
                                                  : shown(*types)));
  return nullptr;
}

std::vector<bool>
FamilyReader::readLayerNumbers(const std::string &key,
                               const std::vector<bool> &absent) {
  const json *list = find(key);
  if (!list)
    return absent;
  std::vector<bool> layers(absent.size(), false);
  const std::string wanted =
      "from 0 to " + std::to_string(static_cast<int64_t>(layers.size()) - 1);
  if (!list->is_array())
    malformed(key, "expected a list of layer numbers " + wanted + ", but got " +
                       shown(*list));
  for (size_t i = 0; list->is_array() && i < list->size(); ++i) {
    const json &layer = (*list)[i];
    if (layer.is_number_integer() && layer >= 0 && layer < layers.size())
      layers[layer.get<size_t>()] = true;
    else
      cost::refuse(problems, cost::Diag::wrong_value,
                   where(key) + "/" + std::to_string(i) +
                       ": expected a layer number " + wanted + ", but got " +
                       shown(layer));
  }
  return layers;
}

std::vector<bool>
FamilyReader::readLayerTypes(const std::vector<bool> &absent) {
  const json *types = findLayerTypes();
  if (!types)
    return absent;
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
  return given(key)    ? size(key, limit, 0)
         : absent == 0 ? 0
                       : sizeOf(key, limit, absent);
}

double FamilyReader::numberOrNull(std::string_view key, double absent) {
  return number(key, given(key) ? 0.0 : absent);
}

} // namespace shardwright
