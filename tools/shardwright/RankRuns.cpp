#include "tools/shardwright/RankRuns.h"

#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace shardwright::tools {

using namespace cost;

namespace {

/// What a choice may lose before somebody has to say why.
constexpr double kWorse = 1.15;

RankedRun rankRun(const ValidationRow &row, const Program &program,
                  int threads) {
  RankedRun run;
  run.id = row.id;
  run.set = row.set;
  ValidationCase input;
  run.unranked = validationCase(row, program, input);
  if (!run.unranked.empty())
    return run;
  const Plan &plan = input.plan;
  run.plan = planText(program, plan);
  const Framework framework = input.profile.framework;
  for (const Violation &violation :
       checkPlan(program, plan, ModelCheck::NameOnly,
                 framework == Framework::Native ? std::nullopt
                                                : std::optional(framework)))
    run.broken.push_back(violation.message);
  const Estimate own =
      estimate(program, input.hardware, input.profile, plan);
  size_t stage = 0;
  run.fits = staysBelow(fullestStage(own, stage), input.hardware.device.usable);
  run.published = own.stepTime.count();

  SearchOptions options;
  allow(options, framework, input.hardware);
  // Types as the run had them.
  if (plan.dtypes.products != Narrow::None)
    options.products = {plan.dtypes.products};
  options.gpus = plan.ranks();
  options.globalBatch = plan.globalBatch;
  setModel(options, program);
  options.memoryLimit = input.hardware.device.usable;
  options.threads = threads;
  const ProgramEstimator estimator(program, input.hardware, input.profile, plan,
                                   framework, options);
  // The layouts that are faster begin with the best; where there are none it
  // takes a search of its own.
  run.rank = layoutRank(estimator, options, plan, own.stepTime);
  run.considered = run.rank.considered;
  std::optional<RankedPlan> best = run.rank.best;
  if (!best)
    if (SearchResult all = search(estimator, options); !all.plans.empty())
      best = all.plans.front();
  if (!best) {
    run.unranked = "no plan of the search fits";
    return run;
  }
  run.fastest = best->estimate.stepTime.count();
  run.best = planText(program, best->plan);
  return run;
}

/// A configuration is one whatever its measurement.
std::string keyOf(const ValidationRow &row) {
  std::string key = row.set + row.model.name + row.gpu + row.precision +
                    row.recompute + row.attentionKernel + row.framework;
  for (int64_t value :
       {row.model.layers, row.model.hidden, row.model.sequence, row.gpus,
        row.tp, row.pp, row.cp, row.dp, row.ep, row.etp, row.chunks,
        static_cast<int64_t>(row.sp), static_cast<int64_t>(row.zero),
        row.globalBatch, row.microBatch})
    key += "/" + std::to_string(value);
  return key;
}

double ratioOf(const RankedRun &run) { return run.published / run.fastest; }

} // namespace

std::vector<RankedRun> rankRuns(const std::vector<ValidationRow> &rows,
                                const ProgramSource &programOf, int threads) {
  std::vector<RankedRun> runs;
  std::set<std::string> seen;
  std::map<ValidationModel, Program> programs;
  for (const ValidationRow &row : rows) {
    if (!row.headline || !seen.insert(keyOf(row)).second)
      continue;
    RankedRun none;
    none.id = row.id;
    none.set = row.set;
    none.unranked = unsupportedReason(row);
    if (none.unranked.empty()) {
      ValidationModel model = row.model;
      auto found = programs.find(model);
      Program program;
      Failure failure;
      if (found == programs.end() && programOf(model, program, failure))
        found = programs.emplace(model, std::move(program)).first;
      if (found != programs.end()) {
        runs.push_back(rankRun(row, found->second, threads));
        continue;
      }
      none.unranked = "model that cannot be built";
    }
    runs.push_back(std::move(none));
  }
  return runs;
}

void printRanks(const std::vector<RankedRun> &runs, std::ostream &out) {
  using Align = Table::Align;
  Table each({"id", "rank", "of the best", "", "published", "the model's choice"},
             {Align::Left, Align::Right, Align::Right, Align::Left, Align::Left,
              Align::Left});
  std::map<std::string, std::vector<const RankedRun *>> sets;
  std::map<std::string, int64_t> reasons;
  for (const RankedRun &run : runs) {
    if (!run.unranked.empty()) {
      ++reasons[run.unranked];
      continue;
    }
    sets[run.set].push_back(&run);
    std::string remark = run.fits ? "" : "does not fit as predicted";
    for (const std::string &rule : run.broken)
      remark += (remark.empty() ? "" : "; ") + rule;
    each.add({run.id, run.rank.text(),
              percentText(ratioOf(run)), remark, run.plan, run.best});
  }
  out << each.text() << "\n";
  Table groups({"set", "configurations", "legal", "median rank",
                "median of the best", "worst", "more than 15 % slower"});
  for (const auto &[name, members] : sets) {
    std::vector<double> ranks, ratios;
    int64_t legal = 0, worse = 0;
    for (const RankedRun *run : members) {
      ranks.push_back(static_cast<double>(run->rank.rank));
      ratios.push_back(ratioOf(*run));
      legal += run->broken.empty() ? 1 : 0;
      worse += ratioOf(*run) > kWorse ? 1 : 0;
    }
    groups.add({name, std::to_string(members.size()), std::to_string(legal),
                std::to_string(static_cast<int64_t>(quantile(ranks, 0.5))),
                percentText(quantile(ratios, 0.5)),
                percentText(quantile(ratios, 1)), std::to_string(worse)});
  }
  out << groups.text();
  if (!reasons.empty()) {
    Table table({"rows", "not ranked because"}, {Align::Right, Align::Left});
    for (const auto &[reason, count] : reasons)
      table.add({std::to_string(count), reason});
    out << "\n" << table.text();
  }
  out << "\nrank: one more than the layouts that the model finds faster, each at "
         "its fastest plan that fits; a layout is a plan without its "
         "recomputation and layers a stage\n";
}

Json ranksJson(const std::vector<RankedRun> &runs) {
  Json list = Json::array();
  for (const RankedRun &run : runs) {
    Json entry = {{"id", run.id}, {"set", run.set}};
    if (!run.unranked.empty()) {
      entry["not_ranked"] = run.unranked;
    } else {
      entry.update(Json{{"rank", run.rank.rank},
                        {"rank_is_lower_bound", run.rank.more},
                        {"considered", run.considered},
                        {"predicted_step_time_seconds", run.published},
                        {"best_step_time_seconds", run.fastest},
                        {"of_the_best", ratioOf(run)},
                        {"predicted_fits", run.fits},
                        {"broken_rules", run.broken},
                        {"plan", run.plan},
                        {"best", run.best}});
    }
    list.push_back(std::move(entry));
  }
  return {{"runs", list}};
}

} // namespace shardwright::tools
