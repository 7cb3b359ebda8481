//===- SavedPlan.h - A plan file, asked about --------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_SAVEDPLAN_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_SAVEDPLAN_H

#include "tools/shardwright/Question.h"

#include <string>

namespace shardwright::tools {

/// Reads the plan at `path` and the question that it answers, and refuses a plan
/// that is not legal. `flags` may name another cluster, --global-batch and
/// --sequence: the plan is then that of the file for another step, checked again.
/// `searches`: types may be left to a search beside the plan. Warns of another
/// cluster on `err`. The cluster keeps its size.
bool readSavedPlan(const std::string &path, const std::string &model,
                   const QuestionFlags &flags, bool searches,
                   cost::Plan &plan, Question &question, std::ostream &err,
                   cost::Failure &failure);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_SAVEDPLAN_H
