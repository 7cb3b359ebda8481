//===- RankRuns.h - Published layouts among all plans -----------*- C++ -*-===//
//
// Where the plan of a published run stands among all plans that its framework
// could have run on the same machine with the same batch.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_RANKRUNS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_RANKRUNS_H

#include "cost_model/validation/Validation.h"
#include "tools/shardwright/LayoutRank.h"
#include "tools/shardwright/PlanJson.h"

#include <ostream>
#include <string>
#include <vector>

namespace shardwright::tools {

struct RankedRun {
  std::string id, set;
  std::string unranked; ///< why not; the rest is empty then
  std::string plan, best; ///< as text
  std::vector<std::string> broken; ///< rules of its framework
  bool fits = true;                ///< as predicted
  int64_t considered = 0;          ///< legal plans
  LayoutRank rank;
  double published = 0, fastest = 0; ///< predicted seconds of a step
};

/// One for each configuration of the headline rows. Plans are searched with the
/// habits, numbers and memory that the row itself is predicted with.
std::vector<RankedRun>
rankRuns(const std::vector<cost::ValidationRow> &rows,
         const cost::ProgramSource &programOf, int threads);

void printRanks(const std::vector<RankedRun> &runs, std::ostream &out);
Json ranksJson(const std::vector<RankedRun> &runs);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_RANKRUNS_H
