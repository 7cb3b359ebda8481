//===- LayoutDiff.h - What a change of plan moves in a checkpoint -*- C++ -*-=//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTDIFF_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTDIFF_H

#include "tools/shardwright/PlanJson.h"

#include <string>

namespace shardwright::tools {

/// A legal plan, the program that it is of, and what it is called.
struct NamedPlan {
  std::string name;
  cost::Program program;
  cost::Plan plan;
};

/// How the tensors and the optimizer state of a model lie under two plans of
/// it, what of that changes, and whether a program compiled for the one goes on
/// from a checkpoint of the other.
std::string layoutText(const NamedPlan &left, const NamedPlan &right);
/// {kinds: [{kind, layers, stages_change, left, right, tensors: [{name, part,
/// parameter_changes, optimizer_changes, left, right}]}], loads, why_not}
Json layoutJson(const NamedPlan &left, const NamedPlan &right);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTDIFF_H
