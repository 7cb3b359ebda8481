//===- Calibrate.h - A machine's figures from its own runs ------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_CALIBRATE_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_CALIBRATE_H

#include "cost_model/base/Failure.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// Rows as compareKernels and compareCollectives read them.
struct MeasuredFile {
  std::string name, text;
};

struct CalibrationInput {
  std::string name;      ///< of the cluster to write
  std::string like;      ///< the cluster that is calibrated, as messages name it
  std::string likeText;  ///< its file
  std::vector<MeasuredFile> kernels, collectives;
};

/// Fewer rows than this say nothing of a figure.
inline constexpr int64_t kLeastCalibrationRows = 5;

struct CalibratedFigure {
  std::string pointer; ///< into the cluster file
  int64_t rows = 0;    ///< that MeasuredOutcome::figure names it of
  double was = 0, is = 0;
  double errorWas = 0, errorIs = 0; ///< median |error| of these rows
  bool tooFew = false;  ///< rows; the figure stays
  bool noBetter = false; ///< moved; so it stays
  bool limited = false; ///< is 1, and would be `wanted`
  double wanted = 0;    ///< what the rows alone would make of it
};

struct Calibration {
  std::string text; ///< shardwright.cluster/1
  std::vector<CalibratedFigure> figures;
  int64_t otherRows = 0; ///< of other devices, or that no figure decides
};

/// Moves every figure that enough rows of the cluster's device are of until the
/// median of their errors is 0, and writes in the file which rows that were. A
/// figure whose rows' median |error| that does not lower stays, as all the rest
/// does. Refuses where no figure has enough rows.
bool calibrate(const CalibrationInput &input, Calibration &result,
               Failure &failure);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_CALIBRATE_H
