//===- Fronts.h - What less memory costs, and other trades ------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_FRONTS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_FRONTS_H

#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"

#include <string>
#include <vector>

namespace shardwright::tools {

/// The exact front that --pareto asked for.
struct AskedFront {
  cost::Objective first, second;
  cost::Front front;
};
AskedFront askedFront(const SearchFlags &search, const SearchAnswer &answer);
std::string frontText(const Question &question, const SearchAnswer &answer,
                      const AskedFront &asked);
Json frontJson(const Question &question, const SearchAnswer &answer,
               const AskedFront &asked);

/// A few plans of the front of time and memory: the fastest of those that need
/// less than a share of the limit. `share` falls; plans that several shares have
/// in common stand once. None (JSON: null) of more than 10^10 plans, where it
/// would take as long again as the search itself.
struct LeanPlan {
  double share;
  cost::Bytes limit; ///< that share
  cost::RankedPlan plan;
};
std::vector<LeanPlan> leanPlans(const SearchAnswer &answer);
std::string leanText(const Question &question, const SearchAnswer &answer,
                     const std::vector<LeanPlan> &plans);
Json leanJson(const Question &question, const SearchAnswer &answer,
              const std::vector<LeanPlan> &plans);

/// A value of an objective with its unit: "16.77 s", "12.3 us a token", ...
std::string valueText(const SearchAnswer &answer, cost::Objective objective,
                      const cost::ChosenPlan &plan);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_FRONTS_H
