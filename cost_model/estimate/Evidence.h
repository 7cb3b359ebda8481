//===- Evidence.h - How sure a prediction is --------------------*- C++ -*-===//
//
// Intervals come from the errors that published runs show, and say nothing
// about the run at hand. A cell is what the evidence is sorted by: hardware,
// framework and family of model.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCE_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCE_H

#include "cost_model/Units.h"

#include <string_view>

namespace shardwright::cost {

enum class RunFamily {
  Dense16, ///< dense, products of 16 bits
  Dense8,  ///< dense, of 8 bits or fewer
  Experts
};
std::string_view name(RunFamily family);
/// `narrow`: products of layers run in 8 bits or fewer.
RunFamily familyOf(bool experts, bool narrow);

/// Of an interval where no run is evidence, as a multiple of the family's.
inline constexpr double kExtrapolatedWidth = 2;

/// Where 80 % of measured step times lie.
struct TimeInterval {
  Seconds low, high;
  /// No published run of this cluster, profile and family was compared: the
  /// interval is that of the family, kExtrapolatedWidth times as wide.
  bool extrapolating = false;
};

/// Whether runs of this cell are in the evidence.
bool hasEvidence(std::string_view cluster, std::string_view profile,
                 RunFamily family);

int64_t evidenceCells(); ///< how many cells have evidence

/// Interval of a prediction. Errors of the family's configurations, one vote a
/// source, from their 10th to their 90th percentile.
TimeInterval intervalOf(Seconds predicted, std::string_view cluster,
                        std::string_view profile, RunFamily family);

/// Which of two plans is faster is surer than how fast either is: plans of one
/// model, cluster and batch share most of an error. Of pairs of published
/// layouts whose predicted times differ by up to half, 80 % were measured within
/// this factor of the predicted ratio (one vote a source). So plans whose times
/// differ by less are tied: their order may be the other way round. Without
/// evidence for the cell it is the square.
double tiedWithin(std::string_view cluster, std::string_view profile,
                  RunFamily family);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCE_H
