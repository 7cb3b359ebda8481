//===- CommandExplain.cpp - Why this plan, and not another ----------------===//

#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Compare.h"
#include "tools/shardwright/FitChanges.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct ExplainOptions {
  std::string model, planFile, against;
  std::vector<std::string> whyNot;
  QuestionFlags question;
  SearchFlags search;
  bool json = false;
};

/// A priced plan and what it is called in tables.
struct Priced {
  std::string name;
  Plan plan;
  Estimate estimate;
};

/// A number of the machine that may be wrong, or improve.
struct Knob {
  const char *name;
  std::function<void(Hardware &, double)> scale;
};

const std::vector<Knob> &knobs() {
  static const std::vector<Knob> all = {
      {"arithmetic peak",
       [](Hardware &hardware, double factor) {
         for (FlopsPerSecond &peak : hardware.device.peak)
           peak = FlopsPerSecond(factor * peak.count());
       }},
      {"memory bandwidth",
       [](Hardware &hardware, double factor) {
         BytesPerSecond &rate = hardware.device.memoryBandwidth;
         rate = BytesPerSecond(factor * rate.count());
       }},
      {"links inside a node",
       [](Hardware &hardware, double factor) {
         for (BytesPerSecond *rate :
              {&hardware.levels[0].bandwidth, &hardware.fabric.channelBandwidth,
               &hardware.fabric.nvlsIntra})
           *rate = BytesPerSecond(factor * rate->count());
       }},
      {"network between nodes",
       [](Hardware &hardware, double factor) {
         for (size_t i = 1; i < hardware.levels.size(); ++i)
           hardware.levels[i].bandwidth = BytesPerSecond(
               factor * hardware.levels[i].bandwidth.count());
         BytesPerSecond &rate = hardware.fabric.nvlsInter;
         rate = BytesPerSecond(factor * rate.count());
       }},
      {"kernel latency",
       [](Hardware &hardware, double factor) {
         hardware.device.kernelLatency = factor * hardware.device.kernelLatency;
       }},
  };
  return all;
}

struct Sensitivity {
  std::string knob;
  double change; ///< of the number, relative
  Seconds step;  ///< of the plan
  RankedPlan best;
  bool turns = false; ///< another layout is best then
};

bool sameLayout(const Plan &a, const Plan &b) {
  return a.tp == b.tp && a.pp == b.pp && a.dp == b.dp && a.ep == b.ep &&
         a.etp == b.etp && a.cp == b.cp;
}

std::vector<Sensitivity> sensitivities(const Question &question,
                                       const SearchAnswer &found,
                                       const Plan &plan) {
  std::vector<Sensitivity> result;
  SearchOptions options = found.options;
  options.top = 1;
  for (const Knob &knob : knobs())
    for (double change : {0.1, -0.1}) {
      Hardware hardware = question.cluster.hardware;
      knob.scale(hardware, 1 + change);
      const ProgramEstimator estimator(question.model.program, hardware,
                                       question.profile, question.base,
                                       question.framework, options);
      const SearchResult best = search(estimator, options);
      if (best.plans.empty())
        continue;
      result.push_back({knob.name, change,
                        estimateTime(question.model.program, hardware,
                                     question.profile, plan)
                            .stepTime,
                        best.plans[0],
                        !sameLayout(best.plans[0].plan,
                                    found.result.plans[0].plan)});
    }
  return result;
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
                           : bytesText(change.memory - question.memoryLimit +
                                       Bytes(1)) +
                                 " too much"});
  out << "the plan does not fit; the least change of each kind:\n"
      << table.text() << "\n";
}

void printSensitivity(const Question &question, const SearchAnswer &found,
                      const Priced &own, std::ostream &out) {
  using Align = Table::Align;
  Table table({"if this were", "other", "the plan takes", "difference",
               "the best plan then"},
              {Align::Left, Align::Right, Align::Right, Align::Right,
               Align::Left});
  for (const Sensitivity &line : sensitivities(question, found, own.plan))
    table.add({line.knob, signedPercent(line.change), secondsText(line.step),
               signedPercent(line.step.count() / own.estimate.stepTime.count() -
                             1),
               line.turns ? "turns: " + planText(question.model.program,
                                                 line.best.plan)
                          : "the same layout"});
  out << table.text();
}

void print(const Question &question, const SearchAnswer &found,
           const std::vector<Priced> &plans, std::ostream &out) {
  const Program &program = question.model.program;
  const Priced &own = plans.front();
  size_t stage = 0;
  const Bytes memory = fullestStage(own.estimate, stage);
  out << own.name << ": " << planText(program, own.plan) << "\n"
      << "step " << secondsText(own.estimate.stepTime) << ", MFU "
      << percentText(own.estimate.modelFlopsUtilization) << ", "
      << bytesText(memory) << " of " << bytesText(question.memoryLimit)
      << " on a rank of stage " << stage << "\n\n";
  if (memory >= question.memoryLimit)
    printChanges(question, own, out);
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
  if (!found.result.plans.empty())
    printSensitivity(question, found, own, out);
}

Json toJson(const Question &question, const SearchAnswer &found,
            const std::vector<Priced> &plans) {
  Json all = Json::array();
  for (const Priced &priced : plans) {
    Json entry = {{"name", priced.name}};
    entry.update(pricedPlanJson(question.model.program, priced.plan,
                                priced.estimate, question.memoryLimit));
    all.push_back(std::move(entry));
  }
  Json changes = Json::array();
  size_t stage = 0;
  if (fullestStage(plans[0].estimate, stage) >= question.memoryLimit)
    for (const FitChange &change : fitChanges(question, plans[0].plan)) {
      Json entry = {{"change", change.what}};
      entry.update(pricedPlanJson(question.model.program, change.plan,
                                  change.estimate, question.memoryLimit));
      changes.push_back(std::move(entry));
    }
  Json lines = Json::array();
  if (!found.result.plans.empty())
    for (const Sensitivity &line :
         sensitivities(question, found, plans[0].plan))
      lines.push_back({{"number", line.knob},
                       {"change", line.change},
                       {"step_time_seconds", line.step.count()},
                       {"best_step_time_seconds",
                        line.best.estimate.stepTime.count()},
                       {"choice_turns", line.turns}});
  return {{"plans", all}, {"changes_that_fit", changes}, {"sensitivity", lines}};
}

ExitCode runExplain(ExplainOptions options, Streams streams) {
  Failure failure;
  Question question;
  Plan plan;
  if (options.question.gpus || options.question.globalBatch ||
      options.question.sequence || !options.question.dtype.empty()) {
    refuse(failure, Diag::conflicting_flags,
           options.planFile + ": the plan states GPUs, batch, sequence and "
                              "types; drop the flags that do");
    return report(failure, streams.err);
  }
  if (!loadPlan(options.planFile, options.model, plan, failure) ||
      !readQuestion(options.model, options.question, plan.sequence, question,
                    failure) ||
      !requireLegal(options.planFile, question.model.program, plan,
                    FailureKind::Input, failure,
                      options.question.asked(question.framework)))
    return report(failure, streams.err);
  warnOfCluster(options.planFile, plan, question.cluster, streams.err);
  options.question.gpus = plan.ranks();
  options.question.globalBatch = plan.globalBatch;
  options.search.top = 1;
  question.base.dtypes = plan.dtypes;

  SearchAnswer found;
  if (!answer(question, options.question, options.search, streams, found,
              failure))
    return report(failure, streams.err);
  const auto priced = [&](const std::string &name, const Plan &of) {
    return Priced{name, of,
                  estimate(question.model.program, question.cluster.hardware,
                           question.profile, of)};
  };
  std::vector<Priced> plans = {priced("the plan", plan)};
  if (!options.against.empty()) {
    Plan other;
    if (!loadPlan(options.against, options.model, other, failure) ||
        !requireLegal(options.against, question.model.program, other,
                      FailureKind::Input, failure,
                      options.question.asked(question.framework)))
      return report(failure, streams.err);
    if (other.ranks() != plan.ranks() || other.sequence != plan.sequence) {
      refuse(failure, Diag::flag_value,
             "--against " + options.against + ": expected a plan for " +
                 std::to_string(plan.ranks()) + " GPUs and sequences of " +
                 std::to_string(plan.sequence) +
                 "; `shardwright diff` compares others");
      return report(failure, streams.err);
    }
    plans.push_back(priced("the other", other));
  } else if (options.whyNot.empty() && !found.result.plans.empty()) {
    plans.push_back(priced("the best", found.result.plans[0].plan));
  }
  if (!options.whyNot.empty()) {
    SearchFlags narrowed = options.search;
    narrowed.fix.insert(narrowed.fix.end(), options.whyNot.begin(),
                        options.whyNot.end());
    SearchAnswer other;
    if (!answer(question, options.question, narrowed, streams, other, failure))
      return report(failure, streams.err);
    if (other.result.plans.empty()) {
      failure = whyNothing(question, other);
      return report(failure, streams.err);
    }
    plans.push_back(priced("the best of those", other.result.plans[0].plan));
  }
  if (options.json)
    streams.out << toJson(question, found, plans).dump(2) << "\n";
  else
    print(question, found, plans, streams.out);
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
                      "tp=4,pp=2 (repeatable)");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright explain examples/models/llama-3-70b plan.json --cluster "
      "dgx-h100 --why-not tp=4\n"
      "\n"
      "For a plan that does not fit it lists the least change of each kind "
      "that makes it fit,\nwith its price; then what 10 % of each number of "
      "the machine do to the plan, and whether\nanother layout is best then.");
  command->callback([=, &exitCode] {
    exitCode = runExplain(*options, streams);
  });
}

} // namespace shardwright::tools
