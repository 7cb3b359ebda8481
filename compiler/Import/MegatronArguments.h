//===- MegatronArguments.h - A model, to Megatron-LM ------------*- C++ -*-===//
//
// Plain C++: no MLIR here. The arguments of pretrain_gpt.py that describe the
// model, as far as they compute what the config says; what they do not is
// named.
// Read beside NVIDIA/Megatron-LM d98e8a6: megatron/training/arguments.py,
// gpt_builders.py, megatron/core/transformer/{transformer_config,attention,
// multi_latent_attention}.py, core/transformer/moe/moe_utils.py.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_MEGATRONARGUMENTS_H
#define SHARDWRIGHT_COMPILER_IMPORT_MEGATRONARGUMENTS_H

#include "compiler/Import/ModelSpec.h"
#include "cost_model/launch/Launch.h"

namespace shardwright {

struct MegatronModel {
  std::vector<cost::LaunchArgument> arguments;
  /// What of the model no argument says, in words behind "the model has".
  std::vector<std::string> unsaid;
};

/// `sequence` are the tokens of the plan's sequences.
MegatronModel megatronArguments(const ModelSpec &spec, int64_t sequence);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_MEGATRONARGUMENTS_H
