//===- RuleCheck.h - One rule on one plan, in progress ----------*- C++ -*-===//
//
// Used by Rules.cpp and the files of its checks only.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_RULES_RULECHECK_H
#define SHARDWRIGHT_COST_MODEL_RULES_RULECHECK_H

#include "cost_model/rules/Rules.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwright::cost {

/// One check in progress; functions that take it say what is wrong.
class RuleCheck {
public:
  RuleCheck(const Program &program, const Plan &plan, Diag rule,
            std::vector<Violation> &violations,
            std::optional<Framework> framework)
      : program(program), plan(plan),
        framework(framework.value_or(Framework::Native)),
        asked(framework.has_value()), rule(rule), violations(violations) {}

  void fail(std::string message, std::vector<std::string> legal = {},
            const char *lead = "legal here") {
    if (!legal.empty()) {
      message += "; " + std::string(lead) + ": ";
      for (size_t i = 0; i < legal.size(); ++i)
        message += (i ? ", " : "") + legal[i];
    }
    violations.push_back({std::string(describe(rule).name), std::move(message),
                          std::move(legal), describe(rule).kind, rule});
  }

  /// The same where `legal` are the values of the degree `name` that would do,
  /// ascending: those nearest `given` are said.
  void failNear(std::string message, const std::string &name, int64_t given,
                const std::vector<int64_t> &legal) {
    std::vector<std::string> texts;
    for (int64_t value : nearby(legal, given))
      texts.push_back(name + " = " + std::to_string(value));
    fail(std::move(message), std::move(texts), "nearest legal");
  }

  /// `what` of `size` must be a multiple of the degree `name`.
  void divides(std::string_view what, int64_t size, std::string_view degree,
               int64_t value) {
    if (size % value == 0)
      return;
    const std::string name(degree);
    failNear("expected " + std::string(what) + " (" + std::to_string(size) +
                 ") to be a multiple of " + name + ", but got " + name + " = " +
                 std::to_string(value),
             name, value, divisors(size));
  }

  const Program &program;
  const Plan &plan;
  const Framework framework;
  const bool asked; ///< to run there; else Native prices what it can

private:
  Diag rule;
  std::vector<Violation> &violations;
};

// Compiled.cpp: what this compiler emits.
void checkCompiled(RuleCheck &check);

// FrameworkRules.cpp: what not every framework runs.
void checkFrameworkZero(RuleCheck &check);
void checkFrameworkSchedule(RuleCheck &check);
void checkFrameworkGroups(RuleCheck &check);
void checkTensorNeedsSequence(RuleCheck &check);
void checkFrameworkKvHeads(RuleCheck &check);

// NarrowRules.cpp: extents of products in 8 and 4 bits.
void checkNarrowExtents(RuleCheck &check);

void checkFrameworkContext(RuleCheck &check);
void checkFrameworkCopies(RuleCheck &check);
void checkFrameworkOffload(RuleCheck &check);
void checkFrameworkActivations(RuleCheck &check);
void checkFrameworkOrder(RuleCheck &check);
void checkFrameworkRecompute(RuleCheck &check);
void checkFrameworkGradients(RuleCheck &check);
void checkFrameworkProducts(RuleCheck &check);
void checkFrameworkExperts(RuleCheck &check);

// ContextRules.cpp: parts of a sequence.
void checkContextSequence(RuleCheck &check);
void checkContextHeads(RuleCheck &check);
void checkContextRepeats(RuleCheck &check);
void checkWholeSequences(RuleCheck &check);
void checkContextWindow(RuleCheck &check);

// ExpertRules.cpp: widths, and degrees of experts.
void checkFfn(RuleCheck &check);
void checkExperts(RuleCheck &check);
void checkExpertFfn(RuleCheck &check);
void checkExpertRanks(RuleCheck &check);
void checkNesting(RuleCheck &check);
void checkExpertsNeedSp(RuleCheck &check);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_RULES_RULECHECK_H
