//===- LayoutRank.h - Where a plan stands among all -------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTRANK_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTRANK_H

#include "cost_model/search/Search.h"

#include <optional>
#include <string>

namespace shardwright::tools {

/// Of layouts (plans that differ in more than recomputation and layers a stage),
/// each at its fastest plan that fits: one more than are faster than a plan.
struct LayoutRank {
  int64_t rank = 1;
  bool more = false; ///< there are more faster ones than are counted
  bool stopped = false; ///< before all were found that are faster
  std::optional<cost::RankedPlan> best; ///< if it is no slower than the plan
  int64_t considered = 0;               ///< legal plans

  std::string text() const; ///< "12", ">= 200", ">= 3 (stopped)"
};
/// `plan` takes `time` a step, and is itself not counted as faster.
LayoutRank layoutRank(const cost::Estimator &estimator,
                      cost::SearchOptions options, const cost::Plan &plan,
                      cost::Seconds time);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAYOUTRANK_H
