//===- Configs.h - Configs that tests read ----------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_CONFIGS_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_CONFIGS_H

#include "compiler/Driver/Load.h"
#include "compiler/Import/HfConfig.h"
#include "cost_model/program/Program.h"

#include <catch2/catch.hpp>

namespace shardwright::test {

inline ModelSpec accepted(const std::string &text) {
  ModelSpec spec;
  cost::Failure failure;
  bool good = parseHfConfig(text, "config.json", spec, failure);
  INFO((failure.messages.empty() ? text : failure.messages[0].text));
  REQUIRE(good);
  return spec;
}

inline std::string refusal(const std::string &text,
                    cost::FailureKind kind = cost::FailureKind::Unsupported) {
  ModelSpec spec;
  cost::Failure failure;
  INFO(text);
  REQUIRE_FALSE(parseHfConfig(text, "config.json", spec, failure));
  CHECK(failure.kind == kind);
  std::string all;
  for (const std::string &message : failure.messages)
    all += message + "\n";
  return all;
}

inline bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

inline int64_t total(const ModelSpec &spec) {
  cost::Program program;
  cost::Failure failure;
  REQUIRE(programFromSpec(spec, spec.positions ? 0 : 64, program, failure));
  return cost::parameterCount(program);
}

/// Sizes of a small model of a family, with `more` keys.
inline std::string small(const std::string &type, const std::string &more) {
  return R"({"model_type": ")" + type +
         R"(", "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 6, "num_attention_heads": 8,
         "max_position_embeddings": 64, "vocab_size": 300)" +
         (more.empty() ? "" : ", " + more) + "}";
}

} // namespace shardwright::test

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_CONFIGS_H
