//===- CommandValidate.cpp - Predictions against published runs -----------===//

#include "compiler/Driver/Load.h"
#include "cost_model/hardware/Constants.h"
#include "cost_model/search/Report.h"
#include "cost_model/validation/Measured.h"
#include "cost_model/validation/ValidationGoals.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/RankRuns.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <thread>

namespace shardwright::tools {

using namespace cost;

namespace {

struct ValidateOptions {
  std::vector<std::string> files, collectives, kernels;
  std::string by = "set";
  int64_t worst = 0;
  double requireMean = 0; ///< percent; 0: nothing is required
  bool constants = false, rank = false, json = false;
};

const std::map<std::string, ValidationBy> kGroupings = {
    {"set", ValidationBy::Set},
    {"gpu", ValidationBy::Gpu},
    {"kind", ValidationBy::Kind},
    {"precision", ValidationBy::Precision},
    {"framework", ValidationBy::Framework}};

std::string groupingNames() {
  return wordsOf(kGroupings, [](const auto &one) { return one.first; });
}

bool programOfModel(const ValidationModel &model, Program &program,
                    Failure &failure) {
  ModelShape shape;
  shape.name = model.name;
  shape.layers = model.layers;
  shape.hidden = model.hidden;
  shape.ffn = model.ffn;
  shape.heads = model.heads;
  shape.kvHeads = model.kvHeads;
  shape.headDim = model.headDim;
  shape.vocab = model.vocab;
  shape.sequence = model.sequence;
  shape.gated = model.gated;
  shape.tied = model.tied;
  shape.experts = model.experts;
  shape.topK = model.topK;
  shape.expertFfn = model.expertFfn;
  shape.sharedFfn = model.sharedFfn;
  shape.denseLayers = model.denseLayers;
  if (model.latent)
    shape.latent = {model.kvRank, model.qRank, model.nopeDim, model.ropeDim,
                    model.valueDim};
  shape.mtpLayers = model.mtpLayers;
  return programFromSpec(specFromShape(shape), model.sequence, program,
                         failure);
}

std::string optionalSeconds(const std::optional<double> &value) {
  return value ? secondsText(Seconds(*value)) : "-";
}
std::string optionalGib(const std::optional<double> &value) {
  return value ? bytesText(Bytes(static_cast<int64_t>(*value * (1LL << 30))))
               : "-";
}

std::string optionalPercent(const std::optional<double> &value) {
  return value ? percentText(*value) : "-";
}

void addErrors(Table &table, const std::string &name, int64_t rows,
               int64_t predicted, const ErrorStatistics &errors) {
  std::vector<std::string> cells = {name, std::to_string(rows),
                                    std::to_string(predicted),
                                    std::to_string(errors.configurations)};
  for (double value : {errors.mean, errors.median, errors.p90, errors.maximum,
                       errors.signedMedian})
    cells.push_back(errors.configurations == 0 ? "-" : percentText(value));
  table.add(std::move(cells));
}

using GroupErrors = ErrorStatistics ValidationGroup::*;

void printErrors(const ValidationReport &validation, const char *what,
                 GroupErrors errors, std::ostream &out) {
  if ((validation.summary.*errors).configurations == 0)
    return;
  Table table({what, "rows", "predicted", "configurations", "mean |error|",
               "median", "p90", "max", "bias"});
  for (const ValidationGroup &group : validation.groups)
    if (errors == &ValidationGroup::time || (group.*errors).configurations > 0)
      addErrors(table, group.name, group.rows, group.predicted, group.*errors);
  addErrors(table, "all", validation.summary.rows, validation.summary.predicted,
            validation.summary.*errors);
  out << table.text() << "\n";
}

/// Which rows run out of memory, and in which order layouts are.
void printDecisions(const ValidationReport &validation, std::ostream &out) {
  std::vector<const ValidationGroup *> groups;
  for (const ValidationGroup &group : validation.groups)
    groups.push_back(&group);
  groups.push_back(&validation.summary);
  Table fits({"fits", "ran", "said to fit", "out of memory", "said not to fit",
              "balanced accuracy", "false fits"});
  Table layouts({"layouts", "problems", "Spearman", "regret", "worst regret"});
  for (const ValidationGroup *group : groups) {
    if (group->outOfMemory > 0)
      fits.add({group->name, std::to_string(group->fitting),
                std::to_string(group->fittingRight),
                std::to_string(group->outOfMemory),
                std::to_string(group->outOfMemoryRight),
                optionalPercent(group->balancedAccuracy()),
                optionalPercent(group->falseFits())});
    if (group->problems > 0)
      layouts.add({group->name, std::to_string(group->problems),
                   percentText(group->medianSpearman),
                   percentText(group->medianRegret),
                   percentText(group->maximumRegret)});
  }
  if (validation.summary.outOfMemory > 0)
    out << fits.text() << "\n";
  if (validation.summary.problems > 0)
    out << layouts.text() << "\n";
}

/// What is wanted and what is reached, a line a figure.
void printGoals(const std::vector<Goal> &goals, std::ostream &out) {
  if (goals.empty())
    return;
  using Align = Table::Align;
  Table table({"goal", "of", "figure", "reached", "must", "aim", ""},
              {Align::Left, Align::Right, Align::Left, Align::Right,
               Align::Right, Align::Right, Align::Left});
  for (const Goal &goal : goals)
    for (const GoalFigure &figure : goal.figures)
      table.add({goal.name, std::to_string(goal.count), figure.name,
                 percentText(figure.reached), percentText(figure.must),
                 percentText(figure.aim),
                 figure.meetsAim()    ? "aim"
                 : figure.meetsMust() ? "met"
                                      : "missed"});
  out << "\n" << table.text();
}

void printReport(const ValidationReport &validation, int64_t worst,
                 std::ostream &out) {
  using Align = Table::Align;
  printErrors(validation, "step time", &ValidationGroup::time, out);
  printErrors(validation, "memory", &ValidationGroup::memory, out);
  printDecisions(validation, out);
  if (validation.sources > 1)
    out << "one vote a set: median of medians "
        << percentText(validation.medianOfMedians) << ", worst "
        << percentText(validation.worstMedian) << "\n";
  if (!validation.unsupported.empty()) {
    Table reasons({"rows", "not predicted because"},
                  {Align::Right, Align::Left});
    for (const auto &[reason, rows] : validation.unsupported)
      reasons.add({std::to_string(rows), reason});
    out << "\n" << reasons.text();
  }
  if (!validation.standIns.empty()) {
    Table standIns({"rows", "no profile of their framework, extrapolated with "
                            "another's"},
                   {Align::Right, Align::Left});
    for (const auto &[which, rows] : validation.standIns)
      standIns.add({std::to_string(rows), which});
    out << "\n" << standIns.text();
  }
  if (worst > 0) {
    std::vector<const ValidationOutcome *> rows;
    for (const ValidationOutcome &row : validation.rows)
      if (row.error())
        rows.push_back(&row);
    std::stable_sort(rows.begin(), rows.end(), [](auto *a, auto *b) {
      return std::abs(*a->error()) > std::abs(*b->error());
    });
    Table table({"id", "measured", "predicted", "error", "measured memory",
                 "predicted memory", "profile"},
                {Align::Left, Align::Right, Align::Right, Align::Right,
                 Align::Right, Align::Right, Align::Left});
    for (size_t i = 0; i < rows.size() && static_cast<int64_t>(i) < worst; ++i)
      table.add({rows[i]->id, optionalSeconds(rows[i]->measuredSeconds),
                 optionalSeconds(rows[i]->predictedSeconds),
                 percentText(*rows[i]->error()),
                 optionalGib(rows[i]->measuredGib),
                 optionalGib(rows[i]->predictedGib), rows[i]->profile});
    out << "\n" << table.text();
  }
  printGoals(runGoals(validation.rows), out);
  out << "\nerror: predicted / measured - 1; repeats of one configuration "
         "count "
         "once, by their median\n";
}

/// Every figure that was fitted, with how and on what.
void printConstants(std::ostream &out) {
  Table table({"constant", "value", "from"},
              {Table::Align::Left, Table::Align::Right, Table::Align::Left});
  for (const FittedConstant &constant : fittedConstants())
    table.add({constant.name, constant.value, constant.source});
  out << table.text();
}

void printMeasured(const MeasuredReport &measured,
                   const std::vector<Goal> &goals, std::ostream &out) {
  Table table({"measured", "rows", "predicted", "compared", "mean |error|",
               "median", "p90", "max", "bias"});
  for (const auto &[name, errors] : measured.groups)
    addErrors(table, name, errors.configurations, errors.configurations,
              errors);
  addErrors(table, "all", static_cast<int64_t>(measured.rows.size()),
            measured.summary.configurations, measured.summary);
  out << table.text();
  printGoals(goals, out);
  if (measured.unsupported.empty())
    return;
  Table reasons({"rows", "not compared because"},
                {Table::Align::Right, Table::Align::Left});
  for (const auto &[reason, rows] : measured.unsupported)
    reasons.add({std::to_string(rows), reason});
  out << "\n" << reasons.text();
}

using Goals = std::vector<Goal> (*)(const MeasuredReport &);
using Compare = bool (*)(std::string_view, std::string_view, MeasuredReport &,
                         Failure &, const Hardware *);

/// Whether all files could be read.
bool compareFiles(const std::vector<std::string> &files, Compare compare,
                  Goals goals, bool json, Streams streams, Failure &failure) {
  if (files.empty())
    return true;
  MeasuredReport measured;
  for (const std::string &file : files) {
    std::string text;
    if (!readText(file, text, failure) ||
        !compare(text, file, measured, failure, /*own=*/nullptr))
      return false;
  }
  if (json)
    streams.out << measuredJson(measured) << "\n";
  else
    printMeasured(measured, goals(measured), streams.out);
  return true;
}

ExitCode runValidate(const ValidateOptions &options, Streams streams) {
  Failure failure;
  auto refused = [&](Diag id, std::string message) {
    refuse(failure, id, std::move(message));
    return report(failure, streams.err);
  };
  const auto grouping = kGroupings.find(options.by);
  if (grouping == kGroupings.end())
    return refused(Diag::flag_value,
                   "--by " + options.by +
                       ": expected " + groupingNames());
  if (options.constants)
    printConstants(streams.out);
  if (!compareFiles(options.collectives, compareCollectives, collectiveGoals,
                    options.json, streams, failure) ||
      !compareFiles(options.kernels, compareKernels, kernelGoals, options.json,
                    streams, failure))
    return report(failure, streams.err);
  if (options.files.empty()) {
    if (options.constants || !options.collectives.empty() ||
        !options.kernels.empty())
      return ExitCode::Done;
    return refused(Diag::nothing_to_do,
                   "expected a file of measured runs, --collectives, "
                   "--kernels or --constants, but got none of them");
  }
  std::vector<ValidationRow> rows;
  int64_t repeats = 0;
  for (const std::string &file : options.files) {
    std::string text;
    if (!readText(file, text, failure) ||
        !readValidationRows(text, file, rows, failure, &repeats))
      return report(failure, streams.err);
  }
  if (repeats > 0)
    note(std::to_string(repeats) +
             (repeats == 1 ? " row is" : " rows are") +
             " given again, with the id and all figures of another, and left "
             "out",
         streams.err);
  if (rows.empty())
    return refused(Diag::no_rows,
                   options.files.front() +
                       ": expected one JSON object a line, but got no row");
  if (options.rank) {
    const std::vector<RankedRun> runs = rankRuns(
        rows, programOfModel,
        std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
    if (options.json)
      streams.out << ranksJson(runs).dump(2) << "\n";
    else
      printRanks(runs, streams.out);
    return ExitCode::Done;
  }
  ValidationReport validation = validate(rows, programOfModel, grouping->second);
  if (options.json)
    streams.out << validationJson(validation) << "\n";
  else
    printReport(validation, options.worst, streams.out);
  const double mean = 100 * validation.summary.time.mean;
  // A check of nothing is no check that passed.
  if (validation.summary.predicted == 0)
    return refused(Diag::nothing_predicted,
                   "expected a row that can be predicted, but got none among " +
                       std::to_string(rows.size()));
  if (options.requireMean > 0 && (validation.summary.time.configurations == 0 ||
                                  !(mean <= options.requireMean)))
    return refused(Diag::mean_error,
                   "expected a mean error of at most " +
                       percentText(options.requireMean / 100) + ", but got " +
                       (validation.summary.time.configurations == 0
                            ? "no measured step time"
                            : percentText(mean / 100)));
  return ExitCode::Done;
}

} // namespace

void addValidate(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App *command = app.add_subcommand(
      "validate", "Hold predictions against published measurements");
  command->add_option("files", options->files,
                      "JSON lines: one measured training run each");
  command
      ->add_option("--collectives", options->collectives,
                   "JSON lines: one measured collective each")
      ->take_all();
  command
      ->add_option("--kernels", options->kernels,
                   "JSON lines: one measured kernel each")
      ->take_all();
  command->add_flag("--constants", options->constants,
                    "List every fitted constant, how and on what");
  command
      ->add_option("--by", options->by,
                   "Group by " + groupingNames())
      ->capture_default_str();
  command
      ->add_option("--worst", options->worst,
                   "Also list this many rows, worst first")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  command
      ->add_option("--require-mean", options->requireMean,
                   "Exit 2 if the mean error of the step time exceeds this "
                   "many percent")
      ->check(CLI::PositiveNumber);
  command->add_flag("--rank", options->rank,
                    "Say instead where each published layout stands among all "
                    "plans that its framework could have run");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright validate test/validation/*.jsonl --worst 10\n"
      "  shardwright validate test/validation/korthikanti_2022.jsonl --rank\n"
      "\n"
      "A row that is given twice is left out once, and a note says so; an id that "
      "names two\n"
      "different rows is an error. Repeated runs of one configuration count as "
      "one, by their median.");
  command->callback(
      [=, &exitCode] { exitCode = runValidate(*options, streams); });
}

} // namespace shardwright::tools
