#include "tools/shardwright/LayoutRank.h"

namespace shardwright::tools {

using namespace cost;

namespace {

/// Layouts that are counted one by one.
constexpr int64_t kMost = 200;

bool sameLayout(const Plan &a, const Plan &b) {
  return a.tp == b.tp && a.pp == b.pp && a.dp == b.dp && a.cp == b.cp &&
         a.ep == b.ep && a.etp == b.etp && a.sp == b.sp &&
         a.microBatch == b.microBatch && a.zero == b.zero &&
         a.zeroRanks == b.zeroRanks && a.schedule == b.schedule &&
         a.chunks == b.chunks && a.group == b.group;
}

} // namespace

std::string LayoutRank::text() const {
  return (more ? ">= " : "") + std::to_string(rank) +
         (stopped ? " (stopped)" : "");
}

LayoutRank layoutRank(const Estimator &estimator, SearchOptions options,
                      const Plan &plan, Seconds time) {
  options.distinct = true;
  options.top = kMost;
  options.cutoff = time;
  LayoutRank result;
  const SearchResult faster = search(estimator, options);
  if (!faster.plans.empty())
    result.best = faster.plans.front();
  result.considered = faster.counters.considered;
  for (const RankedPlan &other : faster.plans)
    result.rank +=
        !sameLayout(other.plan, plan) && other.estimate.stepTime < time ? 1 : 0;
  result.stopped = !faster.counters.proven;
  result.more = result.rank >= kMost || result.stopped;
  return result;
}

} // namespace shardwright::tools
