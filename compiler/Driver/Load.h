//===- Load.h - From a model description to cost::Program -------*- C++ -*-===//
//
// What plan, predict, inspect and validate need of the compiler. No MLIR type
// here.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_DRIVER_LOAD_H
#define SHARDWRIGHT_COMPILER_DRIVER_LOAD_H

#include "compiler/Import/HfConfig.h"
#include "cost_model/base/Failure.h"
#include "cost_model/program/Program.h"

#include <string>
#include <vector>

namespace shardwright {

/// Imports the config at `path` (a config.json or its folder), differentiates
/// it and extracts its program. `sequence` 0 takes the longest sequence of the
/// config. What the importer left out on purpose is appended to `notes`.
bool loadProgram(const std::string &path, int64_t sequence,
                 cost::Program &program, cost::Failure &failure,
                 std::vector<std::string> *notes = nullptr);

/// Same for a description that is no file; it is checked first.
bool programFromSpec(const ModelSpec &spec, int64_t sequence,
                     cost::Program &program, cost::Failure &failure);

/// Sizes of a model as published tables state them.
struct ModelShape {
  std::string name;
  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t vocab = 0, sequence = 0;
  bool gated = false; ///< gated MLP: built as Llama; else as GPT-2
  bool tied = false;  ///< the head uses the embedding table

  int64_t experts = 0; ///< > 0: routed experts in all but the first layers
  int64_t topK = 0, expertFfn = 0;
  int64_t sharedFfn = 0;   ///< width of the shared experts together
  int64_t denseLayers = 0; ///< first layers that have an ordinary MLP
  LatentSpec latent;
  int64_t mtpLayers = 0;
};

/// The model of the family that is nearest to `shape`: gated models have RMS
/// norms and rotary positions, others layer norms, biases and a position table
/// of `sequence` rows. kvHeads 0 means heads, headDim 0 hidden / heads.
ModelSpec specFromShape(const ModelShape &shape);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_DRIVER_LOAD_H
