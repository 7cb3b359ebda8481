//===- FuzzValidation.cpp - Published runs, kernels and collectives -------===//
#include "cost_model/hardware/Hardware.h"
#include "cost_model/validation/Calibrate.h"
#include "cost_model/validation/Measured.h"
#include "cost_model/validation/Validation.h"
#include "test/fuzz/FuzzCost.h"

using namespace shardwright;
using namespace shardwright::fuzz;

namespace {

void checkRows(std::string_view text) {
  static const cost::Program program = smallProgram();
  std::vector<cost::ValidationRow> rows;
  cost::Failure failure;
  if (!cost::readValidationRows(text, "runs.jsonl", rows, failure))
    return requireRefusal(failure);
  for (const cost::ValidationRow &row : rows) {
    if (!cost::unsupportedReason(row).empty())
      continue;
    cost::ValidationCase found;
    if (cost::validationCase(row, program, found).empty() &&
        isLegal(program, found.plan))
      requireSane(
          cost::estimate(program, found.hardware, found.profile, found.plan));
  }
}

void checkMeasured(std::string_view text,
                   bool (&compare)(std::string_view, std::string_view,
                                   cost::MeasuredReport &, cost::Failure &,
                                   const cost::Hardware *)) {
  cost::MeasuredReport report;
  cost::Failure failure;
  if (!compare(text, "measured.json", report, failure, /*own=*/nullptr))
    return requireRefusal(failure);
  require(!cost::measuredJson(report).empty(), "a report has a text");
}

void checkCalibration(std::string_view text) {
  cost::CalibrationInput input;
  input.name = "ours";
  input.like = "dgx-h100";
  input.likeText = cost::shippedHardware(input.like);
  input.kernels = {{"kernels.jsonl", std::string(text)}};
  cost::Calibration calibration;
  cost::Failure failure;
  if (!cost::calibrate(input, calibration, failure))
    return requireRefusal(failure);
  cost::Hardware written;
  require(cost::readHardware(calibration.text, "ours", written, failure),
          "a calibrated cluster is one");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = textOf(data, size);
  checkRows(text);
  checkMeasured(text, cost::compareCollectives);
  checkMeasured(text, cost::compareKernels);
  checkCalibration(text);
  return 0;
}
