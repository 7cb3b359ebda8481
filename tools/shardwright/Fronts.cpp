#include "tools/shardwright/Fronts.h"

#include "cost_model/search/Report.h"
#include "tools/shardwright/Compare.h"

#include <cmath>

namespace shardwright::tools {

using namespace cost;

namespace {

/// How much of the memory the lean plans may use. Each is a search of its own:
/// of large spaces one has to do, and of the largest people have to ask.
constexpr double kShares[] = {0.75, 0.5, 0.25};
constexpr double kSharesOfMany[] = {0.5};
constexpr int64_t kMany = 5'000'000; ///< plans
constexpr int64_t kTooMany = 500'000'000;
constexpr const char *kLeanTitle = "the fastest plan in a part of the memory";

double valueOf(const SearchAnswer &answer, Objective objective,
               const ChosenPlan &plan) {
  return plan.value(objective, answer.sizes[plan.question]);
}

const char *keyOf(const SearchAnswer &answer, Objective objective) {
  switch (objective) {
  case Objective::Time:
    return answer.sizes.size() > 1 ? "seconds_per_token" : "step_time_seconds";
  case Objective::Goodput:
    return "seconds_per_kept_token";
  case Objective::Memory:
    return "memory_bytes_per_rank_max";
  case Objective::Money:
    return answer.priced ? "money_per_kept_token" : "gpu_hours_per_kept_token";
  }
  return "";
}

std::string headOf(const SearchAnswer &answer, Objective objective) {
  switch (objective) {
  case Objective::Time:
    return answer.sizes.size() > 1 ? "tokens/s" : "step";
  case Objective::Goodput:
    return "kept tokens/s";
  case Objective::Memory:
    return "memory/rank";
  case Objective::Money:
    return (answer.priced ? answer.currency.empty() ? "money" : answer.currency
                          : "GPU-hours") +
           "/1e9 tokens";
  }
  return "";
}

} // namespace

std::string valueText(const SearchAnswer &answer, Objective objective,
                      const ChosenPlan &plan) {
  const double value = valueOf(answer, objective, plan);
  switch (objective) {
  case Objective::Time:
    return answer.sizes.size() > 1 ? groupedText(std::llround(1 / value))
                                   : secondsText(Seconds(value));
  case Objective::Goodput:
    return groupedText(std::llround(1 / value));
  case Objective::Memory:
    return bytesText(plan.ranked.memory);
  case Objective::Money:
    return groupedText(std::llround(1e9 * value));
  }
  return "";
}

AskedFront askedFront(const SearchFlags &search, const SearchAnswer &answer) {
  AskedFront asked{};
  parseObjective(search.pareto[0], asked.first);
  parseObjective(search.pareto[1], asked.second);
  asked.front = paretoFront(answer.sizes, asked.first, asked.second);
  if (asked.front.plans.empty() && !answer.plans.empty()) {
    // Stopped by then: what is known is a plan of the front or near it.
    asked.front.plans = {answer.plans.front()};
    asked.front.proven = false;
  }
  return asked;
}

std::string frontText(const Question &question, const SearchAnswer &answer,
                      const AskedFront &asked) {
  using Align = Table::Align;
  Table table({headOf(answer, asked.first), "worse",
               headOf(answer, asked.second), "better", "GPUs", "batch", "plan"},
              {Align::Right, Align::Right, Align::Right, Align::Right,
               Align::Right, Align::Right, Align::Left});
  const std::vector<ChosenPlan> &plans = asked.front.plans;
  for (const ChosenPlan &plan : plans) {
    const auto change = [&](Objective objective) {
      return signedPercent(valueOf(answer, objective, plan) /
                               valueOf(answer, objective, plans.front()) -
                           1);
    };
    table.add({valueText(answer, asked.first, plan), change(asked.first),
               valueText(answer, asked.second, plan), change(asked.second),
               groupedText(plan.ranked.plan.ranks()),
               groupedText(plan.ranked.plan.globalBatch),
               planText(question.model.program, plan.ranked.plan)});
  }
  const auto count = static_cast<int64_t>(plans.size());
  return "front of " + std::string(name(asked.first)) + " and " +
         std::string(name(asked.second)) + ": " +
         groupedText(count) +
         (asked.front.proven
              ? plural(count, " plan") + " that no other beats in both"
              : " found; stopped before it was complete") +
         "\n" + table.text() +
         "each is the best below a limit of its own, which decides what "
         "recomputes: --fix and --memory-limit with that\n(--json: "
         "searched_below_bytes) give it again\n";
}

Json frontJson(const Question &question, const SearchAnswer &answer,
               const AskedFront &asked) {
  Json plans = Json::array();
  for (const ChosenPlan &plan : asked.front.plans) {
    Json entry = {{"gpus", plan.ranked.plan.ranks()},
                  {"global_batch", plan.ranked.plan.globalBatch}};
    for (Objective objective : {asked.first, asked.second})
      entry[keyOf(answer, objective)] = valueOf(answer, objective, plan);
    entry.update(pricedPlanJson(question.model.program, plan.ranked.plan,
                                plan.ranked.estimate,
                                answer.options.memoryLimit));
    entry["searched_below_bytes"] = plan.memoryLimit.count();
    plans.push_back(std::move(entry));
  }
  return {{"objectives", {name(asked.first), name(asked.second)}},
          {"plans", plans},
          {"considered", asked.front.considered},
          {"evaluated", asked.front.priced},
          {"searches", asked.front.searches},
          {"proven", asked.front.proven}};
}

std::vector<LeanPlan> leanPlans(const SearchAnswer &answer) {
  std::vector<LeanPlan> result;
  if (answer.plans.empty() || !answer.result.counters.proven ||
      answer.result.counters.considered > kTooMany)
    return result;
  const SizedQuestion &size = answer.sizes[answer.best];
  const std::unique_ptr<Estimator> estimator = size.estimator();
  const RankedPlan *last = &answer.plans.front().ranked;
  const std::vector<double> shares =
      answer.result.counters.considered > kMany
          ? std::vector<double>(std::begin(kSharesOfMany),
                                std::end(kSharesOfMany))
          : std::vector<double>(std::begin(kShares), std::end(kShares));
  for (double share : shares) {
    SearchOptions options = size.options;
    options.top = 1;
    options.memoryLimit = Bytes(static_cast<int64_t>(
        share * static_cast<double>(size.options.memoryLimit.count())));
    if (staysBelow(last->memory, options.memoryLimit))
      continue;
    const SearchResult found = search(*estimator, options);
    if (found.plans.empty() || !found.counters.proven)
      break;
    result.push_back({share, options.memoryLimit, found.plans.front()});
    last = &result.back().plan;
  }
  return result;
}

std::string leanText(const Question &question, const SearchAnswer &answer,
                     const std::vector<LeanPlan> &plans) {
  if (answer.result.counters.considered > kTooMany)
    return std::string(kLeanTitle) +
           ": not searched for among so many plans; --memory-limit or --pareto "
           "time,memory do\n";
  if (plans.empty())
    return "";
  using Align = Table::Align;
  Table table({"in", "step", "slower", "memory/rank", "plan"},
              {Align::Right, Align::Right, Align::Right, Align::Right,
               Align::Left});
  const double best = answer.plans.front().ranked.estimate.stepTime.count();
  for (const LeanPlan &lean : plans)
    table.add({percentText(lean.share), secondsText(lean.plan.estimate.stepTime),
               signedPercent(lean.plan.estimate.stepTime.count() / best - 1),
               bytesText(lean.plan.memory),
               planText(question.model.program, lean.plan.plan)});
  return kLeanTitle + (" (all trades: --pareto time,memory)\n" + table.text());
}

Json leanJson(const Question &question, const SearchAnswer &answer,
              const std::vector<LeanPlan> &plans) {
  if (answer.result.counters.considered > kTooMany)
    return nullptr;
  Json list = Json::array();
  for (const LeanPlan &lean : plans) {
    Json entry = {{"memory_share", lean.share}};
    entry.update(pricedPlanJson(question.model.program, lean.plan.plan,
                                lean.plan.estimate,
                                answer.options.memoryLimit));
    entry["searched_below_bytes"] = lean.limit.count();
    list.push_back(std::move(entry));
  }
  return list;
}

} // namespace shardwright::tools
