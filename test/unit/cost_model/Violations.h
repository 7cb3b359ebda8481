//===- Violations.h - What is said of one rule ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_VIOLATIONS_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_VIOLATIONS_H

#include "cost_model/rules/Rules.h"

#include <optional>

namespace shardwright::test {

/// A copy, as callers pass what checkPlan returns.
inline std::optional<cost::Violation>
find(const std::vector<cost::Violation> &violations, const std::string &rule) {
  for (const cost::Violation &violation : violations)
    if (violation.rule == rule)
      return violation;
  return std::nullopt;
}

} // namespace shardwright::test

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_VIOLATIONS_H
