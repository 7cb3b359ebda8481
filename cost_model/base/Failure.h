//===- Failure.h - Why something could not be done --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_FAILURE_H
#define SHARDWRIGHT_COST_MODEL_BASE_FAILURE_H

#include "cost_model/base/Diagnostics.h"

#include <string>
#include <utility>
#include <vector>

namespace shardwright::cost {

/// Says what, where, found and wanted:
/// `config.json#/num_attention_heads: expected a positive integer, but got -3`.
struct Message {
  std::string text;
  Diag id;

  Message(Diag id, std::string text) : text(std::move(text)), id(id) {}

  operator const std::string &() const { return text; }
  /// As users see it: "... [unknown_key]".
  std::string tagged() const {
    return text + " [" + std::string(describe(id).name) + "]";
  }
};

/// Several problems of one input are reported together.
struct Failure {
  FailureKind kind = FailureKind::Input;
  std::vector<Message> messages;
  std::vector<std::string> notes; ///< what may help, behind the messages
};

/// Adds a message to `failure`, which takes the kind of the entry; Unsupported
/// never replaces a worse one. Returns false, as what refuses does.
inline bool refuse(Failure &failure, Diag id, std::string text) {
  const FailureKind kind = describe(id).kind;
  if (failure.messages.empty() || kind != FailureKind::Unsupported)
    failure.kind = kind;
  failure.messages.emplace_back(id, std::move(text));
  return false;
}

/// Of one kind: the first of a list that a script has written say enough.
constexpr int64_t mostOfAKind = 20;

/// A line for people shows as much of what files and flags say.
constexpr size_t longestLine = 1000;

/// `text`, whose middle is left out if it is longer; how much is said.
std::string cut(const std::string &text);

/// What a tool prints of `failure`, a line each, cut but for our bugs: "error: ... [unknown_key]" for
/// at most `mostOfAKind` messages of a kind, how many more there are, and
/// "note: ...".
std::vector<std::string> lines(const Failure &failure);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_FAILURE_H
