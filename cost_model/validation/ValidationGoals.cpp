//===- ValidationGoals.cpp - Which accuracy is wanted and reached ---------===//
#include "cost_model/validation/ValidationGoals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace shardwright::cost {
namespace {

using Rows = std::vector<const ValidationOutcome *>;
using Predicate = std::function<bool(const ValidationOutcome &)>;

Rows chosen(const std::vector<ValidationOutcome> &rows,
            const Predicate &wanted) {
  Rows result;
  for (const ValidationOutcome &row : rows)
    if (row.headline && wanted(row))
      result.push_back(&row);
  return result;
}

bool isDense16(const ValidationOutcome &row) {
  return row.family == RunFamily::Dense16;
}
bool isDense8(const ValidationOutcome &row) {
  return row.family == RunFamily::Dense8;
}

void add(std::vector<Goal> &goals, Goal goal) {
  if (goal.count > 0)
    goals.push_back(std::move(goal));
}

GoalFigure low(const char *name, double reached, double must, double aim) {
  return {name, reached, must, aim};
}
GoalFigure high(const char *name, double reached, double must, double aim) {
  return {name, reached, must, aim, 0, true};
}

Goal medianAndP90(std::string name, const ErrorStatistics &errors, double must,
                  double mustP90, double aim, double aimP90) {
  return {std::move(name),
          errors.configurations,
          {low("median", errors.median, must, aim),
           low("p90", errors.p90, mustP90, aimP90)}};
}

/// Median errors of the sets, one vote each.
Goal votes(const Rows &rows) {
  std::map<std::string, Rows> sets;
  for (const ValidationOutcome *row : rows)
    sets[row->set].push_back(row);
  std::vector<double> medians;
  for (const auto &[name, members] : sets) {
    const ErrorStatistics time = groupOf(name, members).time;
    if (time.configurations > 0)
      medians.push_back(time.median);
  }
  if (medians.empty())
    return {};
  return {"the same, one vote a source",
          static_cast<int64_t>(medians.size()),
          {low("median", quantile(medians, 0.5), 0.07, 0.05),
           low("worst", *std::max_element(medians.begin(), medians.end()), 0.15,
               0.10)}};
}

struct Weighted {
  double value, weight;
};
/// Quantile of values with weights.
double quantile(std::vector<Weighted> values, double share) {
  std::sort(values.begin(), values.end(),
            [](auto &a, auto &b) { return a.value < b.value; });
  double total = 0, sum = 0;
  for (const Weighted &value : values)
    total += value.weight;
  for (const Weighted &value : values)
    if ((sum += value.weight) >= share * total)
      return value.value;
  return values.back().value;
}

} // namespace

double leftOutCoverage(const std::vector<ValidationOutcome> &rows,
                       int64_t &sources) {
  struct Repeats {
    std::vector<double> errors;
    bool standIn = false; ///< no evidence for others; its interval is wider
  };
  // Class -> set -> configuration.
  std::map<RunFamily, std::map<std::string, std::map<std::string, Repeats>>>
      classes;
  for (const ValidationOutcome &row : rows)
    if (row.headline && row.error()) {
      Repeats &repeats = classes[row.family][row.set][row.configuration];
      repeats.errors.push_back(*row.error());
      repeats.standIn = row.standIn;
    }
  double covered = 0;
  sources = 0;
  for (const auto &[family, sets] : classes)
    for (const auto &[leftOut, configurations] : sets) {
      std::vector<Weighted> others;
      for (const auto &[name, members] : sets)
        if (name != leftOut)
          for (const auto &[configuration, repeats] : members)
            if (!repeats.standIn)
              others.push_back({quantile(repeats.errors, 0.5),
                                1 / static_cast<double>(members.size())});
      if (others.empty())
        continue;
      const double least = quantile(others, 0.1), most = quantile(others, 0.9);
      double inside = 0;
      for (const auto &[configuration, repeats] : configurations) {
        const double error = quantile(repeats.errors, 0.5);
        const double width = repeats.standIn ? kExtrapolatedWidth : 1;
        inside += error >= width * least && error <= width * most;
      }
      covered += inside / static_cast<double>(configurations.size());
      ++sources;
    }
  return sources == 0 ? 0 : covered / static_cast<double>(sources);
}

std::vector<Goal> runGoals(const std::vector<ValidationOutcome> &rows) {
  std::vector<Goal> goals;
  const auto timeOf = [&](const Predicate &wanted) {
    return groupOf("", chosen(rows, wanted)).time;
  };
  const auto ofSet = [&](const char *set) {
    return timeOf([=](auto &row) { return row.set == set; });
  };
  const Predicate dense = [](auto &row) {
    return isDense16(row) && row.grade == "A";
  };
  add(goals, medianAndP90("step time, dense in 16 bits, grade A", timeOf(dense),
                          0.06, 0.18, 0.04, 0.12));
  add(goals, votes(chosen(rows, dense)));
  const ErrorStatistics multi = ofSet("vtrain_multi"),
                        single = ofSet("vtrain_single"),
                        korthikanti = ofSet("korthikanti_2022");
  add(goals, {"vtrain_multi",
              multi.configurations,
              {low("mean", multi.mean, 0.09, 0.06)}});
  add(goals, {"vtrain_single",
              single.configurations,
              {low("mean", single.mean, 0.12, 0.08)}});
  add(goals, {"korthikanti_2022",
              korthikanti.configurations,
              {low("mean", korthikanti.mean, 0.05, 0.03),
               low("max", korthikanti.maximum, 0.10, 0.06)}});
  add(goals, medianAndP90("step time, dense in 8 bits or fewer",
                          timeOf(isDense8), 0.09, 0.20, 0.06, 0.12));
  add(goals,
      medianAndP90("step time, mixture of experts", timeOf([](auto &row) {
                     return row.family == RunFamily::Experts;
                   }),
                   0.15, 0.40, 0.10, 0.25));
  const auto memoryOf = [&](bool certain) {
    std::map<std::string, std::vector<double>> repeats;
    for (const ValidationOutcome *row : chosen(rows, [=](auto &row) {
           return row.memoryError() &&
                  (row.grade == "A" && !row.memoryKind.empty()) == certain;
         }))
      repeats[row->configuration].push_back(*row->memoryError());
    std::vector<double> errors;
    for (const auto &[configuration, values] : repeats)
      errors.push_back(quantile(values, 0.5));
    return statisticsOf(std::move(errors));
  };
  add(goals, medianAndP90("memory of a stated kind, grade A", memoryOf(true),
                          0.03, 0.08, 0.015, 0.05));
  add(goals, medianAndP90("memory, others", memoryOf(false), 0.10, 0.20, 0.05,
                          0.12));
  const ValidationGroup peers =
      groupOf("", chosen(rows, [](auto &row) { return row.peer; }));
  add(goals, {"rows that a public simulator predicts too",
              peers.time.configurations,
              {low("time", peers.time.median, 0.055, 0.03),
               low("memory", peers.memory.median, 0.02, 0.005)}});

  const ValidationGroup all = groupOf("", chosen(rows, [](auto &) {
                                        return true;
                                      }));
  if (all.balancedAccuracy())
    add(goals, {"fits or not",
                all.fitting + all.outOfMemory,
                {high("balanced accuracy", *all.balancedAccuracy(), 0.93, 0.98),
                 low("false fits", *all.falseFits(), 0.05, 0.02)}});
  add(goals, {"layouts of one model and cluster",
              all.problems,
              {high("Spearman", all.medianSpearman, 0.93, 0.98),
               low("regret", all.medianRegret, 0.02, 0.005),
               low("worst regret", all.maximumRegret, 0.08, 0.03)}});
  Goal coverage{"80 % interval, sources left out", 0, {}};
  const double share = leftOutCoverage(rows, coverage.count);
  coverage.figures = {{"inside", share, 0.75, 0.75, 0.90, true}};
  add(goals, std::move(coverage));
  return goals;
}

namespace {

ErrorStatistics
errorsOf(const MeasuredReport &report,
         const std::function<bool(const MeasuredOutcome &)> &wanted) {
  std::vector<double> errors;
  for (const MeasuredOutcome &row : report.rows)
    if (row.unsupported.empty() && row.measuredSeconds > 0 && wanted(row))
      errors.push_back(row.predictedSeconds / row.measuredSeconds - 1);
  return statisticsOf(std::move(errors));
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

} // namespace

std::vector<Goal> collectiveGoals(const MeasuredReport &report) {
  std::vector<Goal> goals;
  const ErrorStatistics large = errorsOf(report, [](auto &row) {
                          return contains(row.group, ">= 1 MiB");
                        }),
                        small = errorsOf(report, [](auto &row) {
                          return contains(row.group, "< 1 MiB");
                        });
  add(goals, {"collectives of 1 MiB and more",
              large.configurations,
              {low("median", large.median, 0.10, 0.05)}});
  add(goals, {"collectives of less than 1 MiB",
              small.configurations,
              {low("median", small.median, 0.20, 0.10)}});
  return goals;
}

std::vector<Goal> kernelGoals(const MeasuredReport &report) {
  std::vector<Goal> goals;
  const ErrorStatistics products = errorsOf(report, [](auto &row) {
                          return contains(row.group, " gemm");
                        }),
                        attention = errorsOf(report, [](auto &row) {
                          return contains(row.group, "attention");
                        });
  add(goals, {"products of 1 GFLOP and more, 16 bits",
              products.configurations,
              {low("median", products.median, 0.08, 0.04)}});
  add(goals, {"attention, forward and backward",
              attention.configurations,
              {low("median", attention.median, 0.12, 0.06)}});
  return goals;
}

} // namespace shardwright::cost
