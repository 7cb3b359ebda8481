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

/// A config being read: the keys, and the spec they go to. `read*` functions
/// store one thing each, with the default that the family's code has.
class FamilyReader : public ConfigReader {
public:
  FamilyReader(const nlohmann::json &root, const std::string &pointer,
               ModelSpec &spec, Problems &problems)
      : ConfigReader(root, spec.file, pointer, problems), spec(spec),
        root(root), pointer(pointer), problems(problems) {}

  /// Keys that every config may have and that change nothing; refuses what no
  /// family supports. `architecture` is the only one that may be named.
  /// `quantized`: quantization_config says how a checkpoint is stored, no more.
  void readCommon(std::string_view architecture, bool quantized = false);
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

  /// hidden, layers, heads, vocab under the names of spec.keys; required.
  void readSizes();
  /// null means as many as heads, no key `absent` (0: also as many as heads).
  void readKvHeads(int64_t absent = 0);
  /// head_dim, or hidden / heads if there is none. `absent` > 0: the default
  /// of the family.
  void readHeadDim(int64_t absent = 0);
  void deriveHeadDim();
  void readPositions(int64_t absent = 0);
  Activation readActivation(std::string_view key, std::string_view absent,
                            std::initializer_list<Activation> supported);
  /// rope_theta, rope_scaling and rope_parameters.
  void readRope(Rope &rope, double theta = 10000.0);
  /// `fraction` of a head turns.
  void setRotaryFraction(Rope &rope, double fraction, std::string_view key);
  /// Kinds and stack from a list of layers that see a window (true) or all.
  void setLayers(const std::vector<bool> &windowed, int64_t window,
                 const Rope &local, const Rope &global);
  /// layer_types, or `absent`.
  std::vector<bool> readLayerTypes(const std::vector<bool> &absent);
  /// An optional size that null turns off (0).
  int64_t sizeOrNull(std::string_view key, int64_t limit, int64_t absent);
  double numberOrNull(std::string_view key, double absent);

  /// The config, for values that have a form of their own.
  const nlohmann::json &config() const { return root; }
  /// A reader of the object under `key`.
  ConfigReader inside(const std::string &key, const nlohmann::json &object) {
    return ConfigReader(object, spec.file, pointer + "/" + key, problems);
  }

  ModelSpec &spec;

private:
  void readRopeObject(const nlohmann::json &object, std::string_view key,
                      Rope &rope);
  void readLongRope(ConfigReader &reader, RopeScaling &scaling);

  const nlohmann::json &root;
  std::string pointer;
  Problems &problems;
};

struct Family {
  std::string_view modelType, architecture;
  /// Called with an empty spec; must end with refuseUnknown.
  void (*read)(FamilyReader &);
};

/// All families that import, in the order that messages list them.
std::vector<Family> families();
// By file.
std::span<const Family> llamaFamilies();
std::span<const Family> gemmaFamilies();
std::span<const Family> gptFamilies();
std::span<const Family> otherFamilies();
std::span<const Family> expertFamilies();
std::span<const Family> glmFamilies();
std::span<const Family> llama4Families();

/// Why a model_type or another config does not import: "mixture of experts";
/// empty if it is not known.
std::string_view whyRefused(std::string_view modelType);
/// Same, told by its keys: descriptions that are not Hugging Face configs.
std::string_view whyForeign(const nlohmann::json &root);

/// Meta's params.json.
bool looksLikeParamsJson(const nlohmann::json &root);
void readParamsJson(FamilyReader &reader);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_FAMILIES_H
