//===- HfConfig.h - Hugging Face config.json to ModelSpec -------*- C++ -*-===//
//
// Plain C++: no MLIR here. A config is read completely or refused with every
// problem it has; a key that may change the computation is never skipped.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H
#define SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H

#include "cost_model/Failure.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// Frequencies of the rotary embedding for contexts longer than trained on.
struct RopeScaling {
  enum class Type { Linear, Llama3 };
  Type type = Type::Linear;
  double factor = 1.0;
  double lowFreqFactor = 1.0, highFreqFactor = 4.0; ///< Llama3 only
  int64_t originalPositions = 0;                    ///< Llama3 only
  bool operator==(const RopeScaling &) const = default;
};

enum class ModelFamily {
  Llama, ///< RMS norm, rotary positions, gated MLP (or plain, see `gated`)
  Gpt2,  ///< layer norm with bias, learned positions, biases everywhere
};
std::string_view name(ModelFamily family); ///< "llama", "gpt2"

/// Everything that decides what a model computes, validated: a ModelSpec that
/// a reader has returned builds without further checks.
struct ModelSpec {
  std::string name; ///< of the folder, or of the file if it is not config.json
  std::string file; ///< as locations and messages name it
  ModelFamily family = ModelFamily::Llama;

  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t vocab = 0;
  int64_t positions = 0; ///< longest sequence of the config, 0 if not stated

  bool tied = false; ///< the head uses the embedding table
  bool attentionBias = false, mlpBias = false;
  bool exactGelu = false; ///< GPT-2: erf instead of the tanh approximation
  double normEps = 1e-6;
  double initializerRange = 0.02;
  double attentionScale = 0; ///< factor of the scores
  double ropeTheta = 10000.0;
  std::optional<RopeScaling> ropeScaling;

  /// What the reader left out on purpose and a user may want to know.
  std::vector<std::string> notes;
};

/// Reads `path`: a config.json, or a folder that holds one.
bool readHfConfig(const std::string &path, ModelSpec &spec,
                  cost::Failure &failure);

/// Same, of a text; `file` names it in messages.
bool parseHfConfig(std::string_view text, const std::string &file,
                   ModelSpec &spec, cost::Failure &failure);

/// Checks what must hold among the sizes of a spec that was not read from a
/// file, and derives attentionScale if it is 0.
bool checkSpec(ModelSpec &spec, cost::Failure &failure);

/// Sequence length to build for: `sequence`, or the config's longest if it is
/// 0. Fails if neither is known or the model has no such position.
bool chooseSequence(const ModelSpec &spec, int64_t sequence, int64_t &chosen,
                    cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H
