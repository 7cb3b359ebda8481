//===- FitChanges.h - Small changes of a plan, each priced ------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_FITCHANGES_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_FITCHANGES_H

#include "tools/shardwright/Question.h"

namespace shardwright::tools {

/// Data ranks that are tried, in times of the plan's.
inline constexpr int64_t kMostTimesGpus = 64;
/// Tokens of a rank that head and loss go over at a time, at least: what is
/// shown to be worth its time (NovaSky-AI/SkyRL pull request 1610).
inline constexpr int64_t kLeastLossTokens = 1024;

/// The least change of one kind that makes a plan fit, or the largest there is.
struct FitChange {
  std::string what; ///< "recompute the attention core of every layer"
  cost::Plan plan;
  cost::Estimate estimate;
  cost::Bytes memory;
  bool fits = false;
};

/// One for each kind of change that the plan, its model and the framework
/// leave room for: more recomputation, higher ZeRO, smaller microbatches,
/// sequence parallelism, offload, fewer logits, more GPUs; and several at once,
/// where that is faster than fewer, or nothing else is enough. The ones that
/// fit come first, fastest first.
std::vector<FitChange> fitChanges(const Question &question,
                                  const cost::Plan &plan);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_FITCHANGES_H
