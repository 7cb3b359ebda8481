//===- HfConfig.h - Model configs to ModelSpec ------------------*- C++ -*-===//
//
// Plain C++: no MLIR here. A config is read completely or refused with every
// problem it has; a key that may change the computation is never skipped.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H
#define SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H

#include "compiler/Import/ModelSpec.h"
#include "cost_model/base/Failure.h"

#include <string_view>

namespace shardwright {

/// Reads `path`: a config.json of Hugging Face, or a folder that holds one; or
/// a params.json of Meta's Llama.
bool readHfConfig(const std::string &path, ModelSpec &spec,
                  cost::Failure &failure);
/// Same, of a text; `file` names it in messages.
bool parseHfConfig(std::string_view text, const std::string &file,
                   ModelSpec &spec, cost::Failure &failure);

/// The file that readHfConfig reads for `path`, whether or not it exists.
std::string configFile(const std::string &path);

/// Checks what must hold among the sizes of a spec that was not read from a
/// file, and derives attentionScale if it is 0.
bool checkSpec(ModelSpec &spec, cost::Failure &failure);

/// Sequence length to build for: `sequence`, or the config's longest if it is
/// 0. Fails if neither is known or the model has no such position.
bool chooseSequence(const ModelSpec &spec, int64_t sequence, int64_t &chosen,
                    cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_HFCONFIG_H
