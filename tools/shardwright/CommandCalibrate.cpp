//===- CommandCalibrate.cpp - A cluster file from one's own measurements --===//

#include "cost_model/base/Format.h"
#include "cost_model/validation/Calibrate.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/PlanJson.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct CalibrateOptions {
  std::string like, name, output;
  std::vector<std::string> kernels, collectives;
  bool json = false;

  std::vector<std::string> inputs() const {
    std::vector<std::string> all = kernels;
    all.insert(all.end(), collectives.begin(), collectives.end());
    all.push_back(like);
    return all;
  }
};

bool readFiles(const std::vector<std::string> &paths,
               std::vector<MeasuredFile> &files, Failure &failure) {
  for (const std::string &path : paths) {
    MeasuredFile &file = files.emplace_back();
    file.name = std::filesystem::path(path).filename().string();
    if (!readText(path, file.text, failure))
      return false;
  }
  return true;
}

std::string figureText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string remarkOn(const CalibratedFigure &figure) {
  if (figure.tooFew)
    return "as it was: fewer than " + std::to_string(kLeastCalibrationRows) +
           " rows";
  if (figure.noBetter)
    return "as it was: moving it gains nothing";
  return figure.limited ? "at its limit" : "";
}

std::string tableOf(const Calibration &calibration) {
  using Align = Table::Align;
  Table table({"figure", "rows", "was", "is", "median |error| was", "is", ""},
              {Align::Left, Align::Right, Align::Right, Align::Right,
               Align::Right, Align::Right, Align::Left});
  for (const CalibratedFigure &figure : calibration.figures)
    table.add({figure.pointer, std::to_string(figure.rows),
               figureText(figure.was), figureText(figure.is),
               percentText(figure.errorWas), percentText(figure.errorIs),
               remarkOn(figure)});
  return table.text();
}

Json jsonOf(const Calibration &calibration) {
  Json figures = Json::array();
  for (const CalibratedFigure &figure : calibration.figures)
    figures.push_back({{"pointer", figure.pointer},
                       {"rows", figure.rows},
                       {"was", figure.was},
                       {"is", figure.is},
                       {"median_absolute_error_was", figure.errorWas},
                       {"median_absolute_error_is", figure.errorIs},
                       {"calibrated", !figure.tooFew && !figure.noBetter},
                       {"limited", figure.limited}});
  return {{"cluster", Json::parse(calibration.text)},
          {"figures", figures},
          {"other_rows", calibration.otherRows}};
}

ExitCode runCalibrate(const CalibrateOptions &options, Streams streams) {
  Failure failure;
  ClusterText like;
  CalibrationInput input;
  Calibration calibration;
  if (options.kernels.empty() && options.collectives.empty())
    refuse(failure, Diag::nothing_to_do,
           "expected rows to calibrate with: --kernels, --collectives or both");
  if (!failure.messages.empty() ||
      !checkOutputs({options.output}, options.inputs(), failure) ||
      !readClusterText(options.like, "--like", like, failure) ||
      !readFiles(options.kernels, input.kernels, failure) ||
      !readFiles(options.collectives, input.collectives, failure))
    return report(failure, streams.err);
  input.like = options.like;
  input.likeText = like.text;
  input.name = !options.name.empty() ? options.name
               : !options.output.empty()
                   ? std::filesystem::path(options.output).stem().string()
                   : std::filesystem::path(options.like).stem().string();
  if (!calibrate(input, calibration, failure))
    return report(failure, streams.err);
  if (options.json)
    streams.out << jsonOf(calibration).dump(2) << "\n";
  else
    streams.out << tableOf(calibration);
  for (const CalibratedFigure &figure : calibration.figures)
    if (figure.limited)
      warn(figure.pointer + " is at its limit, 1; its " +
               std::to_string(figure.rows) + " rows would have it at " +
               figureText(figure.wanted) +
               ": are they in the right unit, and --like of this device?",
           streams.err);
  if (calibration.otherRows > 0)
    note("rows of other devices, or of nothing that a figure decides: " +
             std::to_string(calibration.otherRows),
         streams.err);
  if (!options.output.empty()) {
    if (!writeText(options.output, calibration.text, failure))
      return report(failure, streams.err);
    note("wrote " + options.output, streams.err);
  }
  return ExitCode::Done;
}

} // namespace

void addCalibrate(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App *command = app.add_subcommand(
      "calibrate", "Write a cluster file whose rates are those of your own "
                   "measurements");
  command
      ->add_option("--like", options->like,
                   "Cluster file, or the name of a shipped one, to start from")
      ->required();
  command->add_option("--kernels", options->kernels,
                      "Measured products and attention, one JSON object a line");
  command->add_option("--collectives", options->collectives,
                      "Measured collectives, one JSON object a line");
  command->add_option("-o,--output", options->output, "Cluster file to write");
  command->add_option("--name", options->name,
                      "Name of the cluster (default: that of the file)");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright calibrate --like dgx-h100 --kernels ours.jsonl "
      "--collectives nccl.jsonl -o ours.json\n"
      "\n"
      "A row of --kernels is {\"gpu\": \"H100-SXM5-80GB\", \"kernel\": \"gemm\", "
      "\"dtype\": \"bf16\",\n\"shape\": {\"m\": 4096, \"n\": 4096, \"k\": 8192}, "
      "\"us\": 402}, one of --collectives {\"gpu\": ...,\n\"collective\": "
      "\"all_reduce\", \"gpus\": 16, \"nodes\": 2, \"bytes\": 268435456, "
      "\"time_us\": 1650} with\nnccl-tests' size column; "
      "cost_model/data/README.md has every field. `validate` with the\nsame "
      "files says how far the shipped clusters are off. What no row is of stays "
      "as --like\nhas it.");
  command->callback(
      [=, &exitCode] { exitCode = runCalibrate(*options, streams); });
}

} // namespace shardwright::tools
