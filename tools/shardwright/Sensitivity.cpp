#include "tools/shardwright/Sensitivity.h"

#include "cost_model/base/Crew.h"
#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Compare.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace shardwright::tools {

using namespace cost;

namespace {

/// A number of the machine that may be wrong, or improve.
struct Knob {
  const char *name;
  std::function<void(Hardware &, double)> scale;
  bool memory = false; ///< what a rank may use, which no hardware value holds
};

void scaleRate(BytesPerSecond &rate, double factor) {
  rate = BytesPerSecond(factor * rate.count());
}

const std::vector<Knob> &knobs() {
  static const std::vector<Knob> all = {
      {"arithmetic peak",
       [](Hardware &hardware, double factor) {
         for (FlopsPerSecond &peak : hardware.device.peak)
           peak = FlopsPerSecond(factor * peak.count());
       }},
      {"memory bandwidth",
       [](Hardware &hardware, double factor) {
         scaleRate(hardware.device.memoryBandwidth, factor);
       }},
      {"memory of a rank", [](Hardware &, double) {}, true},
      {"links inside a node",
       [](Hardware &hardware, double factor) {
         scaleRate(hardware.levels[0].bandwidth, factor);
         scaleRate(hardware.fabric.channelBandwidth, factor);
         scaleRate(hardware.fabric.nvlsIntra, factor);
       }},
      {"network between nodes",
       [](Hardware &hardware, double factor) {
         for (size_t i = 1; i < hardware.levels.size(); ++i)
           scaleRate(hardware.levels[i].bandwidth, factor);
         scaleRate(hardware.fabric.nvlsInter, factor);
       }},
      {"latencies of collectives",
       [](Hardware &hardware, double factor) {
         for (Level &level : hardware.levels)
           level.latency = factor * level.latency;
         hardware.fabric.launch = factor * hardware.fabric.launch;
         hardware.fabric.p2pLatency = factor * hardware.fabric.p2pLatency;
       }},
      {"kernel latency",
       [](Hardware &hardware, double factor) {
         hardware.device.kernelLatency = factor * hardware.device.kernelLatency;
       }},
      {"spread of device speeds",
       [](Hardware &hardware, double factor) {
         hardware.device.speedDeviation *= factor;
       }},
  };
  return all;
}

bool sameLayout(const Plan &a, const Plan &b) {
  return a.tp == b.tp && a.pp == b.pp && a.dp == b.dp && a.ep == b.ep &&
         a.etp == b.etp && a.cp == b.cp;
}

Sensitivity sense(const Question &question, const SearchAnswer &found,
                  const Plan &plan, const Knob &knob, double factor, int threads) {
  Hardware hardware = question.cluster.hardware;
  knob.scale(hardware, factor);
  SearchOptions options = found.options;
  options.top = 1;
  options.threads = threads;
  options.stop = found.sizes[found.best].options.stop;
  if (knob.memory)
    options.memoryLimit = Bytes(static_cast<int64_t>(
        factor * static_cast<double>(options.memoryLimit.count())));
  const ProgramEstimator estimator(question.model.program, hardware,
                                   question.profile, question.base,
                                   question.framework, options);
  const auto timeOf = [&](const Plan &of) {
    return estimateTime(question.model.program, hardware, question.profile, of)
        .stepTime;
  };
  Sensitivity line{knob.name, factor, timeOf(plan), {}, true};
  const RankedPlan &before = found.result.plans[0];
  const bool fits = staysBelow(before.memory, options.memoryLimit);
  if (knob.memory && factor <= 1 && fits) {
    line.best = before; // of fewer plans, and one of them
    line.turns = false;
    return line;
  }
  // Who is slower than the best was cannot be the best now. A little is left
  // for rounding.
  if (fits)
    options.cutoff = (1 + 1e-9) * timeOf(before.plan);
  const SearchResult best = search(estimator, options);
  line.known = best.counters.proven;
  if (!line.known) {
    line.turns = false;
  } else if (!best.plans.empty()) {
    line.best = best.plans[0];
    line.turns =
        !sameLayout(best.plans[0].plan, found.result.plans[0].plan);
  }
  return line;
}

/// Calls `work(i, threads)` for i below `count`, several at once: the rounds of
/// one search leave threads idle. Few at a time, for each holds its own caches.
template <typename Work> void sideBySide(size_t count, int threads, Work work) {
  const int workers = std::clamp(threads, 1, 4);
  Crew(static_cast<size_t>(workers)).each(count, [&](size_t, size_t i) {
    work(i, std::max(1, threads / workers));
  });
}

std::string factorText(double factor) {
  char text[32];
  std::snprintf(text, sizeof(text), "x %.3g", factor);
  return text;
}

} // namespace

std::vector<Sensitivity> sensitivities(const Question &question,
                                       const SearchAnswer &found,
                                       const Plan &plan) {
  std::vector<Sensitivity> result(2 * knobs().size());
  sideBySide(result.size(), found.options.threads, [&](size_t i, int threads) {
    result[i] = sense(question, found, plan, knobs()[i / 2],
                      i % 2 ? 0.9 : 1.1, threads);
  });
  return result;
}

std::vector<Turn> turns(const Question &question, const SearchAnswer &found,
                        const Plan &plan) {
  std::vector<Turn> result(2 * knobs().size());
  sideBySide(result.size(), found.options.threads, [&](size_t i, int threads) {
    Turn &turn = result[i];
    for (double factor : {1.05, 1.1, 1.25, 1.5, 2., 3., 4., 8.}) {
      const double now = i % 2 ? 1 / factor : factor;
      turn.at = sense(question, found, plan, knobs()[i / 2], now, threads);
      turn.turned = turn.at.turns;
      if (turn.turned || !turn.at.known)
        break;
      turn.before = now;
    }
  });
  return result;
}

std::string sensitivityText(const Question &question,
                            const std::vector<Sensitivity> &lines,
                            Seconds step) {
  using Align = Table::Align;
  Table table({"if this were", "other", "the plan takes", "difference",
               "the best plan then"},
              {Align::Left, Align::Right, Align::Right, Align::Right,
               Align::Left});
  for (const Sensitivity &line : lines)
    table.add({line.number, signedPercent(line.factor - 1),
               secondsText(line.step),
               signedPercent(line.step.count() / step.count() - 1),
               !line.known  ? "not known: stopped"
               : !line.turns ? "the same layout"
               : !line.best ? "turns: none fits"
                            : "turns: " + planText(question.model.program,
                                                   line.best->plan)});
  return table.text();
}

std::string turnsText(const Question &question,
                      const std::vector<Turn> &lines) {
  using Align = Table::Align;
  Table table({"the best layout turns if", "is", "to"},
              {Align::Left, Align::Left, Align::Left});
  for (const Turn &line : lines)
    table.add({line.at.number,
               !line.at.known ? "not up to " + factorText(line.before) + "; stopped"
               : line.turned ? "between " + factorText(line.before) + " and " +
                                 factorText(line.at.factor)
                           : "not up to " + factorText(line.at.factor),
               !line.turned    ? ""
               : line.at.best ? planText(question.model.program,
                                         line.at.best->plan)
                              : "none: no plan fits"});
  return table.text();
}

Json sensitivityJson(const std::vector<Sensitivity> &lines) {
  Json list = Json::array();
  for (const Sensitivity &line : lines)
    list.push_back({{"number", line.number},
                    {"change", line.factor - 1},
                    {"step_time_seconds", line.step.count()},
                    {"best_step_time_seconds",
                     line.best ? Json(line.best->estimate.stepTime.count())
                               : Json()},
                    {"choice_turns",
                     line.known ? Json(line.turns) : Json()}});
  return list;
}

Json turnsJson(const Question &question, const std::vector<Turn> &lines) {
  Json list = Json::array();
  for (const Turn &line : lines)
    list.push_back(
        {{"number", line.at.number},
         {"turns", line.at.known ? Json(line.turned) : Json()},
         {"same_at_factor", line.before},
         {"other_at_factor",
          line.turned ? Json(line.at.factor) : Json()},
         {"other", line.turned && line.at.best
                       ? Json(planText(question.model.program,
                                       line.at.best->plan))
                       : Json()}});
  return list;
}

} // namespace shardwright::tools
