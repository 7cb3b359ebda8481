//===- ExpertModels.h - Configs of models with experts, for tests -*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_EXPERTMODELS_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_EXPERTMODELS_H

#include "compiler/Driver/Load.h"

#include <string>

namespace shardwright {

// Texts of published config.json files, without what no reader looks at.
extern const std::string mixtral, mixtralAllHeads, mixtralLarge, deepseekV3,
    kimiK2, deepseekV2Lite, qwen3Coder, qwen3Small, qwen2Moe, olmoe, gptOss,
    dbrx, glm45, glm45Air, scout, alternate;
/// Llama 4 Scout's text config with `more` members.
std::string llama4(const std::string &more);

/// The imported config.
cost::Program programOf(const std::string &text, int64_t sequence);
/// "1 embed 3 dense 1 head".
std::string stackText(const cost::Program &program);

} // namespace shardwright

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_EXPERTMODELS_H
