//===- Families.h - What each model family reads of its config --*- C++ -*-===//
//
// Used by the .cpp files of this folder only.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_FAMILIES_H
#define SHARDWRIGHT_COMPILER_IMPORT_FAMILIES_H

#include "compiler/Import/ConfigReader.h"
#include "compiler/Import/ModelSpec.h"

#include <span>

namespace shardwright {

// Bounds far above any model, and low enough that no product of an op's sizes
// needs more than checkSpec looks at.
inline constexpr int64_t maxLayers = 1 << 16;
inline constexpr int64_t maxWidth = 1 << 20; // hidden, heads * head_dim
inline constexpr int64_t maxHeads = 1 << 16;
inline constexpr int64_t maxFfn = 1 << 24;
inline constexpr int64_t maxVocab = 1 << 24;
inline constexpr int64_t maxPositions = 1 << 24;

/// What the configuration class of a family has where a config has no key:
/// transformers, src/transformers/models/*/configuration_*.py; of qwen, chatglm
/// and PanguEmbedded the configuration file beside their checkpoints.
struct ClassDefaults {
  int64_t vocab, hidden;
  int64_t ffn = 0; ///< 0: 4 * hidden
  int64_t layers, heads;
  int64_t kvHeads = 0;   ///< 0: as many as heads
  int64_t headDim = 0;   ///< 0: hidden / heads
  int64_t positions = 0; ///< 0: the class has none
  double theta = 10000.0, normEps = 1e-6, initializerRange = 0.02;
  bool tied = false;
  int64_t experts = 0, topK = 0, expertFfn = 0; ///< 0: the class has none
};

class FamilyReader;
struct Family {
  std::string_view modelType, architecture;
  ClassDefaults defaults;
  /// Called with an empty spec, and readCommon before and finish behind it.
  void (*read)(FamilyReader &);
};

/// A config being read: the keys, and the spec they go to. `read*` functions
/// store one thing each, with the default that the family's code has.
class FamilyReader : public ConfigReader {
public:
  FamilyReader(const nlohmann::json &root, const std::string &pointer,
               ModelSpec &spec, Problems &problems)
      : ConfigReader(root, spec.file, pointer, problems), spec(spec),
        root(root), pointer(pointer), problems(problems) {}

  /// Reads a config of `family`, from first key to last.
  void read(const Family &family);
  /// Reports what no function has named, and notes the defaults taken.
  void finish();
  const ClassDefaults &defaults() const { return *classDefaults; }

  /// The name under which a config of several dialects has a key: the first of
  /// `keys` that is there, or the first of all.
  std::string_view either(std::initializer_list<std::string_view> keys);
  /// Whether the key is there, be it null.
  bool given(std::string_view key) const {
    return root.contains(std::string(key));
  }
  /// Notes that a dropout is left out.
  void noteDropout(std::string_view key);
  void noteDropouts(std::initializer_list<std::string_view> keys) {
    for (std::string_view key : keys)
      noteDropout(key);
  }
  void ignoreAll(std::initializer_list<std::string_view> keys) {
    for (std::string_view key : keys)
      ignore(key);
  }

  /// A size that has to be there, unless the class has a default (> 0), which
  /// is noted.
  int64_t sizeOf(std::string_view key, int64_t limit, int64_t absent);
  /// Notes that the class has `value` for `key`, which the config leaves out.
  void noteDefault(std::string_view key, int64_t value) {
    taken.push_back(std::string(key) + " " + std::to_string(value));
  }
  /// Sizes under the names of spec.keys, tied embeddings, and what norms and
  /// draws of weights need. Without keys of their own (spec.keys) key/value
  /// heads are as many as heads and their width is hidden / heads.
  void readBase();
  /// null means as many as heads.
  void readKvHeads();
  /// null means hidden / heads.
  void readHeadDim();
  Activation readActivation(std::string_view key, std::string_view absent,
                            std::initializer_list<Activation> supported);
  /// rope_theta, rope_scaling and rope_parameters.
  void readRope(Rope &rope);
  /// The same where longrope is all there is, and the older names "su" and
  /// "yarn" mean it too.
  void readRopeOrLong(Rope &rope);
  /// The same of layers of which `key` of rope_parameters speaks, if it does:
  /// a class with several kinds of layers writes an object for each.
  bool readRopeOf(std::string_view key, Rope &rope);
  /// The part of a head that turns: `key`, or partial_rotary_factor of
  /// rope_parameters.
  void readRotaryFraction(Rope &rope, std::string_view key, double absent);
  /// `fraction` of a head turns.
  void setRotaryFraction(Rope &rope, double fraction, std::string_view key);
  /// Kinds and stack from a list of layers that see a window (true) or all.
  void setLayers(const std::vector<bool> &windowed, int64_t window,
                 const Rope &local, const Rope &global);
  /// layer_types, if it names as many as there are layers; else null, and
  /// reported unless there is no such key.
  const nlohmann::json *findLayerTypes();
  /// Which layers `key` lists by number; `absent` if there is no such key.
  std::vector<bool> readLayerNumbers(const std::string &key,
                                     const std::vector<bool> &absent);
  /// layer_types, or `absent`.
  std::vector<bool> readLayerTypes(const std::vector<bool> &absent);
  /// An optional size that null turns off (0); a default above 0 is noted.
  int64_t sizeOrNull(std::string_view key, int64_t limit, int64_t absent);
  double numberOrNull(std::string_view key, double absent);

  /// The config, for values that have a form of their own.
  const nlohmann::json &config() const { return root; }
  /// A reader of the object under `key`.
  ConfigReader inside(const std::string &key, const nlohmann::json &object) {
    return ConfigReader(object, spec.file, pointer + "/" + key, problems);
  }

  /// Refuses entry `index` of the list under `key`.
  void unsupportedEntry(std::string_view key, size_t index,
                        const std::string &what);

  ModelSpec &spec;

  /// Passes over keys of every config that change nothing that is computed.
  void passHarmless();

private:
  void readCommon(std::string_view architecture);
  void checkLayerTypes();
  void deriveHeadDim();
  void readRopeObject(const nlohmann::json &object, const std::string &key,
                      Rope &rope);
  void readLongRope(ConfigReader &reader, RopeScaling &scaling);

  const nlohmann::json &root;
  std::string pointer;
  Problems &problems;
  const ClassDefaults *classDefaults = nullptr;
  std::vector<std::string> taken; ///< "n_layer 12": defaults of the class
  std::optional<double> innerFraction;
  bool onlyLongRope = false, sawLayerTypes = false;
};

/// All families that import, in the order that messages list them.
std::vector<Family> families();
// By file.
std::span<const Family> llamaFamilies();
std::span<const Family> gemmaFamilies();
std::span<const Family> gptFamilies();
std::span<const Family> otherFamilies();
std::span<const Family> expertFamilies();
std::span<const Family> deepseekFamilies();
std::span<const Family> glmFamilies();
std::span<const Family> llama4Families();

/// Why a model_type or another config does not import: "mixture of experts";
/// empty if it is not known.
std::string_view whyRefused(std::string_view modelType);
/// Same, told by its keys: descriptions that are not Hugging Face configs.
std::string_view whyForeign(const nlohmann::json &root);

/// Meta's params.json.
bool looksLikeParamsJson(const nlohmann::json &root);
const Family &paramsJson();

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_FAMILIES_H
