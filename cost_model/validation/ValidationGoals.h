//===- ValidationGoals.h - Which accuracy is wanted and reached -*- C++ -*-===//
//
// The questions that a cost model has to answer, each with the errors that must
// not be exceeded and those to aim for. Figures are shares (0.06 is 6 %).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATIONGOALS_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATIONGOALS_H

#include "cost_model/validation/Measured.h"
#include "cost_model/validation/Validation.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// One figure of a goal: "median", "p90", ...
struct GoalFigure {
  std::string name;
  double reached = 0, must = 0, aim = 0;
  /// Largest value allowed, where both ends count; 0: `must` is the only limit.
  double mustAtMost = 0;
  bool higherIsBetter = false;

  bool meetsMust() const {
    if (mustAtMost > 0 && reached > mustAtMost)
      return false;
    return higherIsBetter ? reached >= must : reached <= must;
  }
  bool meetsAim() const {
    return meetsMust() && (higherIsBetter ? reached >= aim : reached <= aim);
  }
};

struct Goal {
  std::string name;
  int64_t count = 0; ///< configurations, rows or sources behind the figures
  std::vector<GoalFigure> figures;
};

/// Goals that training runs answer; those without a row are left out. Rows that
/// are no headline are not counted, and a configuration counts once.
std::vector<Goal> runGoals(const std::vector<ValidationOutcome> &rows);

/// The same of measured collectives and of kernels.
std::vector<Goal> collectiveGoals(const MeasuredReport &report);
std::vector<Goal> kernelGoals(const MeasuredReport &report);

/// Share of configurations of left-out sources whose measurement lies inside
/// the 80 % interval that the other sources of its class (dense in 16 bits,
/// dense in fewer, experts) give; every source has one vote. Rows with another
/// framework's profile are no evidence, and have the interval that intervalOf
/// gives them. `sources` counts the sources; 0 if no class has two.
double leftOutCoverage(const std::vector<ValidationOutcome> &rows,
                       int64_t &sources);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_VALIDATIONGOALS_H
