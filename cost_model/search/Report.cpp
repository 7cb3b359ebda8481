#include "cost_model/search/Report.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace shardwright::cost {

namespace {

std::string join(const std::vector<std::string> &parts, const char *separator) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : separator) + part;
  return text;
}

/// Sums the runs of repeated layers that `counts` says yes to, by stage.
template <typename Predicate>
std::vector<int64_t> layersWhere(const Program &program, const Plan &plan,
                                 Predicate counts) {
  std::vector<int64_t> layers;
  for (const Stage &stage : plan.stages) {
    int64_t count = 0;
    for (const StageRun &run : stage.runs) {
      int index = kindIndex(program, run.kind);
      if (index < 0)
        continue;
      const Kind &kind = program.kinds[index];
      if (takesStream(kind) && givesStream(kind) && counts(run))
        count += run.count;
    }
    layers.push_back(count);
  }
  return layers;
}

} // namespace

std::vector<int64_t> layersOf(const Program &program, const Plan &plan) {
  return layersWhere(program, plan, [](const StageRun &) { return true; });
}

std::vector<int64_t> fullLayersOf(const Program &program, const Plan &plan) {
  return layersWhere(program, plan, [](const StageRun &run) {
    return run.recompute == Recompute::Full;
  });
}

std::string recomputeText(const Program &program, const Plan &plan) {
  const std::vector<int64_t> layers = layersOf(program, plan);
  const std::vector<int64_t> full = fullLayersOf(program, plan);
  const std::vector<int64_t> selective =
      layersWhere(program, plan, [](const StageRun &run) {
        return run.recompute == Recompute::Selective;
      });
  auto isZero = [](int64_t count) { return count == 0; };
  bool noFull = std::all_of(full.begin(), full.end(), isZero);
  bool noSelective = std::all_of(selective.begin(), selective.end(), isZero);
  if (noFull && noSelective)
    return "none";
  if (noFull && selective == layers)
    return "selective";
  if (noSelective && full == layers)
    return "full";
  int64_t most = *std::max_element(full.begin(), full.end());
  bool capped = noSelective;
  for (size_t i = 0; i < full.size(); ++i)
    capped = capped && full[i] == std::min(layers[i], most);
  return capped ? "full:" + std::to_string(most) : "mixed";
}

std::string layersText(const std::vector<int64_t> &layers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i;
    while (end < layers.size() && layers[end] == layers[i])
      ++end;
    std::string part = std::to_string(layers[i]);
    if (end - i > 1)
      part += "x" + std::to_string(end - i);
    parts.push_back(part);
    i = end;
  }
  return join(parts, "+");
}

namespace {

/// "1F1B", "interleaved x 4": as people write it, with the chunks of a rank.
std::string scheduleText(const Plan &plan) {
  switch (plan.schedule) {
  case ScheduleKind::GPipe:
    return "GPipe";
  case ScheduleKind::OneFOneB:
    return "1F1B";
  case ScheduleKind::Interleaved:
    return "interleaved x " + std::to_string(plan.chunks);
  case ScheduleKind::ZbH1:
    return "ZB-H1";
  case ScheduleKind::Zb2p:
    return "ZB-2p";
  case ScheduleKind::ZbV:
    return "ZB-V";
  case ScheduleKind::DualPipe:
    return "DualPipe";
  case ScheduleKind::DualPipeV:
    return "DualPipeV";
  }
  return "";
}

} // namespace

std::string planText(const Program &program, const Plan &plan) {
  std::vector<std::string> parts = {std::to_string(plan.tp) + " TP",
                                    std::to_string(plan.pp) + " PP",
                                    std::to_string(plan.dp) + " DP"};
  if (plan.cp > 1)
    parts.push_back(std::to_string(plan.cp) + " CP (" +
                    std::string(name(plan.cpKind)) + ")");
  if (plan.ep > 1)
    parts.push_back(std::to_string(plan.ep) + " EP");
  if (plan.etp > 1)
    parts.push_back(std::to_string(plan.etp) + " ETP");
  if (plan.sp)
    parts.push_back("SP");
  if (plan.zero > 0)
    parts.push_back("ZeRO-" + std::to_string(plan.zero) +
                    (plan.zeroRanks > 0
                         ? " over " + std::to_string(zeroDegree(plan)) +
                               " ranks, copied"
                         : ""));
  if (plan.offloadOptimizer)
    parts.push_back("optimizer on the host");
  if (plan.offloadActivations)
    parts.push_back("activations on the host");
  if (plan.order == MeshOrder::DpPp)
    parts.push_back("pipelines inside of DP");
  if (plan.dtypes.products != Narrow::None)
    parts.push_back(std::string(name(plan.dtypes.products)) + " products");
  if (plan.dtypes.grad != DType::F32 && plan.dtypes.compute == DType::BF16)
    parts.push_back(std::string(name(plan.dtypes.grad)) + " gradients");
  parts.push_back("microbatch " + std::to_string(plan.microBatch) + " x " +
                  std::to_string(plan.microbatches()));
  if (plan.pp > 1)
    parts.push_back(scheduleText(plan));
  parts.push_back("recompute " + recomputeText(program, plan));
  if (plan.pp > 1)
    parts.push_back("layers " + layersText(layersOf(program, plan)));
  return join(parts, ", ");
}

Bytes fullestStage(const Estimate &estimate, size_t &stage) {
  stage = 0;
  Bytes most;
  for (size_t i = 0; i < estimate.stages.size(); ++i)
    if (estimate.stages[i].total() > most) {
      most = estimate.stages[i].total();
      stage = i;
    }
  return most;
}

std::string deficitText(const Estimate &estimate, Bytes limit) {
  std::string text;
  const auto &stages = estimate.stages;
  for (size_t i = 0; i < stages.size();) {
    size_t end = i + 1;
    while (end < stages.size() && stages[end].total() == stages[i].total())
      ++end;
    if (stages[i].total() >= limit)
      text += (text.empty() ? "" : ", ") +
              (end - i > 1 ? "stages " + std::to_string(i) + "-" +
                                 std::to_string(end - 1)
                           : "stage " + std::to_string(i)) +
              ": " + bytesText(stages[i].total() - limit + Bytes(1));
    i = end;
  }
  return text;
}

bool areTied(const RankedPlan &a, const RankedPlan &b, double tied) {
  const auto perToken = [](const RankedPlan &ranked) {
    return ranked.estimate.stepTime.count() /
           static_cast<double>(ranked.plan.globalBatch) /
           static_cast<double>(ranked.plan.sequence);
  };
  return perToken(b) < tied * perToken(a);
}

std::string bubbleText(const Plan &plan) {
  if (plan.pp == 1 || (plan.schedule != ScheduleKind::GPipe &&
                       plan.schedule != ScheduleKind::OneFOneB &&
                       plan.schedule != ScheduleKind::Interleaved))
    return "";
  const int64_t idle = plan.pp - 1;
  const int64_t all = plan.microbatches() * plan.chunks + idle;
  return percentText(static_cast<double>(idle) / static_cast<double>(all)) +
         " of the pipeline if its stages are alike: " + std::to_string(idle) +
         " of " + std::to_string(all) + " turns";
}

std::string plansTable(const Program &program,
                       const std::vector<RankedPlan> &plans, Bytes limit,
                       double tied) {
  using Align = Table::Align;
  std::vector<std::string> names = {"#", "tp", "pp", "dp", "sp", "zero",
                                    "microbatch", "schedule", "recompute",
                                    "layers", "step", "MFU", "tokens/s/GPU",
                                    "memory/rank", ""};
  std::vector<Align> sides = {Align::Right, Align::Right, Align::Right,
                              Align::Right, Align::Left,  Align::Right,
                              Align::Right, Align::Left,  Align::Left,
                              Align::Left,  Align::Right, Align::Right,
                              Align::Right, Align::Right, Align::Left};
  const bool parts =
      std::any_of(plans.begin(), plans.end(), [](const RankedPlan &ranked) {
        return ranked.plan.cp > 1;
      });
  const bool experts = program.experts > 0;
  if (parts) {
    names.insert(names.begin() + 4, "cp");
    sides.insert(sides.begin() + 4, Align::Left);
  }
  if (experts) {
    names.insert(names.begin() + 4, "ep");
    sides.insert(sides.begin() + 4, Align::Right);
  }
  const bool sizes = std::any_of(
      plans.begin(), plans.end(), [&](const RankedPlan &other) {
        return other.plan.ranks() != plans.front().plan.ranks() ||
               other.plan.globalBatch != plans.front().plan.globalBatch;
      });
  if (sizes) {
    names.insert(names.begin() + 1, {"GPUs", "batch"});
    sides.insert(sides.begin() + 1, 2, Align::Right);
  }
  Table table(names, sides);
  for (size_t i = 0; i < plans.size(); ++i) {
    const RankedPlan &ranked = plans[i];
    const Plan &plan = ranked.plan;
    std::string note;
    if (ranked.memory >= limit)
      note = "does not fit";
    else if (static_cast<double>(ranked.memory.count()) >
             0.99 * static_cast<double>(limit.count()))
      note = "tight: within 1 % of the limit";
    if (i > 0 && areTied(plans.front(), ranked, tied))
      note += note.empty() ? "tied" : "; tied";
    std::vector<std::string> row = {
        std::to_string(i + 1),
        std::to_string(plan.tp),
        std::to_string(plan.pp),
        std::to_string(plan.dp),
        plan.sp ? "yes" : "no",
        std::to_string(plan.zero),
        std::to_string(plan.microBatch) + " x " +
            std::to_string(plan.microbatches()),
        plan.pp > 1 ? scheduleText(plan) : "-",
        recomputeText(program, plan),
        layersText(layersOf(program, plan)),
        secondsText(ranked.estimate.stepTime),
        percentText(ranked.estimate.modelFlopsUtilization),
        groupedText(std::llround(ranked.estimate.tokensPerSecondPerGpu)),
        bytesText(ranked.memory),
        note};
    if (parts)
      row.insert(row.begin() + 4,
                 std::to_string(plan.cp) +
                     (plan.cp > 1 ? " " + std::string(name(plan.cpKind)) : ""));
    if (experts)
      row.insert(row.begin() + 4, std::to_string(plan.ep));
    if (sizes)
      row.insert(row.begin() + 1, {groupedText(plan.ranks()),
                                   groupedText(plan.globalBatch)});
    table.add(row);
  }
  return table.text();
}

std::string memoryTable(const Estimate &estimate, Bytes limit) {
  Table table({"stage", "parameters", "gradients", "optimizer", "saved", "p2p",
               "comm", "workspace", "framework", "total", "of limit"});
  // Equal neighbours share a line: pipelines are deep.
  const auto &stages = estimate.stages;
  for (size_t i = 0; i < stages.size();) {
    size_t end = i;
    while (end < stages.size() && stages[end].memory == stages[i].memory &&
           stages[end].framework == stages[i].framework)
      ++end;
    const MemoryParts &parts = stages[i].memory;
    std::string label = std::to_string(i);
    if (end - i > 1)
      label += "-" + std::to_string(end - 1);
    double share = static_cast<double>(stages[i].total().count()) /
                   static_cast<double>(limit.count());
    table.add({label, bytesText(parts.parameters), bytesText(parts.gradients),
               bytesText(parts.optimizer), bytesText(parts.saved),
               bytesText(parts.p2p), bytesText(parts.comm),
               bytesText(parts.workspace), bytesText(stages[i].framework),
               bytesText(stages[i].total()), percentText(share)});
    i = end;
  }
  return table.text();
}

std::string timeTable(const Estimate &estimate) {
  Table table({"term", "time", "share"});
  for (const Term &term : estimate.terms)
    if (term.time.count() != 0)
      table.add({term.name, secondsText(term.time),
               percentText(term.time.count() / estimate.stepTime.count())});
  table.add({"step", secondsText(estimate.stepTime), percentText(1)});
  return table.text();
}

std::string ledgerTable(const Ledger &ledger) {
  using Align = Table::Align;
  Table collectives({"collective", "axis", "phase", "calls", "payload"},
                    {Align::Left, Align::Left, Align::Left, Align::Right,
                     Align::Right});
  for (const auto &[key, entry] : ledger.collectives)
    collectives.add({std::string(name(key.collective)), key.axis,
                     std::string(name(key.phase)), groupedText(entry.calls),
                     bytesText(entry.payload)});
  Table flops({"arithmetic of a step", ""}, {Align::Left, Align::Right});
  for (const auto &[phase, count] : ledger.flops)
    flops.add({std::string(name(phase)),
               siText(static_cast<double>(count.count())) + "FLOP"});
  std::string text;
  if (!ledger.collectives.empty()) {
    text = collectives.text();
    text += "payload: bytes of this rank's input, summed over the calls\n";
  }
  return text += flops.text();
}

std::string rejectedTable(const SearchResult &result, Bytes limit, size_t most) {
  using Align = Table::Align;
  Table table({"tp", "pp", "dp", "plans", "rejected because"},
              {Align::Right, Align::Right, Align::Right, Align::Right,
               Align::Left});
  // Meshes that break the same rules with the same tp (or pp) are one line.
  std::map<std::string, std::pair<const RejectedFamily *, int64_t>> rules;
  std::vector<const RejectedFamily *> slower, memory;
  for (const RejectedFamily &family : result.rejected) {
    if (family.reject == Reject::Slower)
      slower.push_back(&family);
    else if (family.reject == Reject::Memory)
      memory.push_back(&family);
    else {
      std::vector<std::string> messages;
      for (const Violation &violation : family.violations)
        messages.push_back(violation.message);
      auto &entry = rules[join(messages, "; ")];
      if (entry.second++ == 0)
        entry.first = &family;
    }
  }
  std::stable_sort(slower.begin(), slower.end(), [](auto *a, auto *b) {
    return a->bound < b->bound;
  });
  auto add = [&](const RejectedFamily &family, const std::string &why) {
    table.add({std::to_string(family.tp), std::to_string(family.pp),
               std::to_string(family.dp) +
                   (family.cp > 1 ? ", cp " + std::to_string(family.cp) : "") +
                   (family.ep > 1 ? ", ep " + std::to_string(family.ep) : "") +
                       (family.etp > 1 ? ", etp " + std::to_string(family.etp)
                                       : ""),
               groupedText(family.plans), why});
  };
  Seconds best;
  if (!result.plans.empty())
    best = result.plans.front().estimate.stepTime;
  for (size_t i = 0; i < slower.size() && i < most; ++i) {
    const RejectedFamily &family = *slower[i];
    bool exact = family.bestTime && *family.bestTime <= family.bound;
    std::string why = exact ? "slower: its best takes "
                            : "slower: takes at least ";
    why += secondsText(family.bound);
    if (best.count() > 0)
      why += " (+" + percentText(family.bound.count() / best.count() - 1) + ")";
    add(family, why);
  }
  for (const RejectedFamily *family : memory)
    add(*family, "no plan of it needs less than " + bytesText(limit));
  for (const auto &[why, entry] : rules)
    add(*entry.first,
        why + (entry.second > 1 ? " (and " + std::to_string(entry.second - 1) +
                                      " more meshes)"
                                : ""));
  std::string text = table.text();
  if (slower.size() > most)
    text += "and " + std::to_string(slower.size() - most) +
            " slower meshes more\n";
  return text;
}

} // namespace shardwright::cost
