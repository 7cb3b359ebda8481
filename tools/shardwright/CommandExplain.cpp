//===- CommandExplain.cpp - Why this plan, and not another ----------------===//

#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Compare.h"
#include "tools/shardwright/FitChanges.h"
#include "tools/shardwright/Interrupt.h"
#include "tools/shardwright/LayoutRank.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/SavedPlan.h"
#include "tools/shardwright/Sensitivity.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct ExplainOptions {
  std::string model, planFile, against;
  std::vector<std::string> whyNot;
  QuestionFlags question;
  SearchFlags search;
  bool turns = false, json = false;
};

/// A priced plan and what it is called in tables.
struct Priced {
  std::string name;
  Plan plan;
  Estimate estimate;
};

/// The answer to one --why-not: a plan, or why there is none.
struct WhyNot {
  std::string asked; ///< "tp=4,pp=2"
  SearchFlags search;
  std::optional<Priced> best;
  Failure none; ///< empty with a plan, or if the search was stopped
  bool refused() const { return !none.messages.empty(); }
};

/// What was answered beside the plan.
struct Answers {
  std::vector<Priced> plans; ///< the plan, then those that it is compared with
  std::vector<WhyNot> whyNot;
};

LayoutRank rankOf(const SearchAnswer &found, const Priced &own) {
  const SizedQuestion &size = found.sizes[found.best];
  return layoutRank(*size.estimator(), size.options, own.plan,
                    own.estimate.stepTime);
}

void printChanges(const Question &question, const Priced &own,
                  std::ostream &out) {
  using Align = Table::Align;
  Table table({"change", "step", "difference", "memory/rank", ""},
              {Align::Left, Align::Right, Align::Right, Align::Right,
               Align::Left});
  for (const FitChange &change : fitChanges(question, own.plan))
    table.add({change.what, secondsText(change.estimate.stepTime),
               signedPercent(change.estimate.stepTime.count() /
                                 own.estimate.stepTime.count() -
                             1),
               bytesText(change.memory),
               change.fits ? "fits"
                           : bytesText(excess(change.memory, question.memoryLimit)) +
                                 " too much"});
  out << "the plan does not fit; the least change of each kind:\n"
      << table.text();
  const Plan &plan = own.plan;
  if (plan.globalBatch / plan.microBatch > plan.dp)
    out << "GPUs: every number of data ranks up to " << kMostTimesGpus
        << " times as many was tried that divides the global batch\n\n";
  else
    out << "GPUs: a global batch of " << plan.globalBatch
        << " has no work for more data ranks\n\n";
}

void printNone(const Failure &none, std::ostream &out) {
  for (const std::string &text : none.messages)
    out << text << "\n";
  for (const std::string &text : none.notes)
    out << text << "\n";
  out << "\n";
}

void print(const Question &question, const SearchAnswer &found,
           const Answers &answers, bool withTurns, std::ostream &out) {
  const Program &program = question.model.program;
  const std::vector<Priced> &plans = answers.plans;
  const Priced &own = plans.front();
  size_t stage = 0;
  const Bytes memory = fullestStage(own.estimate, stage);
  const bool fits = staysBelow(memory, question.memoryLimit);
  out << own.name << ": " << planText(program, own.plan) << "\n"
      << "step " << secondsText(own.estimate.stepTime) << ", MFU "
      << percentText(own.estimate.modelFlopsUtilization) << ", "
      << bytesText(memory) << " of " << bytesText(question.memoryLimit)
      << " on a rank of stage " << stage << "\n";
  const std::string bubble = bubbleText(own.plan);
  if (!bubble.empty())
    out << "bubble " << bubble << "\n";
  if (!found.result.plans.empty()) {
    const RankedPlan &best = found.result.plans.front();
    out << (fits ? "rank " : "would be rank ") << rankOf(found, own).text()
        << " of layouts (best recomputation and layers of each)"
        << (fits ? "; " : " if it fitted; ")
        << percentText(own.estimate.stepTime.count() /
                       best.estimate.stepTime.count())
        << " of the best plan's time"
        << (found.result.counters.proven ? "" : " (of those found)") << "\n";
  }
  out << "\n";
  if (!fits)
    printChanges(question, own, out);
  if (found.result.plans.empty())
    printNone(whyNothing(question, found), out);
  for (size_t i = 1; i < plans.size(); ++i) {
    const Priced &other = plans[i];
    const std::string fields =
        fieldsTable(own.plan, other.plan, own.name, other.name);
    out << "against " << other.name << ": " << planText(program, other.plan)
        << "\n\n";
    if (fields.empty())
      out << "the same plan\n\n";
    else
      out << fields << "\n"
          << termsTable(own.estimate, other.estimate, own.name, other.name)
          << "\n";
  }
  for (const WhyNot &one : answers.whyNot)
    if (one.refused()) {
      out << "no plan with " << one.asked << "\n";
      printNone(one.none, out);
    }
  if (found.result.plans.empty())
    return;
  out << sensitivityText(question,
                         sensitivities(question, found, own.plan),
                         own.estimate.stepTime);
  if (withTurns)
    out << "\n" << turnsText(question, turns(question, found, own.plan));
}

Json whyNotJson(const std::vector<WhyNot> &all) {
  Json list = Json::array();
  for (const WhyNot &one : all) {
    Json entry = {{"asked", one.asked}};
    if (one.best)
      entry["plan"] = one.best->name;
    for (const std::string &text : one.none.messages)
      entry["why_none"].push_back(text);
    for (const std::string &text : one.none.notes)
      entry["why_none"].push_back(text);
    list.push_back(std::move(entry));
  }
  return list;
}

Json toJson(const Question &question, const SearchAnswer &found,
            const Answers &answers, bool withTurns) {
  const std::vector<Priced> &plans = answers.plans;
  Json all = Json::array();
  for (const Priced &priced : plans) {
    Json entry = {{"name", priced.name}};
    entry.update(pricedPlanJson(question.model.program, priced.plan,
                                priced.estimate, question.memoryLimit));
    all.push_back(std::move(entry));
  }
  Json fitting = Json::array(), others = Json::array();
  size_t stage = 0;
  if (!staysBelow(fullestStage(plans[0].estimate, stage), question.memoryLimit))
    for (const FitChange &change : fitChanges(question, plans[0].plan)) {
      Json entry = {{"change", change.what}};
      entry.update(pricedPlanJson(question.model.program, change.plan,
                                  change.estimate, question.memoryLimit));
      (change.fits ? fitting : others).push_back(std::move(entry));
    }
  Json answer = {{"plans", all},
                 {"changes_that_fit", fitting},
                 {"changes_that_do_not_fit", others},
                 {"why_not", whyNotJson(answers.whyNot)},
                 {"sensitivity", Json::array()}};
  if (found.result.plans.empty())
    return answer;
  const LayoutRank rank = rankOf(found, plans[0]);
  answer["rank"] = rank.rank;
  answer["rank_is_lower_bound"] = rank.more;
  answer["sensitivity"] =
      sensitivityJson(sensitivities(question, found, plans[0].plan));
  if (withTurns)
    answer["turns"] =
        turnsJson(question, turns(question, found, plans[0].plan));
  return answer;
}

/// The plan of --against, which has to answer the same question.
bool readOther(const ExplainOptions &options, const Question &question,
               const Plan &plan, Plan &other, Failure &failure) {
  if (!loadPlan(options.against, options.model, other, failure) ||
      !requireLegal(options.against, question.model.program, other,
                    FailureKind::Input, failure,
                    options.question.asked(question.framework)))
    return false;
  if (other.ranks() == plan.ranks() && other.sequence == plan.sequence &&
      other.globalBatch == plan.globalBatch)
    return true;
  return refuse(failure, Diag::flag_value,
                "--against " + options.against + ": expected a plan for " +
                    std::to_string(plan.ranks()) +
                    plural(plan.ranks(), " GPU") + " and " +
                    std::to_string(plan.globalBatch) +
                    plural(plan.globalBatch, " sequence") + " of " +
                    std::to_string(plan.sequence) + ", but got one for " +
                    std::to_string(other.ranks()) +
                    plural(other.ranks(), " GPU") + " and " +
                    std::to_string(other.globalBatch) + " of " +
                    std::to_string(other.sequence) +
                    "; `shardwright diff` compares others");
}

/// Every --why-not as a question of its own. What no plan can be asked for is no
/// answer (false); what contradicts the other constraints is one.
bool readWhyNot(const ExplainOptions &options, std::vector<WhyNot> &all,
                Failure &failure) {
  for (const std::string &text : options.whyNot) {
    ConstraintTexts alone;
    alone.whyNot = {text};
    Ranges ignored;
    parseConstraints(alone, ignored, failure);
    WhyNot one{text, options.search, {}, {}};
    one.search.constraints.whyNot = {text};
    parseConstraints(one.search.constraints, ignored, one.none);
    all.push_back(std::move(one));
  }
  return failure.messages.empty();
}

/// If every --why-not was refused, all that was said of them.
bool anyAnswered(const std::vector<WhyNot> &all, Failure &failure) {
  if (all.empty() || std::any_of(all.begin(), all.end(), [](const WhyNot &one) {
        return !one.refused();
      }))
    return true;
  failure = all.front().none;
  for (size_t i = 1; i < all.size(); ++i) {
    const Failure &none = all[i].none;
    failure.messages.insert(failure.messages.end(), none.messages.begin(),
                            none.messages.end());
    failure.notes.insert(failure.notes.end(), none.notes.begin(),
                         none.notes.end());
  }
  return false;
}

ExitCode runExplain(ExplainOptions options, Streams streams) {
  Failure failure;
  Question question;
  Plan plan;
  if (!readSavedPlan(options.planFile, options.model, options.question,
                     /*searches=*/true, plan, question, streams.err, failure))
    return report(failure, streams.err);
  options.question.gpus = plan.ranks();
  options.question.globalBatch = plan.globalBatch;
  options.search.top = 1;

  // All that may be refused comes before the first search.
  Answers answers;
  Ranges ignored;
  Plan other;
  if (!parseConstraints(options.search.constraints, ignored, failure) ||
      !readWhyNot(options, answers.whyNot, failure) ||
      !anyAnswered(answers.whyNot, failure) ||
      (!options.against.empty() &&
       !readOther(options, question, plan, other, failure)))
    return report(failure, streams.err);

  for (const std::string &text : question.model.notes)
    note(text, streams.err);
  const InterruptGuard guard; // of the sensitivities, too
  SearchAnswer found;
  if (!answer(question, options.question, options.search, streams, found,
              failure))
    return report(failure, streams.err);
  const auto priced = [&](const std::string &name, const Plan &of) {
    return Priced{name, of,
                  estimate(question.model.program, question.cluster.hardware,
                           question.profile, of)};
  };
  std::vector<Priced> &plans = answers.plans;
  plans.push_back(priced("the plan", plan));
  if (!options.against.empty()) {
    plans.push_back(priced("the other", other));
  } else if (options.whyNot.empty() && !found.result.plans.empty()) {
    plans.push_back(priced(found.result.counters.proven ? "the best"
                                                        : "the best found",
                           found.result.plans[0].plan));
  }
  for (WhyNot &one : answers.whyNot) {
    SearchAnswer those;
    if (one.refused() || !answer(question, options.question, one.search,
                                 streams, those, one.none))
      continue;
    const bool proven = those.result.counters.proven;
    if (!those.result.plans.empty())
      plans.push_back(one.best.emplace(
          priced((proven ? "the best with " : "the best found with ") +
                     one.asked,
                 those.result.plans[0].plan)));
    else if (proven)
      one.none = whyNothing(question, those);
    // else it was said that it was stopped: the rest is not lost with it
  }
  if (!anyAnswered(answers.whyNot, failure))
    return report(failure, streams.err);
  if (options.json)
    streams.out << toJson(question, found, answers, options.turns).dump(2) << "\n";
  else
    print(question, found, answers, options.turns, streams.out);
  return ExitCode::Done;
}

} // namespace

void addExplain(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App *command = app.add_subcommand(
      "explain", "Say what a plan loses to another, and what would change it");
  command->add_option("model", options->model, "config.json, or its folder")
      ->required();
  command->add_option("plan", options->planFile, "Plan file")->required();
  options->question.add(*command, true);
  options->search.add(*command);
  command->add_option("--against", options->against,
                      "Plan file to compare with (default: the best plan)");
  command->add_option("--why-not", options->whyNot,
                      "Compare with the best plan that has these fields: "
                      "tp=4,pp=2 (repeatable: each asks for a plan of its own)");
  command->add_flag("--turns", options->turns,
                    "Say also how far each number of the machine may move "
                    "before another layout is best (up to 8 times; many "
                    "searches)");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright explain examples/models/llama-3-70b plan.json --cluster "
      "dgx-h100 --why-not tp=4\n"
      "\n"
      "For a plan that does not fit it lists the least change of each kind "
      "that makes it fit,\nand several at once where that is faster, each with "
      "its price; then what 10 % of each number of "
      "the machine do to the plan, and whether\nanother layout is best then.\n"
      "\n"
      "Where no plan has what a --why-not asks for it says why, and answers the "
      "others: only\nif all are refused nothing is printed, and it exits as "
      "`plan` does with the same --fix.");
  command->callback([=, &exitCode] {
    exitCode = runExplain(*options, streams);
  });
}

} // namespace shardwright::tools
