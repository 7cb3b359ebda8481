//===- Expectation.h - A prediction against an earlier one ------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXPECTATION_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXPECTATION_H

#include "cost_model/base/Failure.h"
#include "tools/shardwright/PlanJson.h"

#include <string>

namespace shardwright::tools {

/// Holds `now`, what predict --json says, against the same of an earlier time
/// in `file`: step time and memory may have moved by `tolerance` percent, up or
/// down. All that moved further is one failure of kind No; a file that is no
/// such report is one of kind Input.
bool checkExpectation(const std::string &file, double tolerance,
                      const Json &now, cost::Failure &failure);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXPECTATION_H
