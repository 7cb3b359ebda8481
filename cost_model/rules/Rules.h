//===- Rules.h - Which plans are legal for a program ------------*- C++ -*-===//
//
// What a plan must satisfy; the rules stand in Diagnostics.def. Search rejects by
// them, tools report them, passes rely on them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_RULES_RULES_H
#define SHARDWRIGHT_COST_MODEL_RULES_RULES_H

#include "cost_model/base/Failure.h"
#include "cost_model/plan/Plan.h"
#include "cost_model/rules/Framework.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// An entry of section Rules: `formula` must hold, `cause` says why. Kind Input:
/// a plan that breaks it is wrong. Unsupported: it makes sense, but nothing here
/// can run or price it yet.
using Rule = Diagnostic;

/// All rules, in the order in which they are checked and reported.
const std::vector<Rule> &rules();

struct Violation {
  std::string rule;    ///< name of the rule
  std::string message; ///< "expected ... , but got ..." with the values found
  std::vector<std::string> legal; ///< legal values near by; may be empty
  FailureKind kind = FailureKind::Input;
  Diag id = Diag::internal_error; ///< the rule, if it is one of `rules`
};

enum class ModelCheck {
  NameAndSha256, ///< the digest of the program is computed and compared
  NameOnly,      ///< for callers who know that plan and program belong together
};

/// Every rule that `plan` violates where `framework` runs it, in table order;
/// empty: it is legal. Without a framework it only has to be priced. An empty
/// model name or sha256 in the plan means "any" and passes.
std::vector<Violation> checkPlan(const Program &program, const Plan &plan,
                                 ModelCheck model = ModelCheck::NameAndSha256,
                                 std::optional<Framework> framework = {});

/// What checkPlan says alike of all `readings` of a file of which some values
/// could not be read: those differ from reading to reading, and whatever depends
/// on them with them.
std::vector<Violation> violationsOfAll(const Program &program,
                                       const std::vector<Plan> &readings);

/// The sequence that all `readings` have; 0 if they differ in it.
int64_t sequenceOfAll(const std::vector<Plan> &readings);

/// Unsupported if nothing worse is among `violations`, else Input.
FailureKind worstKind(const std::vector<Violation> &violations);

/// Divisors of n >= 1, ascending.
std::vector<int64_t> divisors(int64_t n);
/// Of `numbers`, ascending: up to two below `given` and two above it.
std::vector<int64_t> nearby(const std::vector<int64_t> &numbers, int64_t given);

/// Distinct widths of feed-forward parameters, ascending: of routed experts, or
/// of all others.
std::vector<int64_t> ffnWidths(const Program &program, bool experts);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_RULES_RULES_H
