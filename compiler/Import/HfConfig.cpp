#include "compiler/Import/HfConfig.h"

#include "compiler/Files/ReadText.h"
#include "compiler/Import/Families.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

namespace shardwright {

using nlohmann::json;

namespace {
constexpr int64_t maxFileBytes = 16 << 20;

/// "\"llama\", \"mistral\", ..." for messages.
std::string supportedTypes() {
  std::string list;
  for (const Family &family : families())
    list +=
        (list.empty() ? "\"" : ", \"") + std::string(family.modelType) + "\"";
  return list;
}

/// model_type, or the one whose architecture the config names.
std::string modelTypeOf(const json &root, ConfigReader &reader) {
  std::string type = reader.text("model_type", "");
  if (!type.empty())
    return type;
  const json *architectures = reader.find("architectures");
  if (architectures && architectures->is_array() &&
      architectures->size() == 1 && !root.contains("model_type"))
    for (const Family &family : families())
      if ((*architectures)[0] == family.architecture)
        return std::string(family.modelType);
  return "";
}

/// Names that a family had in its own code, before transformers took it up.
struct OldName {
  std::string_view modelType, architecture;    ///< as the config has them
  std::string_view family, familyArchitecture; ///< as they are read
  /// Keys whose absence meant something else there.
  std::initializer_list<std::string_view> needed;
  /// What was always so there, and a key says now; empty: nothing.
  std::string_view always;
};
// RW: configuration_RW.py and modeling_RW.py beside tiiuae/falcon-7b and -40b,
// whose decoder of 40b has two norms and groups of heads without a key for it.
// Yi: configuration_yi.py beside 01-ai/Yi-34b: the keys and layers of Llama.
const OldName oldNames[] = {
    {"RefinedWebModel", "RWForCausalLM", "falcon", "FalconForCausalLM",
     {"multi_query", "parallel_attn"}, ""},
    {"RefinedWeb", "RWForCausalLM", "falcon", "FalconForCausalLM",
     {"n_head_kv", "parallel_attn"}, "new_decoder_architecture"},
    {"Yi", "YiForCausalLM", "llama", "LlamaForCausalLM", {}, ""},
    {"llama", "LLaMAForCausalLM", "llama", "LlamaForCausalLM", {}, ""},
};

/// `root` under the names of today, if it has old ones.
std::optional<json> renamed(const json &root, const std::string &type,
                            ModelSpec &spec, FamilyReader &reader) {
  const json *architectures =
      root.contains("architectures") ? &root.at("architectures") : nullptr;
  for (const OldName &old : oldNames) {
    const bool isArchitecture =
        architectures && *architectures == json::array({old.architecture});
    if (type != old.modelType || (type == old.family && !isArchitecture))
      continue;
    json now = root;
    now["model_type"] = old.family;
    if (isArchitecture)
      now["architectures"] = json::array({old.familyArchitecture});
    for (std::string_view key : old.needed)
      if (!root.contains(std::string(key)))
        reader.malformed(key,
                         "expected the key, whose absence meant something "
                         "else under the name " +
                             shown(json(type)) + ", but got no such key",
                         cost::Diag::missing_key);
    if (!old.always.empty()) {
      json &value = now[std::string(old.always)];
      if (!value.is_null() && value != true)
        reader.malformed(old.always,
                         "expected true, as it always is under the name " +
                             shown(json(type)) + ", but got " + shown(value),
                         cost::Diag::conflicting_keys);
      value = true;
    }
    spec.notes.push_back(reader.where("model_type") + ": " +
                         std::string(isArchitecture ? old.architecture
                                                    : old.modelType) +
                         " is an older name; read as " +
                         std::string(old.family));
    return now;
  }
  return std::nullopt;
}

void readRoot(const json &root, const std::string &pointer, ModelSpec &spec,
              Problems &problems);

/// A wrapper around a text model: {"text_config": {...}, "vision_config": ...}.
/// The text model alone is read if there is no other.
bool readWrapper(const json &root, ModelSpec &spec, Problems &problems) {
  FamilyReader reader(root, "", spec, problems);
  const json *text = reader.find("text_config");
  if (!text || !text->is_object() || !text->contains("model_type"))
    return false;
  for (const char *tower : {"vision_config", "audio_config", "vit_config"})
    if (reader.has(tower)) {
      if (!whyRefused(reader.text("model_type", "")).empty())
        return false; // that says more
      reader.unsupported(tower,
                         "expected a text model alone, but got " +
                             shown(root.at(tower)) +
                             ": a vision or audio tower, which is not "
                             "supported",
                         cost::Diag::unsupported_model);
      return true;
    }
  json merged = *text;
  // The flag stands on top in some configs.
  const char *const tied = "tie_word_embeddings";
  if (const json *outer = reader.find(tied)) {
    if (!merged.contains(tied))
      merged[tied] = *outer;
    else if (merged.at(tied) != *outer)
      reader.malformed(tied,
                       "expected the value in text_config (" +
                           shown(merged.at(tied)) + "), but got " +
                           shown(*outer),
                       cost::Diag::conflicting_keys);
  }
  // What else is on top is what the text model has too, or may be a part of
  // the computation that nobody reads.
  reader.ignoreAll({"model_type", "architectures", "initializer_range"});
  for (const auto &[key, value] : root.items())
    if (merged.contains(key) && merged.at(key) == value)
      reader.ignore(key);
  reader.passHarmless();
  reader.refuseUnknown(&spec.notes);
  // Nobody names the architecture of the inner model.
  merged.erase("architectures");
  readRoot(merged, "/text_config", spec, problems);
  // A class with a tower may have one of default sizes without any key.
  spec.notes.push_back(reader.where("text_config") +
                       ": the text model alone is read");
  return true;
}

void readRoot(const json &root, const std::string &pointer, ModelSpec &spec,
              Problems &problems) {
  FamilyReader reader(root, pointer, spec, problems);
  if (looksLikeParamsJson(root) && whyForeign(root).empty()) {
    spec.family = paramsJson().modelType;
    return reader.read(paramsJson());
  }
  const std::string type = modelTypeOf(root, reader);
  if (!problems.messages.empty())
    return; // model_type is no string
  if (const std::optional<json> now = renamed(root, type, spec, reader)) {
    if (problems.messages.empty())
      readRoot(*now, pointer, spec, problems);
    return;
  }
  for (const Family &family : families())
    if (family.modelType == type) {
      // Keys of another tool under a name of Hugging Face.
      if (std::string_view why = whyForeign(root); !why.empty())
        return reader.unsupported("model_type",
                                  "expected a Hugging Face config, but got " +
                                      std::string(why) +
                                      ", which is not supported",
                                  cost::Diag::unsupported_model);
      spec.family = type;
      return reader.read(family);
    }
  if (pointer.empty() && readWrapper(root, spec, problems))
    return;
  std::string_view why = whyRefused(type);
  if (why.empty())
    why = whyForeign(root);
  if (!why.empty())
    reader.unsupported("model_type",
                       "expected a supported decoder of text, but got " +
                           (type.empty() ? "" : shown(json(type)) + ": ") +
                           std::string(why) + ", which is not supported",
                       cost::Diag::unsupported_model);
  else if (!type.empty())
    reader.unsupported("model_type",
                       "expected one of " + supportedTypes() + ", but got " +
                           shown(json(type)) + ", which is not supported",
                       cost::Diag::unknown_model_type);
  else
    reader.malformed("model_type",
                     "expected one of " + supportedTypes() +
                         ", but got no such key",
                     cost::Diag::missing_model_type);
}
} // namespace

std::vector<Family> families() {
  std::vector<Family> all;
  for (std::span<const Family> some :
       {llamaFamilies(), gptFamilies(), gemmaFamilies(), otherFamilies(),
        expertFamilies(), deepseekFamilies(), glmFamilies(), llama4Families()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

bool checkSpec(ModelSpec &spec, cost::Failure &failure) {
  cost::Failure problems;
  auto complain = [&](cost::Diag id, const std::string &what) {
    cost::refuse(problems, id, spec.file + ": " + what);
  };
  auto within = [&](const char *what, int64_t value, int64_t limit) {
    if (value < 1 || value > limit)
      complain(cost::Diag::model_size,
               std::string("expected ") + what + " from 1 to " +
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
  if (problems.messages.empty()) {
    if (spec.heads % spec.kvHeads != 0)
      complain(cost::Diag::heads_divide, "expected kv_heads to divide heads (" +
                                             std::to_string(spec.heads) +
                                             "), but got " +
                                             std::to_string(spec.kvHeads));
    within("heads * head_dim", spec.heads * spec.headDim, maxWidth);
    for (const LayerKind &kind : spec.kinds) {
      const int64_t turned =
          kind.rope.width < 0 ? spec.headDim : kind.rope.width;
      if (turned % 2 != 0 || turned > spec.headDim)
        complain(
            cost::Diag::odd_rotary_width,
            "expected an even number of rotated columns of at most head_dim (" +
                std::to_string(spec.headDim) + "), but got " +
                std::to_string(turned));
      const std::optional<RopeScaling> &scaling = kind.rope.scaling;
      if (!scaling || scaling->type != RopeScaling::Type::Long || turned == 0)
        continue;
      for (const std::vector<double> *factors :
           {&scaling->shortFactors, &scaling->longFactors})
        if (static_cast<int64_t>(factors->size()) != turned / 2)
          complain(cost::Diag::conflicting_keys,
                   "expected one factor of longrope for every pair of rotated "
                   "columns (" +
                       std::to_string(turned / 2) + "), but got " +
                       std::to_string(factors->size()));
    }
    if (spec.learnsPositions())
      within("positions", spec.positions, maxPositions);
    int64_t layers = 0;
    for (const LayerRun &run : spec.stack)
      layers += run.count;
    if (!spec.stack.empty() && layers != spec.layers)
      complain(cost::Diag::model_size,
               "expected the runs of layers to sum to " +
                   std::to_string(spec.layers) + ", but got " +
                   std::to_string(layers));
  }
  if (!problems.messages.empty()) {
    failure = problems;
    return false;
  }
  if (spec.stack.empty())
    spec.stack = {{0, spec.layers}};
  if (spec.attentionScale == 0)
    spec.attentionScale = 1.0 / std::sqrt(static_cast<double>(spec.headDim));
  return true;
}

bool chooseSequence(const ModelSpec &spec, int64_t sequence, int64_t &chosen,
                    cost::Failure &failure) {
  auto fail = [&](cost::Diag id, const std::string &message) {
    return cost::refuse(failure, id, message);
  };
  if (sequence < 0 || sequence > maxPositions)
    return fail(cost::Diag::sequence_range,
                "expected a sequence length from 1 to " +
                    std::to_string(maxPositions) + ", but got " +
                    std::to_string(sequence));
  if (sequence == 0 && spec.positions == 0)
    return fail(cost::Diag::missing_sequence,
                spec.file + "#/" + spec.keys.positions +
                    ": expected an integer as no sequence length is given, "
                    "but got no such key");
  chosen = sequence == 0 ? spec.positions : sequence;
  // Models with chunks state lengths that nobody trains with: 10M tokens.
  for (const LayerKind &kind : spec.kinds)
    if (sequence == 0 && kind.chunk > 0)
      chosen = std::min(chosen, kind.chunk);
  if (spec.learnsPositions() && chosen > spec.positions)
    return fail(cost::Diag::sequence_range,
                "expected a sequence length of at most " + spec.keys.positions +
                    " (" + std::to_string(spec.positions) + " in " + spec.file +
                    "), but got " + std::to_string(chosen));
  // Of one layer and sequence, three passes: what counts as int64 must stay far
  // from its end. Sums over layers are double, or of a rank and checked there.
  const double tokens = static_cast<double>(chosen);
  const double width = static_cast<double>(spec.heads * spec.headDim);
  const double hidden = static_cast<double>(spec.hidden);
  double largest = hidden * static_cast<double>(spec.vocab);
  for (const LayerKind &kind : spec.kinds) {
    double keys = tokens;
    for (int64_t bound : {kind.window, kind.chunk})
      if (bound > 0)
        keys = std::min(keys, static_cast<double>(bound));
    largest = std::max(
        largest,
        4 * keys * width +
            hidden * (4 * width + 3 * static_cast<double>(spec.ffn) +
                      3 * static_cast<double>(spec.experts.topK) *
                          static_cast<double>(spec.experts.ffn) +
                      3 * static_cast<double>(spec.experts.sharedFfn) +
                      static_cast<double>(spec.experts.count)));
  }
  if (6 * tokens * largest >= 0x1p62)
    return fail(cost::Diag::too_many_flops,
                spec.file + ": expected less than 2^62 flops a layer and "
                            "sequence, but got more; a size or the sequence "
                            "length is too large");
  return true;
}

bool parseHfConfig(std::string_view text, const std::string &file,
                   ModelSpec &spec, cost::Failure &failure) {
  spec = {};
  spec.file = file;
  Problems problems;
  std::optional<json> root = parseStrict(text, file, problems);
  if (root)
    readRoot(*root, "", spec, problems);
  if (!problems.messages.empty()) {
    failure = problems;
    return false;
  }
  std::filesystem::path path(file);
  spec.name = path.stem().string();
  if (path.filename() == "config.json" || path.filename() == "params.json") {
    std::error_code ignored;
    std::filesystem::path folder =
        std::filesystem::weakly_canonical(path, ignored).parent_path();
    if (!folder.filename().empty())
      spec.name = folder.filename().string();
  }
  return checkSpec(spec, failure);
}

std::string configFile(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder(path), usual = folder / "config.json",
                               meta = folder / "params.json";
  if (!fs::is_directory(folder, error))
    return path;
  return (!fs::exists(usual, error) && fs::exists(meta, error) ? meta : usual)
      .string();
}

bool readHfConfig(const std::string &path, ModelSpec &spec,
                  cost::Failure &failure) {
  namespace fs = std::filesystem;
  auto fail = [&](const std::string &message) {
    return cost::refuse(failure, cost::Diag::file_unreadable, message);
  };
  std::error_code error;
  fs::path file(path);
  if (path.empty())
    return fail("expected a config.json or its folder, but got an empty path");
  const bool isFolder = fs::is_directory(file, error);
  if (isFolder)
    file = configFile(path);
  const bool isThere = fs::exists(file, error);
  if (error) // may not be asked about
    return fail(file.string() + ": cannot read: " + error.message());
  if (!isThere)
    return fail(path + (isFolder ? ": expected a folder with a config.json, but "
                                   "it has none"
                                 : ": expected a file or folder, but it does "
                                   "not exist"));
  std::string text;
  if (!readText(file.string(), text, failure, maxFileBytes))
    return false;
  return parseHfConfig(text, file.string(), spec, failure);
}

} // namespace shardwright
