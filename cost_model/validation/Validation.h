//===- Validation.h - Predictions against published runs --------*- C++ -*-===//
//
// Rows of JSON lines, one measured training run each, become (model, plan,
// cluster, profile) and are predicted. Nothing of a row's result is read before
// the prediction is made: cluster and profile follow from what ran where.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATION_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATION_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/estimate/Evidence.h"

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
  double gpuMemoryGb = 0; ///< as the card is sold; 0: that of its kind
  int64_t tp = 1, pp = 1, cp = 1, dp = 1, ep = 1, etp = 1, chunks = 1;
  int64_t zeroGroup = 0;
  bool sp = false, fsdp = false, layoutKnown = true, headline = true;
  int zero = 0;
  int64_t globalBatch = 0, microBatch = 0;
  std::string precision, recompute, attentionKernel, framework, dispatcher;
  std::string memoryKind, cudaGraph, fp8Recipe, recomputeText;
  std::string routing; ///< balanced: forced; natural; empty: not stated
  int64_t softwareYear = 0;
  std::optional<bool> tensorOverlap, dataOverlap, transferOverlap,
      exchangeOverlap;
  std::optional<bool> bf16Gradients;
  std::optional<double> stepSeconds, memoryGib;
  bool outOfMemory = false;
  bool peer = false; ///< another simulator predicted it too
  bool operator==(const ValidationRow &) const = default;
};

/// Reads JSON lines, behind `rows` that were read before. Blank lines are
/// skipped; unknown, missing and duplicate keys are errors. A row that was read
/// before, id and all figures, is left out and counted in `repeats`; with other
/// figures it is another measurement.
bool readValidationRows(std::string_view text, std::string_view file,
                        std::vector<ValidationRow> &rows, Failure &failure,
                        int64_t *repeats = nullptr);

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
  std::string id, set, grade;
  std::string gpu, kind, precision, framework; ///< kind: dense or experts
  std::string problem;     ///< equal for layouts of one model on one cluster
  std::string memoryKind;  ///< how the source took memory; empty: not stated
  std::string unsupported; ///< empty if predicted
  std::string cluster, profile;
  bool standIn = false; ///< the profile is another framework's
  std::string configuration; ///< equal for repeats of one configuration
  bool headline = true, peer = false;
  std::optional<double> measuredSeconds, predictedSeconds;
  std::optional<double> measuredGib, predictedGib;
  bool measuredFits = true;
  std::optional<bool> predictedFits;
  StageEstimate fullest; ///< memory of the stage that holds most
  RunFamily family = RunFamily::Dense16; ///< set where predicted or not
  std::vector<Term> terms;
  std::optional<TimeInterval> interval; ///< where 80 % of measurements lie

  /// predicted / measured - 1, of the step time.
  std::optional<double> error() const;
  /// The same of memory.
  std::optional<double> memoryError() const;
};

/// Errors, one per configuration (the median of its repeats), as shares of the
/// measurement: mean, median, 90th percentile and maximum of their absolute
/// values, and the median with its sign.
struct ErrorStatistics {
  int64_t configurations = 0;
  double mean = 0, median = 0, p90 = 0, maximum = 0, signedMedian = 0;
};

ErrorStatistics statisticsOf(std::vector<double> errors);
/// Linear between the values; there is one at least.
double quantile(std::vector<double> values, double share);

/// What a group of rows says; rows that are no headline are not counted.
struct ValidationGroup {
  std::string name;
  int64_t rows = 0, predicted = 0;
  ErrorStatistics time, memory; ///< step time; memory of a stated kind
  /// Predicted rows that ran and that ran out of memory; those of each that the
  /// prediction tells right.
  int64_t fitting = 0, fittingRight = 0, outOfMemory = 0, outOfMemoryRight = 0;
  /// Mean of both shares; share of the second that the prediction says fits.
  std::optional<double> balancedAccuracy() const, falseFits() const;
  /// Over problems (one model on one cluster) with four layouts or more: rank
  /// correlation of predicted and measured times, and how much slower than the
  /// best the layout is that the prediction would choose.
  int64_t problems = 0;
  double medianSpearman = 0, medianRegret = 0, maximumRegret = 0;
};

ValidationGroup groupOf(std::string name,
                        const std::vector<const ValidationOutcome *> &rows);

enum class ValidationBy { Set, Gpu, Kind, Precision, Framework };

struct ValidationReport {
  std::vector<ValidationOutcome> rows;
  std::vector<ValidationGroup> groups; ///< alphabetical
  ValidationGroup summary;             ///< of all
  /// One vote a set: median and maximum of the sets' median errors of time.
  int64_t sources = 0;
  double medianOfMedians = 0, worstMedian = 0;
  std::map<std::string, int64_t> unsupported; ///< reason -> rows
  std::map<std::string, int64_t> standIns; ///< "maxtext by fsdp" -> rows
};

/// Builds the program of a row's model.
using ProgramSource =
    std::function<bool(const ValidationModel &, Program &, Failure &)>;

ValidationReport validate(const std::vector<ValidationRow> &rows,
                          const ProgramSource &programOf,
                          ValidationBy by = ValidationBy::Set);

/// Fills groups, summary and votes from the rows.
void groupOutcomes(ValidationReport &report, ValidationBy by);

/// The report as JSON: `rows`, `groups`, `summary`, `unsupported`.
std::string validationJson(const ValidationReport &report);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATION_H
