//===- Validation.h - Predictions against published runs --------*- C++ -*-===//
//
// Rows of JSON lines, one measured training run each, become (model, plan,
// cluster, profile) and are predicted. Nothing of a row's result is read before
// the prediction is made: cluster and profile follow from what ran where.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_H

#include "cost_model/Estimate.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Sizes of the model that a row states.
struct ValidationModel {
  std::string name, family, activation;
  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t vocab = 0, sequence = 0;
  bool gated = false, tied = false;
  int64_t experts = 0; ///< > 0: mixture of experts
  int64_t topK = 0, expertFfn = 0;
  int64_t sharedFfn = 0;   ///< of all shared experts together
  int64_t denseLayers = 0; ///< first layers without experts
  bool latent = false;     ///< multi-head latent attention
  int64_t qRank = 0, kvRank = 0, nopeDim = 0, ropeDim = 0, valueDim = 0;
  int64_t mtpLayers = 0; ///< multi-token prediction
  auto operator<=>(const ValidationModel &) const = default;
};

struct ValidationRow {
  std::string id, set, grade, source;
  ValidationModel model;
  std::string gpu, interconnect;
  int64_t gpus = 0, gpusPerNode = 0;
  int64_t tp = 1, pp = 1, cp = 1, dp = 1, ep = 1, etp = 1, chunks = 1;
  int64_t zeroGroup = 0;
  bool sp = false, fsdp = false, layoutKnown = true, headline = true;
  int zero = 0;
  int64_t globalBatch = 0, microBatch = 0;
  std::string precision, recompute, attentionKernel, framework;
  int64_t softwareYear = 0;
  std::optional<bool> tensorOverlap, dataOverlap, transferOverlap;
  std::optional<bool> bf16Gradients;
  std::optional<double> stepSeconds, memoryGib;
  bool outOfMemory = false;
};

/// Reads JSON lines. Blank lines are skipped; unknown, missing and duplicate
/// keys are errors.
bool readValidationRows(std::string_view text, std::string_view file,
                        std::vector<ValidationRow> &rows, Failure &failure);

/// What a row is predicted with, or why it is not.
struct ValidationCase {
  Hardware hardware;
  Profile profile;
  Plan plan;
};
/// Returns an empty string, or what the row needs that is not modelled.
std::string validationCase(const ValidationRow &row, const Program &program,
                           ValidationCase &result);
/// The part of it that needs no program; asked first.
std::string unsupportedReason(const ValidationRow &row);

struct ValidationOutcome {
  std::string id, set;
  std::string unsupported; ///< empty if predicted
  std::string cluster, profile;
  std::string configuration; ///< equal for repeats of one configuration
  bool headline = true;
  std::optional<double> measuredSeconds, predictedSeconds;
  std::optional<double> measuredGib, predictedGib;
  bool measuredFits = true;
  std::optional<bool> predictedFits;
  std::vector<Term> terms;

  /// predicted / measured - 1, of the step time.
  std::optional<double> error() const;
};

/// Errors of step times, one per configuration (the median of its repeats).
struct ValidationGroup {
  std::string name;
  int64_t rows = 0, predicted = 0, configurations = 0;
  double meanAbsolute = 0, medianAbsolute = 0, p90Absolute = 0,
         medianSigned = 0;
  int64_t fitsKnown = 0, fitsRight = 0; ///< of predicted rows
};

struct ValidationReport {
  std::vector<ValidationOutcome> rows;
  std::vector<ValidationGroup> groups;        ///< by set, alphabetical
  ValidationGroup summary;                    ///< of headline rows
  std::map<std::string, int64_t> unsupported; ///< reason -> rows
};

/// Builds the program of a row's model.
using ProgramSource =
    std::function<bool(const ValidationModel &, Program &, Failure &)>;

ValidationReport validate(const std::vector<ValidationRow> &rows,
                          const ProgramSource &programOf);

/// The report as JSON: `rows`, `groups`, `summary`, `unsupported`.
std::string validationJson(const ValidationReport &report);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_H
