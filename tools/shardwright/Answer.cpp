//===- Answer.cpp - The search that answers a question --------------------===//

#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Interrupt.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/Words.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ostream>
#include <thread>

namespace shardwright::tools {

using namespace cost;

namespace {

/// Larger jobs, as `SearchAnswer::gpusTried` says.
class MoreGpus {
public:
  MoreGpus(const Question &question, SearchAnswer &answer,
           const std::function<bool()> &stop)
      : question(question), answer(answer), asked(answer.options.gpus),
        options(answer.options) {
    options.top = 1;
    options.stop = stop;
  }

  void run() {
    int64_t below = asked; // nothing fits there
    for (int64_t factor = 2; factor <= 64 && !stopped; factor *= 2) {
      if (attempt(asked * factor))
        break;
      below = asked * factor;
    }
    if (answer.onMoreGpus)
      between(below, answer.gpusThatFit);
  }

private:
  /// Searches a size that fewer nodes make up; whether it has a plan.
  bool attempt(int64_t gpus) {
    Failure ignored;
    Hardware larger;
    if (stopped || !resized(question.cluster.hardware, gpus, larger, ignored))
      return false;
    options.gpus = gpus;
    ProgramEstimator estimator(question.model.program, larger, question.profile,
                               question.base, question.framework, options);
    const SearchResult result = cost::search(estimator, options);
    stopped = !result.counters.proven;
    if (stopped)
      return false;
    answer.gpusTried.push_back(gpus);
    if (result.plans.empty())
      return false;
    answer.gpusThatFit = gpus;
    answer.onMoreGpus = result.plans.front();
    return true;
  }

  /// A larger job may fit where one between does not, whose degrees have to
  /// divide another number; so all are tried if they are few.
  void between(int64_t below, int64_t above) {
    const int64_t perNode = question.cluster.hardware.ranksPerNode();
    std::vector<int64_t> sizes;
    for (int64_t gpus = below + 1; gpus < above; ++gpus)
      if (gpus <= perNode || gpus % perNode == 0)
        sizes.push_back(gpus);
    const size_t few = 16;
    if (sizes.size() <= few) {
      for (int64_t gpus : sizes)
        if (attempt(gpus))
          break;
      answer.gpusAllTried = !stopped;
      return;
    }
    size_t least = 0, most = sizes.size(); // `most` fits
    while (least < most && !stopped) {
      const size_t middle = least + (most - least) / 2;
      if (attempt(sizes[middle]))
        most = middle;
      else
        least = middle + 1;
    }
    for (size_t near = 1; near <= 4 && near < most && !stopped;) {
      const int64_t gpus = sizes[most - 1 - near];
      const bool known =
          std::find(answer.gpusTried.begin(), answer.gpusTried.end(), gpus) !=
          answer.gpusTried.end();
      if (!known && attempt(gpus)) {
        most = most - 1 - near;
        near = 0;
      }
      ++near;
    }
    answer.gpusAllTried = false;
  }

  const Question &question;
  SearchAnswer &answer;
  const int64_t asked;
  SearchOptions options;
  bool stopped = false;
};

std::string numbers(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

/// "3 plans are": what a search that was stopped left, with the verb of one or of
/// several.
std::string leftText(const SearchCounters &counters, const char *one,
                     const char *several) {
  std::string text;
  if (counters.open > 0 || counters.uncounted == 0)
    text = groupedText(counters.open) + plural(counters.open, " plan");
  if (counters.uncounted > 0)
    text += (text.empty() ? "" : " and ") + std::string("those of ") +
            groupedText(counters.uncounted) +
            plural(counters.uncounted, " mesh") + ", which nobody counted,";
  const bool isOne = counters.open == 1 && counters.uncounted == 0;
  return text + " " + (isOne ? one : several);
}

/// How far the answer of a search that was stopped may be from the best.
std::string openText(const SearchAnswer &answer, double openValue) {
  std::string text = "stopped: " +
                     leftText(answer.result.counters, "was", "were") +
                     " not looked at";
  if (answer.objective == Objective::Memory)
    return text + "; some of them may need less";
  if (openValue <= 0) // not even bounded yet
    return text + "; any of them may be better";
  if (answer.sizes.size() == 1 && answer.objective == Objective::Time)
    text += "; none of them takes less than " + secondsText(Seconds(openValue));
  if (!answer.plans.empty())
    text += ", so the best is at most " +
            percentText(1 - openValue / answer.plans[0].value(
                                            answer.objective,
                                            answer.sizes[answer.best])) +
            " better than the one found";
  return text;
}

/// What all sizes of a question have in common.
class Sizing {
public:
  Sizing(const Question &question, const SearchFlags &search,
         const SearchOptions &common, SearchAnswer &answer)
      : question(question), search(search), common(common), answer(answer) {}

  /// One size of job and batch; `gpus` and `batch` 0: the default.
  bool add(int64_t gpus, int64_t batch, Failure &failure) {
    Cluster cluster = question.cluster;
    if (!resizeCluster(cluster, gpus, failure))
      return false;
    const Program &program = question.model.program;
    const auto hardware = std::make_shared<const Hardware>(cluster.hardware);
    SizedQuestion sized;
    sized.options = common;
    allow(sized.options, question.framework, *hardware);
    if (question.compiled)
      sized.options.cpKinds.clear();
    sized.options.gpus = hardware->ranks();
    sized.options.globalBatch =
        batch ? batch : defaultGlobalBatch(hardware->ranks(), program.sequence);
    Plan base = question.base;
    base.globalBatch = sized.options.globalBatch;
    if (months() && !addMonths(*hardware, base, sized, failure))
      return false;
    sized.estimator = [&question = question, hardware, base,
                       options = sized.options] {
      return std::make_unique<ProgramEstimator>(
          question.model.program, *hardware, question.profile, base,
          question.framework, options);
    };
    answer.sizes.push_back(std::move(sized));
    answer.clusters.push_back(*hardware);
    return true;
  }

  /// With several sizes the time is that of a token.
  void scaleTime() {
    for (SizedQuestion &sized : answer.sizes)
      if (answer.sizes.size() > 1)
        sized.timeScale = 1 / tokensOf(sized.options.globalBatch);
  }

private:
  double tokensOf(int64_t batch) const {
    return static_cast<double>(batch) *
           static_cast<double>(question.base.sequence);
  }
  bool months() const {
    const auto wants = [&](const std::string &objective) {
      return objective == name(Objective::Goodput) ||
             objective == name(Objective::Money);
    };
    return search.goodput.any() || wants(search.objective) ||
           std::any_of(search.pareto.begin(), search.pareto.end(), wants);
  }

  /// Of a run of months only the step time depends on the plan, as a factor.
  bool addMonths(const Hardware &hardware, const Plan &base,
                 SizedQuestion &sized, Failure &failure) {
    Plan any = base;
    any.dp = hardware.ranks();
    Estimate second;
    second.stepTime = Seconds(1);
    GoodputAnswer found;
    if (!answerGoodput(search.goodput, question.model.program, hardware, any,
                       second, found, failure))
      return false;
    const Operations &operations = found.question.operations;
    const bool priced = operations.pricePerDeviceHour > 0;
    sized.goodputScale =
        1 / (tokensOf(base.globalBatch) * found.result.useful);
    sized.moneyScale = static_cast<double>(hardware.ranks()) *
                       (priced ? operations.pricePerDeviceHour : 1) / 3600 *
                       sized.goodputScale;
    answer.priced = priced;
    answer.currency = operations.currency;
    return found.result.useful > 0 ||
           refuse(failure, Diag::no_plan_fits,
                  "failures leave " + std::to_string(hardware.ranks()) +
                      plural(hardware.ranks(), " GPU") + " no time to train: " +
                      countText(found.result.failuresPerDay) +
                      " a day; more storage, faster restarts or fewer GPUs");
  }

  const Question &question;
  const SearchFlags &search;
  const SearchOptions &common;
  SearchAnswer &answer;
};

/// What the framework cannot run, or the model has not, and a flag fixes.
bool checkPossible(const Question &question, const SearchOptions &options,
                   const std::string &constraints, Failure &failure) {
  for (Field field : {Field::Ep, Field::Etp}) {
    const Range &range = options.ranges[static_cast<int>(field)];
    if (question.model.program.experts == 0 && !range.contains(1))
      return refuse(failure, Diag::no_mesh,
                    std::string(name(field)) + ": " +
                        question.model.program.name +
                        " has no experts; expected 1");
  }
  const auto divides = [&](Field field, int64_t size, const char *what) {
    const Range &range = options.ranges[static_cast<int>(field)];
    const std::vector<int64_t> possible = divisors(size);
    return std::any_of(possible.begin(), possible.end(),
                       [&](int64_t value) { return range.contains(value); }) ||
           refuse(failure, Diag::no_mesh,
                  constraints + ": leave no " + std::string(name(field)) +
                      " that divides " + what + " (" + std::to_string(size) +
                      ") of " + question.model.program.name);
  };
  if (question.model.program.experts > 0 &&
      (!divides(Field::Ep, options.experts, "the experts") ||
       !divides(Field::Etp, options.expertFfn, "the width of an expert")))
    return false;
  if (question.compiled && question.model.program.experts > 0)
    return refuse(failure, Diag::compiled_by_native,
                  "expected a plan that `compile` takes under native, but got "
                  "routed experts");
  const FrameworkFacts &able = factsOf(question.framework);
  const Range &zero = options.ranges[static_cast<int>(Field::Zero)];
  const std::string whose(name(question.framework));
  const std::vector<int> &deep = able.zeroUnderPipeline;
  if (!options.ranges[static_cast<int>(Field::Pp)].contains(1) &&
      std::none_of(deep.begin(), deep.end(),
                   [&](int stage) { return zero.contains(stage); }))
    return refuse(failure, Diag::zero_not_of_framework,
                  constraints + ": leave pp > 1 and no ZeRO stage that " + whose +
                      " has under a pipeline, which are " +
                      numbers({deep.begin(), deep.end()}));
  if (std::none_of(able.zero.begin(), able.zero.end(),
                   [&](int stage) { return zero.contains(stage); }))
    return refuse(failure, Diag::zero_not_of_framework,
                  constraints + ": leave no ZeRO stage of " + whose +
                      ", which has " +
                      numbers({able.zero.begin(), able.zero.end()}) +
                      "; --runs-on names another framework");
  const Range &schedule = options.ranges[static_cast<int>(Field::Schedule)];
  const auto leaves = [&](ScheduleKind kind) {
    return schedule.contains(static_cast<int64_t>(kind));
  };
  // A plan of one stage counts as 1F1B.
  if (!leaves(ScheduleKind::OneFOneB) &&
      std::none_of(able.schedules.begin(), able.schedules.end(), leaves)) {
    return refuse(failure, Diag::schedule_not_of_framework,
                  constraints + ": leave no schedule of " + whose +
                      ", which has " + namesOf(able.schedules) +
                      "; --runs-on names another framework");
  }
  return true;
}

bool parseObjectives(const SearchFlags &search, Objective &objective,
                     Failure &failure) {
  Objective other;
  if (!parseObjective(search.objective, objective))
    refuse(failure, Diag::flag_value,
           "--objective " + search.objective + ": expected " +
               namesOf(objectives));
  for (const std::string &text : search.pareto)
    if (!parseObjective(text, other))
      refuse(failure, Diag::flag_value,
             "--pareto " + text + ": expected two of " + namesOf(objectives));
  if (search.pareto.size() == 2 && search.pareto[0] == search.pareto[1])
    refuse(failure, Diag::flag_value,
           "--pareto " + search.pareto[0] + "," + search.pareto[1] +
               ": expected two different ones of " + namesOf(objectives));
  return failure.messages.empty();
}

/// Fills the sizes of the answer; those of a range that the cluster cannot be
/// cut to are left out.
bool addSizes(const Question &question, const QuestionFlags &flags,
              const SearchFlags &search, const SearchOptions &common,
              SearchAnswer &answer, Failure &failure) {
  std::vector<int64_t> gpus = flags.gpusChoices, batches = flags.batchChoices;
  if (gpus.empty())
    gpus = {flags.gpus};
  if (batches.empty())
    batches = {flags.globalBatch};
  if (static_cast<int64_t>(gpus.size() * batches.size()) > kMostSizes)
    return refuse(failure, Diag::flag_value,
                  "--gpus and --global-batch: expected at most " +
                      std::to_string(kMostSizes) + " sizes together, but got " +
                      std::to_string(gpus.size() * batches.size()) +
                      "; A..B:STEP takes every STEP-th");
  Sizing sizing(question, search, common, answer);
  for (int64_t count : gpus)
    for (int64_t batch : batches) {
      Failure why;
      if (sizing.add(count, batch, why))
        continue;
      if (gpus.size() == 1 || why.messages.front().id != Diag::device_count ||
          (count == gpus.back() && answer.sizes.empty())) {
        failure = why;
        return false;
      }
      break; // no node of the cluster is cut like that
    }
  sizing.scaleTime();
  return true;
}

} // namespace

/// Lets all searches of a size share what they price: that for the best plan,
/// and those for plans in less memory behind it.
static void shareTables(SizedQuestion &size) {
  auto first = std::make_shared<std::unique_ptr<Estimator>>();
  size.estimator = [first, make = size.estimator] {
    if (!*first)
      *first = make();
    return (*first)->another();
  };
}

bool answer(Question &question, const QuestionFlags &flags,
            const SearchFlags &search, Streams streams, SearchAnswer &answer,
            Failure &failure) {
  SearchOptions common;
  const Program &program = question.model.program;
  if (!parseConstraints(search.constraints, common.ranges, failure) ||
      !parseObjectives(search, answer.objective, failure))
    return false;
  setModel(common, program);
  if (!checkPossible(question, common, search.constraints.text(), failure))
    return false;
  common.products = question.products;
  if (common.products.empty() &&
      question.base.dtypes.products != Narrow::None)
    common.products = {question.base.dtypes.products};
  common.gradients = question.gradients;
  common.memoryLimit = question.memoryLimit;
  common.top = search.top;
  common.distinct = !search.everySplit;
  // Each plans layers of its own: of three the largest question that was measured
  // stays below a GB, of four it does not (test/benchmark/search.py).
  constexpr int kMostThreads = 3;
  common.threads =
      search.threads
          ? search.threads
          : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                       kMostThreads);
  // The only clock: it goes to people, and into an answer if they limit it.
  const auto start = std::chrono::steady_clock::now();
  common.stop = [start, limit = search.timeLimit] {
    std::chrono::duration<double> so_far =
        std::chrono::steady_clock::now() - start;
    return InterruptGuard::interrupted() || (limit > 0 && so_far.count() >= limit);
  };
  if (!addSizes(question, flags, search, common, answer, failure))
    return false;
  if (answer.sizes.size() == 1)
    shareTables(answer.sizes.front());
  if (flags.globalBatch == 0 && answer.sizes.size() == 1)
    note("--global-batch is not given: " +
             std::to_string(answer.sizes[0].options.globalBatch) +
             plural(answer.sizes[0].options.globalBatch, " sequence") +
             " a step",
         streams.err);

  Choice choice;
  {
    InterruptGuard guard;
    choice = choose(answer.sizes, answer.objective);
  }
  answer.plans = choice.plans;
  answer.best = choice.plans.empty() ? answer.sizes.size() - 1
                                     : choice.plans.front().question;
  answer.result = choice.searched[answer.best];
  answer.result.plans.clear();
  for (const ChosenPlan &plan : choice.plans)
    answer.result.plans.push_back(plan.ranked);
  answer.result.counters = choice.counters;
  answer.openValue = choice.openValue;
  answer.options = answer.sizes[answer.best].options;
  answer.options.stop = nullptr;
  answer.constraints = search.constraints.text();
  answer.asked = search.constraints;
  question.base.globalBatch = answer.options.globalBatch;
  if (!sizeQuestion(question, answer.options.gpus, failure))
    return false;
  if (!answer.result.counters.proven)
    warn(openText(answer, choice.openValue), streams.err);
  if (answer.result.plans.empty() && answer.result.counters.proven) {
    SearchOptions options = answer.options;
    options.stop = common.stop;
    answer.smallest =
        cost::smallest(*answer.sizes[answer.best].estimator(), options);
    answer.stoppedSmallest = !answer.smallest && common.stop && common.stop();
  }
  if (answer.smallest)
    MoreGpus(question, answer, common.stop).run();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const SearchCounters &counters = answer.result.counters;
  const std::string considered = groupedText(counters.considered) +
                                 plural(counters.considered, " plan") + " in " +
                                 secondsText(Seconds(took.count()));
  note(counters.proven
           ? "searched " + considered
           : "looked at " + groupedText(counters.considered - counters.open) +
                 " of " + considered + "; " +
                 leftText(counters, "is", "are") + " still open",
       streams.err);
  return true;
}

} // namespace shardwright::tools
