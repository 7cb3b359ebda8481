//===- CalibrateJson.cpp - A machine's figures from its own runs ----------===//
#include "cost_model/validation/Calibrate.h"
#include "cost_model/base/Format.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/validation/Measured.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace shardwright::cost {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostRounds = 60;
constexpr double kClose = 1e-4; ///< of the median log ratio

/// Four digits: more would say more than rows do.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return std::strtod(text, nullptr);
}

class Calibrator {
public:
  Calibrator(const CalibrationInput &input, Calibration &result,
             Failure &failure)
      : input(input), result(result), failure(failure) {}

  bool run() {
    Hardware like;
    if (!readHardware(input.likeText, input.like, like, failure))
      return false;
    json = Json::parse(input.likeText);
    if (!measure())
      return false;
    for (const auto &[pointer, errors] : ratios) {
      CalibratedFigure figure;
      figure.pointer = pointer;
      figure.rows = static_cast<int64_t>(errors.size());
      figure.tooFew = figure.rows < kLeastCalibrationRows;
      figure.was = figure.is = json.at(Json::json_pointer(pointer));
      figure.errorWas = figure.errorIs = medianError(errors);
      result.figures.push_back(figure);
    }
    if (std::all_of(result.figures.begin(), result.figures.end(),
                    [](const CalibratedFigure &one) { return one.tooFew; }))
      return refuse(failure, Diag::nothing_to_calibrate, whatIsMissing(like));
    // Once more without those that gained nothing: others may rest on them.
    return fit() && (!dropWhatGainsNothing() || fit()) && write();
  }

private:
  /// Predicts every row with the figures as they stand.
  bool measure() {
    Hardware hardware;
    if (!readHardware(json.dump(), input.like, hardware, failure))
      return false;
    MeasuredReport report;
    for (const MeasuredFile &file : input.kernels)
      if (!compareKernels(file.text, file.name, report, failure, &hardware))
        return false;
    for (const MeasuredFile &file : input.collectives)
      if (!compareCollectives(file.text, file.name, report, failure,
                              &hardware))
        return false;
    ratios.clear();
    result.otherRows = 0;
    for (const MeasuredOutcome &row : report.rows) {
      if (!row.unsupported.empty() || row.figure.empty() ||
          row.measuredSeconds <= 0 || row.predictedSeconds <= 0)
        ++result.otherRows;
      else
        ratios[row.figure].push_back(
            std::log(row.predictedSeconds / row.measuredSeconds));
    }
    return true;
  }

  /// All figures move at once: some rows depend on two of them.
  bool fit() {
    for (int round = 0; round < kMostRounds; ++round) {
      double farthest = 0;
      for (CalibratedFigure &figure : result.figures) {
        if (stays(figure))
          continue;
        const double late = quantile(ratios[figure.pointer], 0.5);
        const double wanted = figure.is * std::exp(late);
        figure.wanted = wanted;
        figure.limited = wanted > 1 && isFraction(figure);
        const double next = figure.limited ? 1 : wanted;
        farthest = std::max(farthest, std::fabs(std::log(next / figure.is)));
        figure.is = next;
        json[Json::json_pointer(figure.pointer)] = next;
      }
      if (!measure())
        return false;
      if (farthest < kClose)
        break;
    }
    return true;
  }

  /// Whether there was any.
  bool dropWhatGainsNothing() {
    bool any = false;
    for (CalibratedFigure &figure : result.figures) {
      if (stays(figure) ||
          medianError(ratios[figure.pointer]) < figure.errorWas)
        continue;
      figure.noBetter = any = true;
      figure.limited = false;
      figure.is = figure.was;
      json[Json::json_pointer(figure.pointer)] = figure.was;
    }
    return any;
  }
  static bool stays(const CalibratedFigure &figure) {
    return figure.tooFew || figure.noBetter;
  }

  bool write() {
    for (CalibratedFigure &figure : result.figures) {
      if (stays(figure))
        continue;
      const Json::json_pointer pointer(figure.pointer);
      figure.is = rounded(figure.is);
      figure.errorIs = medianError(ratios[figure.pointer]);
      json[pointer] = figure.is;
      Json &group = json[pointer.parent_pointer()];
      group["source"] = pointer.back() + ": calibrated with " +
                        std::to_string(figure.rows) + " rows of " +
                        filesOf(figure) + ", median |error| " +
                        percentText(figure.errorWas) + " before and " +
                        percentText(figure.errorIs) + " after; else " +
                        group["source"].get<std::string>();
    }
    json["name"] = input.name;
    json["description"] =
        json["description"].get<std::string>() + ", calibrated";
    // Names of files are bytes, JSON is not.
    result.text =
        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    Hardware written;
    return readHardware(result.text, input.name, written, failure);
  }

  static double medianError(std::vector<double> logRatios) {
    for (double &ratio : logRatios)
      ratio = std::fabs(std::exp(ratio) - 1);
    return quantile(std::move(logRatios), 0.5);
  }
  static bool isFraction(const CalibratedFigure &figure) {
    return figure.pointer.find("fraction") != std::string::npos;
  }
  std::string filesOf(const CalibratedFigure &figure) const {
    std::string names;
    for (const MeasuredFile &file :
         figure.pointer.rfind("/collectives", 0) == 0 ? input.collectives
                                                       : input.kernels)
      names += (names.empty() ? "" : ", ") + file.name;
    return names;
  }
  std::string whatIsMissing(const Hardware &like) const {
    std::string text = "no figure of '" + input.like + "' has " +
                       std::to_string(kLeastCalibrationRows) +
                       " rows of its device, " + like.device.name;
    for (const CalibratedFigure &figure : result.figures)
      text += "; " + figure.pointer + " has " + std::to_string(figure.rows);
    return text + "; rows of other devices, or of nothing that a figure "
                  "decides: " +
           std::to_string(result.otherRows);
  }

  const CalibrationInput &input;
  Calibration &result;
  Failure &failure;
  Json json;
  std::map<std::string, std::vector<double>> ratios; ///< log, by figure
};

} // namespace

bool calibrate(const CalibrationInput &input, Calibration &result,
               Failure &failure) {
  return Calibrator(input, result, failure).run();
}

} // namespace shardwright::cost
