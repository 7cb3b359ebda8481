#include "compiler/Import/HfConfig.h"

#include "compiler/Import/ConfigReader.h"

#include <cmath>
#include <filesystem>
#include <fstream>

namespace shardwright {

using nlohmann::json;

namespace {
// Bounds far above any model, and low enough that no product of an op's sizes
// needs more than checkSpec looks at.
constexpr int64_t maxLayers = 1 << 16;
constexpr int64_t maxWidth = 1 << 20; // hidden, heads * head_dim
constexpr int64_t maxHeads = 1 << 16;
constexpr int64_t maxFfn = 1 << 24;
constexpr int64_t maxVocab = 1 << 24;
constexpr int64_t maxPositions = 1 << 24;
constexpr std::streamsize maxFileBytes = 16 << 20;

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
    // Tokens and labels.
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    "decoder_start_token_id", "_num_labels", "id2label", "label2id",
    "num_labels", "finetuning_task", "problem_type", "task_specific_params",
    "prefix",
    // Generation.
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "max_new_tokens"};

/// GPT-2 only: the sequence summary is part of other heads; n_ctx is an old
/// name that current code does not read; upcasting changes rounding only.
constexpr std::string_view harmlessGpt2[] = {
    "summary_activation", "summary_first_dropout",  "summary_proj_to_labels",
    "summary_type",       "summary_use_proj",       "n_ctx",
    "output_past",        "predict_special_tokens", "reorder_and_upcast_attn"};

void noteDropout(ConfigReader &reader, std::string_view key, ModelSpec &spec) {
  if (reader.dropout(key))
    spec.notes.push_back(reader.where(key) + ": dropout is not applied");
}

void readCommon(ConfigReader &reader, std::string_view architecture) {
  for (std::string_view key : harmless)
    reader.ignore(key);
  reader.only("is_encoder_decoder", false);
  reader.only("add_cross_attention", false);
  reader.only("cross_attention_hidden_size", nullptr);
  reader.only("pruned_heads", json::object());
  reader.only("quantization_config", nullptr);
  const json *architectures = reader.find("architectures");
  if (!architectures)
    return;
  json wanted = json::array({architecture});
  if (!architectures->is_array())
    reader.malformed("architectures", "expected " + shown(wanted) +
                                          ", but got " + shown(*architectures));
  else if (!architectures->empty() && *architectures != wanted)
    reader.unsupported("architectures",
                       "expected " + shown(wanted) + ", but got " +
                           shown(*architectures) + ", which is not supported");
}

/// One rotary description; transformers before version 5 keep rope_theta
/// beside `rope_scaling`, later ones inside `rope_parameters`.
void readRope(const json &object, const std::string &file,
              const std::string &pointer, ModelSpec &spec, Problems &problems) {
  ConfigReader rope(object, file, pointer, problems);
  spec.ropeTheta = rope.number("rope_theta", spec.ropeTheta);
  std::string oldName = rope.text("type", "");
  std::string type = rope.text("rope_type", oldName);
  if (!oldName.empty() && oldName != type)
    rope.malformed("type", "expected the value of rope_type (" +
                               shown(json(type)) + "), but got " +
                               shown(json(oldName)));
  RopeScaling scaling;
  if (type == "linear") {
    scaling.type = RopeScaling::Type::Linear;
    scaling.factor = rope.requiredNumber("factor");
    spec.ropeScaling = scaling;
  } else if (type == "llama3") {
    scaling.type = RopeScaling::Type::Llama3;
    scaling.factor = rope.requiredNumber("factor");
    scaling.lowFreqFactor = rope.requiredNumber("low_freq_factor");
    scaling.highFreqFactor = rope.requiredNumber("high_freq_factor");
    scaling.originalPositions =
        rope.size("original_max_position_embeddings", maxPositions);
    if (scaling.highFreqFactor <= scaling.lowFreqFactor &&
        rope.has("high_freq_factor") && rope.has("low_freq_factor"))
      rope.malformed("high_freq_factor",
                     "expected a number above low_freq_factor (" +
                         shown(object["low_freq_factor"]) + "), but got " +
                         shown(object["high_freq_factor"]));
    spec.ropeScaling = scaling;
  } else if (type.empty() && rope.has("rope_theta") && object.size() == 1) {
    // rope_parameters with nothing but the base.
  } else if (type.empty()) {
    rope.malformed("rope_type", "expected one of \"default\", \"linear\", "
                                "\"llama3\", but got no such key");
    return;
  } else if (type != "default") {
    rope.unsupported("rope_type", "expected one of \"default\", \"linear\", "
                                  "\"llama3\", but got " +
                                      shown(json(type)) +
                                      ", which is not supported");
    return; // its own keys are no further problem
  }
  rope.refuseUnknown();
}

void readLlama(const json &root, ModelSpec &spec, Problems &problems) {
  ConfigReader reader(root, spec.file, "", problems);
  readCommon(reader, "LlamaForCausalLM");
  reader.ignore("model_type");
  spec.family = ModelFamily::Llama;
  spec.hidden = reader.size("hidden_size", maxWidth);
  spec.ffn = reader.size("intermediate_size", maxFfn);
  spec.layers = reader.size("num_hidden_layers", maxLayers);
  spec.heads = reader.size("num_attention_heads", maxHeads);
  spec.kvHeads = reader.size("num_key_value_heads", maxHeads,
                             std::max<int64_t>(spec.heads, 0));
  spec.headDim = reader.size("head_dim", maxWidth, 0);
  spec.vocab = reader.size("vocab_size", maxVocab);
  spec.positions = reader.size("max_position_embeddings", maxPositions, 0);
  spec.tied = reader.flag("tie_word_embeddings", false);
  spec.attentionBias = reader.flag("attention_bias", false);
  spec.mlpBias = reader.flag("mlp_bias", false);
  spec.normEps = reader.number("rms_norm_eps", 1e-6);
  spec.initializerRange = reader.number("initializer_range", 0.02);
  spec.ropeTheta = reader.number("rope_theta", 10000.0);
  reader.only("rope_interleaved", false);
  std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    reader.unsupported("hidden_act", "expected \"silu\", but got " +
                                         shown(json(activation)) +
                                         ", which is not supported");
  noteDropout(reader, "attention_dropout", spec);
  noteDropout(reader, "hidden_dropout", spec);
  noteDropout(reader, "hidden_dropout_prob", spec);
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (const json *rope = reader.find(key)) {
      if (!rope->is_object())
        reader.malformed(key,
                         "expected an object or null, but got " + shown(*rope));
      else
        readRope(*rope, spec.file, std::string("/") + key, spec, problems);
    }

  if (spec.heads > 0 && spec.hidden > 0 && spec.headDim == 0 &&
      !reader.has("head_dim")) {
    if (spec.hidden % spec.heads == 0)
      spec.headDim = spec.hidden / spec.heads;
    else
      reader.malformed("num_attention_heads",
                       "expected a divisor of hidden_size (" +
                           std::to_string(spec.hidden) +
                           ") as head_dim is not given, but got " +
                           std::to_string(spec.heads));
  }
  if (spec.heads > 0 && spec.kvHeads > 0 && spec.heads % spec.kvHeads != 0)
    reader.malformed("num_key_value_heads",
                     "expected a divisor of num_attention_heads (" +
                         std::to_string(spec.heads) + "), but got " +
                         std::to_string(spec.kvHeads));
  if (spec.headDim % 2 != 0)
    reader.malformed(reader.has("head_dim") ? "head_dim" : "hidden_size",
                     "expected an even head width for the rotary embedding, "
                     "but got " +
                         std::to_string(spec.headDim));
  reader.refuseUnknown();
}

void readGpt2(const json &root, ModelSpec &spec, Problems &problems) {
  ConfigReader reader(root, spec.file, "", problems);
  readCommon(reader, "GPT2LMHeadModel");
  for (std::string_view key : harmlessGpt2)
    reader.ignore(key);
  reader.ignore("model_type");
  spec.family = ModelFamily::Gpt2;
  spec.hidden = reader.size("n_embd", maxWidth);
  spec.layers = reader.size("n_layer", maxLayers);
  spec.heads = reader.size("n_head", maxHeads);
  spec.positions = reader.size("n_positions", maxPositions);
  spec.vocab = reader.size("vocab_size", maxVocab);
  spec.ffn = reader.size("n_inner", maxFfn, 4 * spec.hidden);
  spec.kvHeads = spec.heads;
  spec.tied = reader.flag("tie_word_embeddings", true);
  spec.attentionBias = spec.mlpBias = true;
  spec.normEps = reader.number("layer_norm_epsilon", 1e-5);
  spec.initializerRange = reader.number("initializer_range", 0.02);
  bool scaled = reader.flag("scale_attn_weights", true);
  reader.only("scale_attn_by_inverse_layer_idx", false);
  std::string activation = reader.text("activation_function", "gelu_new");
  spec.exactGelu = activation == "gelu";
  // The other names are one formula: 0.5 x (1 + tanh(sqrt(2/pi) (x + ...))).
  if (activation != "gelu" && activation != "gelu_new" &&
      activation != "gelu_fast" && activation != "gelu_pytorch_tanh")
    reader.unsupported("activation_function",
                       "expected \"gelu\" or \"gelu_new\", but got " +
                           shown(json(activation)) +
                           ", which is not supported");
  for (const char *key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    noteDropout(reader, key, spec);
  if (spec.heads > 0 && spec.hidden > 0) {
    if (spec.hidden % spec.heads == 0)
      spec.headDim = spec.hidden / spec.heads;
    else
      reader.malformed("n_head", "expected a divisor of n_embd (" +
                                     std::to_string(spec.hidden) +
                                     "), but got " +
                                     std::to_string(spec.heads));
  }
  if (!scaled)
    spec.attentionScale = 1.0;
  reader.refuseUnknown();
}

/// Keys of Meta's params.json and of other home-made descriptions.
bool looksLikeParamsJson(const json &root) {
  return root.contains("dim") && root.contains("n_layers");
}
} // namespace

std::string_view name(ModelFamily family) {
  switch (family) {
  case ModelFamily::Llama:
    return "llama";
  case ModelFamily::Gpt2:
    return "gpt2";
  }
  return "";
}

bool checkSpec(ModelSpec &spec, cost::Failure &failure) {
  std::vector<std::string> problems;
  auto within = [&](const char *what, int64_t value, int64_t limit) {
    if (value < 1 || value > limit)
      problems.push_back(spec.file + ": expected " + what + " from 1 to " +
                         std::to_string(limit) + ", but got " +
                         std::to_string(value));
  };
  within("layers", spec.layers, maxLayers);
  within("hidden", spec.hidden, maxWidth);
  within("ffn", spec.ffn, maxFfn);
  within("heads", spec.heads, maxHeads);
  within("kv_heads", spec.kvHeads, maxHeads);
  within("head_dim", spec.headDim, maxWidth);
  within("vocab", spec.vocab, maxVocab);
  if (problems.empty()) {
    if (spec.heads % spec.kvHeads != 0)
      problems.push_back(spec.file + ": expected kv_heads to divide heads (" +
                         std::to_string(spec.heads) + "), but got " +
                         std::to_string(spec.kvHeads));
    within("heads * head_dim", spec.heads * spec.headDim, maxWidth);
    if (spec.family == ModelFamily::Llama && spec.headDim % 2 != 0)
      problems.push_back(spec.file +
                         ": expected an even head_dim for the rotary "
                         "embedding, but got " +
                         std::to_string(spec.headDim));
    if (spec.family == ModelFamily::Gpt2)
      within("positions", spec.positions, maxPositions);
  }
  if (!problems.empty()) {
    failure = {cost::FailureKind::Input, problems};
    return false;
  }
  if (spec.attentionScale == 0)
    spec.attentionScale = 1.0 / std::sqrt(static_cast<double>(spec.headDim));
  return true;
}

bool chooseSequence(const ModelSpec &spec, int64_t sequence, int64_t &chosen,
                    cost::Failure &failure) {
  auto fail = [&](cost::FailureKind kind, const std::string &message) {
    failure = {kind, {message}};
    return false;
  };
  if (sequence < 0 || sequence > maxPositions)
    return fail(cost::FailureKind::Usage,
                "expected a sequence length from 1 to " +
                    std::to_string(maxPositions) + ", but got " +
                    std::to_string(sequence));
  if (sequence == 0 && spec.positions == 0)
    return fail(cost::FailureKind::Usage,
                spec.file + "#/max_position_embeddings: expected an integer "
                            "as no sequence length is given, but got no such "
                            "key");
  chosen = sequence == 0 ? spec.positions : sequence;
  if (spec.family == ModelFamily::Gpt2 && chosen > spec.positions)
    return fail(cost::FailureKind::Usage,
                "expected a sequence length of at most n_positions (" +
                    std::to_string(spec.positions) + " in " + spec.file +
                    "), but got " + std::to_string(chosen));
  // Multiply-adds of one sequence, three passes: what counts as int64 must
  // stay far from its end.
  double tokens = static_cast<double>(chosen);
  double width = static_cast<double>(spec.heads * spec.headDim);
  double layer = tokens * static_cast<double>(spec.hidden) *
                     (4 * width + 3 * static_cast<double>(spec.ffn)) +
                 4 * tokens * tokens * width;
  double flops = 6 * (static_cast<double>(spec.layers) * layer +
                      tokens * static_cast<double>(spec.hidden) *
                          static_cast<double>(spec.vocab));
  if (flops >= 0x1p62)
    return fail(cost::FailureKind::Unsupported,
                spec.file + ": expected less than 2^62 flops a sequence, but "
                            "got more; a size or the sequence length is too "
                            "large");
  return true;
}

bool parseHfConfig(std::string_view text, const std::string &file,
                   ModelSpec &spec, cost::Failure &failure) {
  spec = {};
  spec.file = file;
  Problems problems;
  std::optional<json> root = parseStrict(text, file, problems);
  if (root) {
    ConfigReader top(*root, file, "", problems);
    std::string type = top.text("model_type", "");
    if (type == "llama")
      readLlama(*root, spec, problems);
    else if (type == "gpt2")
      readGpt2(*root, spec, problems);
    else if (!problems.messages.empty())
      ; // model_type is no string: said above
    else if (type.empty())
      top.malformed("model_type",
                    std::string("expected \"llama\" or \"gpt2\", but got no "
                                "such key") +
                        (looksLikeParamsJson(*root)
                             ? "; this looks like Meta's params.json: give "
                               "the config.json of the Hugging Face format"
                             : ""));
    else
      top.unsupported("model_type", "expected \"llama\" or \"gpt2\", but got " +
                                        shown(json(type)) +
                                        ", which is not supported");
  }
  if (!problems.messages.empty()) {
    failure = problems.failure();
    return false;
  }
  std::filesystem::path path(file);
  spec.name = path.stem().string();
  if (path.filename() == "config.json") {
    std::error_code ignored;
    std::filesystem::path folder =
        std::filesystem::weakly_canonical(path, ignored).parent_path();
    if (!folder.filename().empty())
      spec.name = folder.filename().string();
  }
  return checkSpec(spec, failure);
}

bool readHfConfig(const std::string &path, ModelSpec &spec,
                  cost::Failure &failure) {
  namespace fs = std::filesystem;
  auto fail = [&](const std::string &message) {
    failure = {cost::FailureKind::Input, {message}};
    return false;
  };
  std::error_code error;
  fs::path file(path);
  if (path.empty())
    return fail("expected a config.json or its folder, but got an empty path");
  if (fs::is_directory(file, error)) {
    file /= "config.json";
    if (!fs::exists(file, error))
      return fail(path + ": expected a folder with a config.json, but it has "
                         "none");
  }
  if (!fs::exists(file, error))
    return fail(path + ": expected a file or folder, but it does not exist");
  if (!fs::is_regular_file(file, error))
    return fail(file.string() + ": expected a regular file, but it is none");
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return fail(file.string() + ": expected a readable file, but it cannot be "
                                "opened");
  std::string text(static_cast<size_t>(maxFileBytes) + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad())
    return fail(file.string() + ": expected a readable file, but reading it "
                                "failed");
  if (stream.gcount() > maxFileBytes)
    return fail(file.string() + ": expected at most " +
                std::to_string(maxFileBytes) + " bytes, but got more");
  text.resize(static_cast<size_t>(stream.gcount()));
  return parseHfConfig(text, file.string(), spec, failure);
}

} // namespace shardwright
