//===- FuzzValidation.cpp - Published runs, kernels and collectives -------===//
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
                                   cost::MeasuredReport &, cost::Failure &)) {
  cost::MeasuredReport report;
  cost::Failure failure;
  if (!compare(text, "measured.json", report, failure))
    return requireRefusal(failure);
  require(!cost::measuredJson(report).empty(), "a report has a text");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text = textOf(data, size);
  checkRows(text);
  checkMeasured(text, cost::compareCollectives);
  checkMeasured(text, cost::compareKernels);
  return 0;
}
