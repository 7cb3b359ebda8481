//===- Constraints.h - `--fix tp=8 --max pp=4` ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_CONSTRAINTS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_CONSTRAINTS_H

#include "cost_model/base/Failure.h"
#include "cost_model/search/Candidate.h"

#include <string>
#include <vector>

namespace shardwright::tools {

/// --fix pins a field, --max limits it, --forbid takes one value of it away;
/// --why-not pins it for a comparison.
enum class Constraint { Fix, Max, Forbid, WhyNot };

/// "field=value" as flags gave them; several may be joined by commas.
struct ConstraintTexts {
  std::vector<std::string> fix, max, forbid, whyNot;
  bool any() const { return !text().empty(); }
  std::string text() const; ///< "--fix tp=8, --max pp=2": all that was given
};

/// Reads them into `ranges`. All mistakes are reported together, and what
/// contradicts one another in one message.
bool parseConstraints(const ConstraintTexts &texts, cost::Ranges &ranges,
                      cost::Failure &failure);
/// Those of `texts` that speak of `field`, as ConstraintTexts::text.
std::string constraintsOf(const ConstraintTexts &texts, cost::Field field);
/// "tp = 8", "recompute = full:2": a value as the flags take it.
std::string valueText(cost::Field field, int64_t value);
/// "dp, tp, ...": the fields that they take.
std::string fieldNames();

/// "p2p", "all_gather" or "a2a".
bool parseCpKind(const std::string &text, cost::CpKind &kind);

/// Words of the command line for enums.
bool parseSchedule(const std::string &text, cost::ScheduleKind &schedule);
/// Numbers of one stage after the other, joined by commas; 8x3 is 8 of each of
/// three.
bool parseStages(const std::string &text, std::vector<int64_t> &counts);
/// none, selective, full, full:N (N layers of every stage) or full: and what
/// parseStages takes; `full` has these numbers.
bool parseRecompute(const std::string &text, cost::Recompute &recompute,
                    std::vector<int64_t> &full);
bool parseInteger(const std::string &text, int64_t &value);
bool parseNumber(const std::string &text, double &value); ///< a finite one
/// bf16, f32 or f64 for parameters and arithmetic; bf16 keeps f32 gradients,
/// reductions and masters.
bool parseDTypes(const std::string &text, cost::DTypes &dtypes);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_CONSTRAINTS_H
