//===- ValidationReport.cpp - Errors of predictions, by group -------------===//
#include "cost_model/validation/Validation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardwright::cost {
namespace {

using Repeats = std::map<std::string, std::vector<double>>;

/// One error per configuration: the median of its repeats.
ErrorStatistics statisticsOf(const Repeats &errors) {
  std::vector<double> ofConfigurations;
  for (const auto &[configuration, repeats] : errors)
    ofConfigurations.push_back(quantile(repeats, 0.5));
  return cost::statisticsOf(std::move(ofConfigurations));
}

/// Ranks of values, 1 for the least; ties share the mean of their ranks.
std::vector<double> ranksOf(const std::vector<double> &values) {
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double below = 0, equal = 0;
    for (double other : values) {
      below += other < values[i];
      equal += other == values[i];
    }
    ranks[i] = below + (equal + 1) / 2;
  }
  return ranks;
}

double correlation(const std::vector<double> &a, const std::vector<double> &b) {
  const double n = static_cast<double>(a.size());
  const double meanA = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double meanB = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - meanA) * (b[i] - meanB);
    aa += (a[i] - meanA) * (a[i] - meanA);
    bb += (b[i] - meanB) * (b[i] - meanB);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

constexpr size_t kLeastLayouts = 4; ///< of a group whose order is judged

/// Order of the layouts of one model on one cluster.
void addRanking(ValidationGroup &group,
                const std::vector<const ValidationOutcome *> &rows) {
  struct Pair {
    std::vector<double> measured, predicted;
  };
  std::map<std::string, std::map<std::string, Pair>> problems;
  for (const ValidationOutcome *row : rows)
    if (row->error()) {
      Pair &pair = problems[row->problem][row->configuration];
      pair.measured.push_back(*row->measuredSeconds);
      pair.predicted.push_back(*row->predictedSeconds);
    }
  std::vector<double> spearman, regret;
  for (const auto &[problem, layouts] : problems) {
    if (layouts.size() < kLeastLayouts)
      continue;
    std::vector<double> measured, predicted;
    for (const auto &[configuration, pair] : layouts) {
      measured.push_back(quantile(pair.measured, 0.5));
      predicted.push_back(quantile(pair.predicted, 0.5));
    }
    spearman.push_back(correlation(ranksOf(measured), ranksOf(predicted)));
    const size_t chosen = static_cast<size_t>(
        std::min_element(predicted.begin(), predicted.end()) -
        predicted.begin());
    regret.push_back(measured[chosen] /
                         *std::min_element(measured.begin(), measured.end()) -
                     1);
  }
  group.problems = static_cast<int64_t>(spearman.size());
  if (spearman.empty())
    return;
  group.medianSpearman = quantile(spearman, 0.5);
  group.medianRegret = quantile(regret, 0.5);
  group.maximumRegret = *std::max_element(regret.begin(), regret.end());
}

std::string keyOf(const ValidationOutcome &outcome, ValidationBy by) {
  switch (by) {
  case ValidationBy::Set:
    return outcome.set;
  case ValidationBy::Gpu:
    return outcome.gpu;
  case ValidationBy::Kind:
    return outcome.kind;
  case ValidationBy::Precision:
    return outcome.precision;
  case ValidationBy::Framework:
    return outcome.framework;
  }
  return {};
}

} // namespace

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) *
                             (values[above] - values[below]);
}

ErrorStatistics statisticsOf(std::vector<double> errors) {
  ErrorStatistics result;
  result.configurations = static_cast<int64_t>(errors.size());
  if (errors.empty())
    return result;
  result.signedMedian = quantile(errors, 0.5);
  for (double &error : errors)
    error = std::fabs(error);
  result.mean = std::accumulate(errors.begin(), errors.end(), 0.0) /
                static_cast<double>(errors.size());
  result.median = quantile(errors, 0.5);
  result.p90 = quantile(errors, 0.9);
  result.maximum = *std::max_element(errors.begin(), errors.end());
  return result;
}

std::optional<double> ValidationGroup::balancedAccuracy() const {
  if (fitting == 0 || outOfMemory == 0)
    return std::nullopt;
  return (static_cast<double>(fittingRight) / static_cast<double>(fitting) +
          static_cast<double>(outOfMemoryRight) /
              static_cast<double>(outOfMemory)) /
         2;
}

std::optional<double> ValidationGroup::falseFits() const {
  if (outOfMemory == 0)
    return std::nullopt;
  return 1 - static_cast<double>(outOfMemoryRight) /
                 static_cast<double>(outOfMemory);
}

ValidationGroup groupOf(std::string name,
                        const std::vector<const ValidationOutcome *> &rows) {
  ValidationGroup group;
  group.name = std::move(name);
  Repeats times, memories;
  for (const ValidationOutcome *row : rows) {
    ++group.rows;
    if (!row->unsupported.empty())
      continue;
    ++group.predicted;
    if (row->predictedFits) {
      if (row->measuredFits) {
        ++group.fitting;
        group.fittingRight += *row->predictedFits;
      } else {
        ++group.outOfMemory;
        group.outOfMemoryRight += !*row->predictedFits;
      }
    }
    if (const std::optional<double> error = row->error())
      times[row->configuration].push_back(*error);
    if (const std::optional<double> error = row->memoryError();
        error && !row->memoryKind.empty())
      memories[row->configuration].push_back(*error);
  }
  group.time = statisticsOf(times);
  group.memory = statisticsOf(memories);
  addRanking(group, rows);
  return group;
}

void groupOutcomes(ValidationReport &report, ValidationBy by) {
  std::map<std::string, std::vector<const ValidationOutcome *>> groups, sets;
  std::vector<const ValidationOutcome *> headline;
  for (const ValidationOutcome &outcome : report.rows) {
    if (!outcome.headline)
      continue; // listed, not counted
    groups[keyOf(outcome, by)].push_back(&outcome);
    sets[outcome.set].push_back(&outcome);
    headline.push_back(&outcome);
  }
  report.groups.clear();
  for (const auto &[name, members] : groups)
    report.groups.push_back(groupOf(name, members));
  report.summary = groupOf("all", headline);

  std::vector<double> medians;
  for (const auto &[name, members] : sets) {
    const ErrorStatistics time = groupOf(name, members).time;
    if (time.configurations > 0)
      medians.push_back(time.median);
  }
  report.sources = static_cast<int64_t>(medians.size());
  if (!medians.empty()) {
    report.medianOfMedians = quantile(medians, 0.5);
    report.worstMedian = *std::max_element(medians.begin(), medians.end());
  }
}

} // namespace shardwright::cost
