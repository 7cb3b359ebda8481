//===- CommandValidate.cpp - Predictions against published runs -----------===//

#include "compiler/Driver/Load.h"
#include "cost_model/Report.h"
#include "cost_model/Validation.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  int64_t worst = 0;
  double requireMean = 0; ///< percent; 0: nothing is required
  bool json = false;
};

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

void addGroup(Table &table, const ValidationGroup &group) {
  std::string fits = group.fitsKnown == 0
                         ? "-"
                         : std::to_string(group.fitsRight) + " of " +
                               std::to_string(group.fitsKnown);
  if (group.configurations == 0)
    table.add({group.name, std::to_string(group.rows),
               std::to_string(group.predicted), "0", "-", "-", "-", "-", fits});
  else
    table.add({group.name, std::to_string(group.rows),
               std::to_string(group.predicted),
               std::to_string(group.configurations),
               percentText(group.meanAbsolute),
               percentText(group.medianAbsolute),
               percentText(group.p90Absolute), percentText(group.medianSigned),
               fits});
}

void printReport(const ValidationReport &validation, int64_t worst,
                 std::ostream &out) {
  using Align = Table::Align;
  Table groups({"set", "rows", "predicted", "configurations", "mean |error|",
                "median", "p90", "bias", "fits right"});
  for (const ValidationGroup &group : validation.groups)
    addGroup(groups, group);
  addGroup(groups, validation.summary);
  out << groups.text();
  if (!validation.unsupported.empty()) {
    Table reasons({"rows", "not predicted because"},
                  {Align::Right, Align::Left});
    for (const auto &[reason, rows] : validation.unsupported)
      reasons.add({std::to_string(rows), reason});
    out << "\n" << reasons.text();
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
  out << "\nerror: predicted / measured - 1 of the step time; repeats of one "
         "configuration count once, by their median\n";
}

ExitCode runValidate(const ValidateOptions &options, Streams streams) {
  Failure failure;
  std::vector<ValidationRow> rows;
  for (const std::string &file : options.files) {
    std::string text;
    if (!readText(file, text, failure) ||
        !readValidationRows(text, file, rows, failure))
      return report(failure, streams.err);
  }
  if (rows.empty())
    return report({FailureKind::Input,
                   {options.files.front() +
                    ": expected one JSON object a line, but got no row"}},
                  streams.err);
  ValidationReport validation = validate(rows, programOfModel);
  if (options.json)
    streams.out << validationJson(validation) << "\n";
  else
    printReport(validation, options.worst, streams.out);
  const double mean = 100 * validation.summary.meanAbsolute;
  if (options.requireMean > 0 &&
      (validation.summary.configurations == 0 || mean > options.requireMean))
    return report({FailureKind::No,
                   {"expected a mean error of at most " +
                    percentText(options.requireMean / 100) + ", but got " +
                    (validation.summary.configurations == 0
                         ? "no predicted row"
                         : percentText(mean / 100))}},
                  streams.err);
  return ExitCode::Done;
}

} // namespace

void addValidate(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App *command = app.add_subcommand(
      "validate", "Hold predictions against published measurements");
  command
      ->add_option("files", options->files,
                   "JSON lines: one measured training run each")
      ->required();
  command
      ->add_option("--worst", options->worst,
                   "Also list this many rows, worst first")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  command
      ->add_option("--require-mean", options->requireMean,
                   "Exit 2 if the mean error of the step time exceeds this "
                   "many percent")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer("Example:\n"
                  "  shardwright validate test/validation/*.jsonl --worst 10");
  command->callback([=, &exitCode] {
    exitCode = runValidate(*options, streams);
  });
}

} // namespace shardwright::tools
