//===- Objective.h - What the best plan is best at --------------*- C++ -*-===//
//
// Searches for other things than the time of a step, over several sizes of job
// and batch at once, and for all trade-offs of two. Exact like `search`, which
// does the work: SEARCH.md says why.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_OBJECTIVE_H
#define SHARDWRIGHT_COST_MODEL_OBJECTIVE_H

#include "cost_model/search/Search.h"

#include <functional>
#include <string_view>

namespace shardwright::cost {

enum class Objective {
  Time,    ///< of a token: the inverse of tokens a second
  Goodput, ///< time of a token that is kept after failures
  Memory,  ///< of the fullest rank
  Money,   ///< for a token that is kept
};
inline constexpr Objective objectives[] = {Objective::Time, Objective::Goodput,
                                           Objective::Memory, Objective::Money};
std::string_view name(Objective objective);
bool parseObjective(std::string_view text, Objective &objective);

/// A size of job and batch that the answer may have.
struct SizedQuestion {
  std::function<std::unique_ptr<Estimator>()> estimator;
  SearchOptions options;
  /// What a plan is worth under Time, Goodput and Money (less is better) is its
  /// step time times these: nothing else in a question depends on its plan.
  double timeScale = 1, goodputScale = 1, moneyScale = 1;
};

struct ChosenPlan {
  RankedPlan ranked;
  size_t question = 0; ///< whose plan it is
  /// Below which it was searched for. Where that decides how many layers
  /// recompute (FullRule), it is the answer to no other limit.
  Bytes memoryLimit = Bytes(0);
  double value(Objective objective, const SizedQuestion &of) const;
};

struct Choice {
  /// Best first: by value, memory, canonical text.
  std::vector<ChosenPlan> plans;
  SearchCounters counters; ///< of all questions together
  /// Of every question, in their order: what its search found and rejected.
  std::vector<SearchResult> searched;
  /// Unless proven: no plan that was not looked at has a lower value.
  double openValue = 0;
};

/// The best plans of all questions together, at most as many as the questions'
/// `top`. Under Memory there is one: the fastest (by Time) of those that need
/// least.
Choice choose(const std::vector<SizedQuestion> &questions, Objective objective);

struct Front {
  /// Each is better than the one before in `second` and worse in `first`.
  std::vector<ChosenPlan> plans;
  int64_t considered = 0; ///< legal plans of all questions
  int64_t priced = 0;     ///< in all searches together
  int64_t searches = 0;
  bool proven = true;
};

/// Every pair of values of `first` and `second` (two different ones) that no
/// legal plan within the limit beats in both, each with its first plan by
/// canonical text.
Front paretoFront(const std::vector<SizedQuestion> &questions, Objective first,
                  Objective second);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_OBJECTIVE_H
