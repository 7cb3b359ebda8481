//===- Sensitivity.h - What if the machine were another ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_SENSITIVITY_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_SENSITIVITY_H

#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"

#include <optional>
#include <string>
#include <vector>

namespace shardwright::tools {

/// One number of the machine, changed.
struct Sensitivity {
  std::string number;
  double factor = 1;                    ///< new / old
  cost::Seconds step;                   ///< of the plan; memory leaves it alone
  std::optional<cost::RankedPlan> best; ///< nothing: no plan fits then
  bool turns = false;                   ///< another layout is best, or none
  bool known = true; ///< else the search was stopped before it was sure
};

/// Every number 10 % up and down, with the best plan of each such machine.
std::vector<Sensitivity> sensitivities(const Question &question,
                                       const SearchAnswer &found,
                                       const cost::Plan &plan);

/// Where the choice turns: up and down from what a number is, the first of
/// several factors at which another layout is best, with the last at which the
/// same one is.
struct Turn {
  Sensitivity at;
  double before = 1;
  bool turned = false; ///< else not even at the last factor
};
std::vector<Turn> turns(const Question &question, const SearchAnswer &found,
                        const cost::Plan &plan);

std::string sensitivityText(const Question &question,
                            const std::vector<Sensitivity> &lines,
                            cost::Seconds step);
std::string turnsText(const Question &question, const std::vector<Turn> &lines);
Json sensitivityJson(const std::vector<Sensitivity> &lines);
Json turnsJson(const Question &question, const std::vector<Turn> &lines);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_SENSITIVITY_H
