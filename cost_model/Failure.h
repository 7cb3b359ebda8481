//===- Failure.h - Why something could not be done --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_FAILURE_H
#define SHARDWRIGHT_COST_MODEL_FAILURE_H

#include <string>
#include <vector>

namespace shardwright::cost {

/// Kinds of failure; the numbers are the exit codes of the tools.
enum class FailureKind {
  Bug = 1,         ///< ours
  No = 2,          ///< an honest no: nothing fits, a check failed
  Unsupported = 3, ///< valid, but not handled yet
  Input = 4,       ///< a file is wrong
  Usage = 5,       ///< a flag is wrong
};

/// Messages say what, where, found and wanted:
/// `config.json#/num_attention_heads: expected a positive integer, but got -3`.
/// Several problems of one input are reported together.
struct Failure {
  FailureKind kind = FailureKind::Input;
  std::vector<std::string> messages;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_FAILURE_H
