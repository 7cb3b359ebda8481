#include "cost_model/search/Objective.h"

#include <algorithm>
#include <limits>

namespace shardwright::cost {

std::string_view name(Objective objective) {
  switch (objective) {
  case Objective::Time: return "time";
  case Objective::Goodput: return "goodput";
  case Objective::Memory: return "memory";
  case Objective::Money: return "money";
  }
  return "";
}

bool parseObjective(std::string_view text, Objective &objective) {
  for (Objective other : objectives)
    if (text == name(other)) {
      objective = other;
      return true;
    }
  return false;
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// 0 of Memory, which is no multiple of the time.
double scaleOf(const SizedQuestion &question, Objective objective) {
  switch (objective) {
  case Objective::Time: return question.timeScale;
  case Objective::Goodput: return question.goodputScale;
  case Objective::Money: return question.moneyScale;
  case Objective::Memory: break;
  }
  return 0;
}

/// Runs the searches of several questions, many times if need be. A few
/// estimators are kept: they remember the layers that they priced.
class Chooser {
public:
  explicit Chooser(const std::vector<SizedQuestion> &questions)
      : questions(questions), kept(questions.size()) {}

  /// The best by `objective` among plans that need less than `limit`.
  Choice best(Objective objective, int64_t top, Bytes limit) {
    Choice choice;
    choice.searched.resize(questions.size());
    choice.openValue = infinity;
    for (size_t i : order(objective)) {
      const SizedQuestion &question = questions[i];
      const double scale = scaleOf(question, objective);
      SearchOptions options = question.options;
      options.top = top;
      options.memoryLimit = std::min(options.memoryLimit, limit);
      // What does not beat the last of those found is of no use. A little is
      // left for rounding, as values are compared below.
      if (static_cast<int64_t>(choice.plans.size()) >= top)
        options.cutoff =
            Seconds(valueOf(choice.plans.back(), objective) / scale *
                    (1 + 1e-12));
      std::unique_ptr<Estimator> own;
      SearchResult result = search(estimatorOf(i, own), options);
      merge(choice, objective, i, result, options);
      // Once stopped, the searches left end at once, with a bound on what they
      // would have found.
      choice.searched[i] = std::move(result);
    }
    return choice;
  }

  /// Bytes of the smallest plan of any question; nothing if none is legal or
  /// the search was stopped.
  std::optional<Bytes> least() {
    std::optional<Bytes> bytes;
    for (size_t i = 0; i < questions.size(); ++i) {
      std::unique_ptr<Estimator> own;
      std::optional<RankedPlan> plan =
          smallest(estimatorOf(i, own), questions[i].options);
      if (plan && (!bytes || plan->memory < *bytes))
        bytes = plan->memory;
    }
    return bytes;
  }

private:
  static constexpr size_t kKept = 8;

  const Estimator &estimatorOf(size_t i, std::unique_ptr<Estimator> &own) {
    if (questions.size() > kKept) {
      own = questions[i].estimator();
      return *own;
    }
    if (!kept[i])
      kept[i] = questions[i].estimator();
    return *kept[i];
  }

  /// Large jobs and batches first, as they lose least to pipelines and sums of
  /// gradients; where every GPU costs money, small ones.
  std::vector<size_t> order(Objective objective) const {
    std::vector<size_t> order(questions.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = objective == Objective::Money ? i : order.size() - 1 - i;
    return order;
  }

  double valueOf(const ChosenPlan &plan, Objective objective) const {
    return plan.value(objective, questions[plan.question]);
  }

  void merge(Choice &choice, Objective objective, size_t i,
             const SearchResult &result, const SearchOptions &options) const {
    SearchCounters &sum = choice.counters;
    sum.considered += result.counters.considered;
    sum.pruned += result.counters.pruned;
    sum.unfit += result.counters.unfit;
    sum.evaluated += result.counters.evaluated;
    sum.illegal += result.counters.illegal;
    sum.open += result.counters.open;
    sum.uncounted += result.counters.uncounted;
    if (!result.counters.proven) {
      sum.proven = false;
      choice.openValue =
          std::min(choice.openValue, result.openBound.count() *
                                         scaleOf(questions[i], objective));
    }
    for (const RankedPlan &plan : result.plans)
      choice.plans.push_back({plan, i, options.memoryLimit});
    std::sort(choice.plans.begin(), choice.plans.end(),
              [&](const ChosenPlan &a, const ChosenPlan &b) {
                const double left = valueOf(a, objective);
                const double right = valueOf(b, objective);
                if (left != right)
                  return left < right;
                if (a.ranked.memory != b.ranked.memory)
                  return a.ranked.memory < b.ranked.memory;
                return a.ranked.text < b.ranked.text;
              });
    if (static_cast<int64_t>(choice.plans.size()) > options.top)
      choice.plans.resize(static_cast<size_t>(options.top));
  }

  const std::vector<SizedQuestion> &questions;
  std::vector<std::unique_ptr<Estimator>> kept;
};

Bytes largestLimit(const std::vector<SizedQuestion> &questions) {
  Bytes limit(0);
  for (const SizedQuestion &question : questions)
    limit = std::max(limit, question.options.memoryLimit);
  return limit;
}

} // namespace

double ChosenPlan::value(Objective objective, const SizedQuestion &of) const {
  if (objective == Objective::Memory)
    return static_cast<double>(ranked.memory.count());
  return ranked.estimate.stepTime.count() * scaleOf(of, objective);
}

Choice choose(const std::vector<SizedQuestion> &questions,
              Objective objective) {
  Chooser chooser(questions);
  const Bytes limit = largestLimit(questions);
  if (objective != Objective::Memory)
    return chooser.best(objective, questions.front().options.top, limit);
  // Of the plans that need the least there is, the fastest.
  if (const std::optional<Bytes> least = chooser.least())
    return chooser.best(Objective::Time, 1,
                        std::min(limit, *least + Bytes(1)));
  const bool stopped = std::any_of(
      questions.begin(), questions.end(), [](const SizedQuestion &question) {
        return question.options.stop && question.options.stop();
      });
  if (!stopped) // none is legal
    return chooser.best(Objective::Time, 1, limit);
  // Any plan that fits is better than none, and a search that is stopped once it
  // began goes down to one.
  std::vector<SizedQuestion> soon = questions;
  for (SizedQuestion &question : soon)
    question.options.stop = [asked = 0]() mutable { return asked++ > 0; };
  Choice choice = Chooser(soon).best(Objective::Time, 1, limit);
  choice.counters.proven = false;
  return choice;
}

Front paretoFront(const std::vector<SizedQuestion> &questions, Objective first,
                  Objective second) {
  Chooser chooser(questions);
  Front front;
  const auto book = [&](const Choice &choice) {
    front.priced += choice.counters.evaluated;
    ++front.searches;
    front.proven = front.proven && choice.counters.proven;
  };
  if (first == Objective::Memory || second == Objective::Memory) {
    // The fastest plan of all; the fastest of those that need less than it; ...
    const Objective other = first == Objective::Memory ? second : first;
    Bytes limit = largestLimit(questions);
    while (front.proven) {
      const Choice choice = chooser.best(other, 1, limit);
      book(choice);
      front.considered =
          std::max(front.considered, choice.counters.considered);
      if (choice.plans.empty())
        break;
      front.plans.push_back(choice.plans.front());
      limit = choice.plans.front().ranked.memory;
    }
    if (first == Objective::Memory)
      std::reverse(front.plans.begin(), front.plans.end());
    return front;
  }
  // Within a question both grow with the time of a step: its fastest plan beats
  // all others of it in both.
  std::vector<ChosenPlan> fastest;
  for (size_t i = 0; i < questions.size() && front.proven; ++i) {
    const std::vector<SizedQuestion> one = {questions[i]};
    const Choice choice =
        Chooser(one).best(first, 1, questions[i].options.memoryLimit);
    book(choice);
    front.considered += choice.counters.considered;
    if (!choice.plans.empty())
      fastest.push_back({choice.plans.front().ranked, i,
                         choice.plans.front().memoryLimit});
  }
  const auto value = [&](const ChosenPlan &plan, Objective objective) {
    return plan.value(objective, questions[plan.question]);
  };
  std::sort(fastest.begin(), fastest.end(),
            [&](const ChosenPlan &a, const ChosenPlan &b) {
              for (Objective objective : {first, second})
                if (value(a, objective) != value(b, objective))
                  return value(a, objective) < value(b, objective);
              return a.ranked.text < b.ranked.text;
            });
  for (const ChosenPlan &plan : fastest)
    if (front.plans.empty() ||
        value(plan, second) < value(front.plans.back(), second))
      front.plans.push_back(plan);
  return front;
}

} // namespace shardwright::cost
