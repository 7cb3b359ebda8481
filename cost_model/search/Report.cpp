#include "cost_model/search/Report.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

namespace {

/// "20x3", "19+21x2+19": `x` joins runs of equal numbers.
std::string runsText(const std::vector<int64_t> &counts,
                     const char *separator) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < counts.size();) {
    size_t end = i;
    while (end < counts.size() && counts[end] == counts[i])
      ++end;
    std::string part = std::to_string(counts[i]);
    if (end - i > 1)
      part += "x" + std::to_string(end - i);
    parts.push_back(part);
    i = end;
  }
  return join(parts, separator);
}

/// The word for what stages recompute if one is enough for all of them, else "".
std::string recomputeWord(const Program &program, const Plan &plan,
                          const std::vector<int64_t> &full) {
  const std::vector<int64_t> layers = layersOf(program, plan);
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
  if (capped)
    return "full:" + std::to_string(most);
  return noSelective ? "" : "mixed";
}

} // namespace

std::string recomputeText(const Program &program, const Plan &plan) {
  const std::vector<int64_t> full = fullLayersOf(program, plan);
  const std::string word = recomputeWord(program, plan, full);
  return word.empty() ? "full:" + runsText(full, ",") : word;
}

std::string recomputeRange(const Program &program, const Plan &plan) {
  const std::vector<int64_t> full = fullLayersOf(program, plan);
  const std::string word = recomputeWord(program, plan, full);
  if (!word.empty())
    return word;
  const auto [least, most] = std::minmax_element(full.begin(), full.end());
  return "full:" + std::to_string(*least) + "-" + std::to_string(*most);
}

std::string layersText(const std::vector<int64_t> &layers) {
  return runsText(layers, "+");
}

namespace {

/// "1F1B", "interleaved x 4 by 9": as people write it, with the chunks of a rank
/// and the microbatches that these run in a row, if not pp.
std::string scheduleText(const Plan &plan) {
  switch (plan.schedule) {
  case ScheduleKind::GPipe:
    return "GPipe";
  case ScheduleKind::OneFOneB:
    return "1F1B";
  case ScheduleKind::Interleaved:
    return "interleaved x " + std::to_string(plan.chunks) +
           (plan.group == 0 ? "" : " by " + std::to_string(plan.group));
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

bool hasNarrowGradients(const Plan &plan) {
  return plan.dtypes.grad != DType::F32 && plan.dtypes.compute == DType::BF16;
}

} // namespace

std::string typesText(const DTypes &dtypes) {
  std::string text(name(dtypes.compute));
  if (dtypes.products != Narrow::None)
    text += " with " + std::string(name(dtypes.products)) + " products";
  if (dtypes.grad != dtypes.compute || dtypes.products != Narrow::None)
    text += (dtypes.products == Narrow::None ? " with " : " and ") +
            std::string(name(dtypes.grad)) + " gradients";
  return text;
}

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
                         ? " over " + std::to_string(plan.zeroRanks) +
                               " data ranks, copied"
                         : ""));
  if (plan.offloadOptimizer)
    parts.push_back("optimizer on the host");
  if (plan.offloadActivations)
    parts.push_back("activations on the host");
  if (plan.order == MeshOrder::DpPp)
    parts.push_back("pipelines inside of DP");
  if (plan.dtypes.products != Narrow::None)
    parts.push_back(std::string(name(plan.dtypes.products)) + " products");
  if (hasNarrowGradients(plan))
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
    if (!staysBelow(stages[i].total(), limit))
      text += (text.empty() ? "" : ", ") +
              (end - i > 1 ? "stages " + std::to_string(i) + "-" +
                                 std::to_string(end - 1)
                           : "stage " + std::to_string(i)) +
              ": " + bytesText(excess(stages[i].total(), limit));
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
  struct Column {
    std::string head;
    Align side;
    std::function<std::string(size_t, const RankedPlan &)> cell;
  };
  std::vector<Column> columns;
  const auto always = [&](const char *head, Align side, auto cell) {
    columns.push_back({head, side, cell});
  };
  /// What few plans have stands where one of these has it.
  const auto where = [&](auto has, const char *head, Align side, auto cell) {
    if (std::any_of(plans.begin(), plans.end(), [&](const RankedPlan &ranked) {
          return has(ranked.plan);
        }))
      columns.push_back({head, side, [cell](size_t, const RankedPlan &ranked) {
                           return std::string(cell(ranked.plan));
                         }});
  };
  const auto field = [&](const char *head, Align side, auto cell) {
    where([](const Plan &) { return true; }, head, side, cell);
  };
  const auto number = [](int64_t value) { return std::to_string(value); };

  always("#", Align::Right, [&](size_t i, const RankedPlan &) {
    return number(static_cast<int64_t>(i) + 1);
  });
  const auto sized = [&](const Plan &plan) {
    return plan.ranks() != plans.front().plan.ranks() ||
           plan.globalBatch != plans.front().plan.globalBatch;
  };
  where(sized, "GPUs", Align::Right,
        [](const Plan &plan) { return groupedText(plan.ranks()); });
  where(sized, "batch", Align::Right,
        [](const Plan &plan) { return groupedText(plan.globalBatch); });
  field("tp", Align::Right, [&](const Plan &plan) { return number(plan.tp); });
  field("pp", Align::Right, [&](const Plan &plan) { return number(plan.pp); });
  field("dp", Align::Right, [&](const Plan &plan) { return number(plan.dp); });
  where([&](const Plan &) { return program.experts > 0; }, "ep", Align::Right,
        [&](const Plan &plan) { return number(plan.ep); });
  where([](const Plan &plan) { return plan.etp > 1; }, "etp", Align::Right,
        [&](const Plan &plan) { return number(plan.etp); });
  where([](const Plan &plan) { return plan.cp > 1; }, "cp", Align::Left,
        [&](const Plan &plan) {
          return number(plan.cp) +
                 (plan.cp > 1 ? " " + std::string(name(plan.cpKind)) : "");
        });
  where([](const Plan &plan) { return plan.order != MeshOrder::PpDp; }, "order",
        Align::Left, [](const Plan &plan) {
          return plan.order == MeshOrder::PpDp ? "pp-dp" : "dp-pp";
        });
  field("sp", Align::Left,
        [](const Plan &plan) { return plan.sp ? "yes" : "no"; });
  field("zero", Align::Right, [&](const Plan &plan) {
    return number(plan.zero) +
           (plan.zeroRanks > 0 ? " over " + number(plan.zeroRanks) : "");
  });
  where([](const Plan &plan) {
          return plan.offloadOptimizer || plan.offloadActivations;
        },
        "on the host", Align::Left, [](const Plan &plan) {
          return plan.offloadOptimizer && plan.offloadActivations ? "both"
                 : plan.offloadOptimizer                          ? "optimizer"
                 : plan.offloadActivations ? "activations"
                                           : "nothing";
        });
  where([](const Plan &plan) { return plan.dtypes.products != Narrow::None; },
        "products", Align::Left,
        [](const Plan &plan) { return name(plan.dtypes.products); });
  where(hasNarrowGradients, "gradients", Align::Left,
        [](const Plan &plan) { return name(plan.dtypes.grad); });
  field("microbatch", Align::Right, [&](const Plan &plan) {
    return number(plan.microBatch) + " x " + number(plan.microbatches());
  });
  field("schedule", Align::Left, [](const Plan &plan) {
    return plan.pp > 1 ? scheduleText(plan) : std::string("-");
  });
  field("recompute", Align::Left, [&](const Plan &plan) {
    return recomputeText(program, plan);
  });
  field("layers", Align::Left, [&](const Plan &plan) {
    return layersText(layersOf(program, plan));
  });
  always("step", Align::Right, [](size_t, const RankedPlan &ranked) {
    return secondsText(ranked.estimate.stepTime);
  });
  always("MFU", Align::Right, [](size_t, const RankedPlan &ranked) {
    return percentText(ranked.estimate.modelFlopsUtilization);
  });
  always("tokens/s/GPU", Align::Right, [](size_t, const RankedPlan &ranked) {
    return groupedText(std::llround(ranked.estimate.tokensPerSecondPerGpu));
  });
  always("memory/rank", Align::Right, [](size_t, const RankedPlan &ranked) {
    return bytesText(ranked.memory);
  });
  always("", Align::Left, [&](size_t i, const RankedPlan &ranked) {
    std::string note;
    if (!staysBelow(ranked.memory, limit))
      note = "does not fit";
    else if (static_cast<double>(ranked.memory.count()) >
             0.99 * static_cast<double>(limit.count()))
      note = "tight: within 1 % of the limit";
    if (i > 0 && areTied(plans.front(), ranked, tied))
      note += note.empty() ? "tied" : "; tied";
    return note;
  });

  std::vector<std::string> heads;
  std::vector<Align> sides;
  for (const Column &column : columns) {
    heads.push_back(column.head);
    sides.push_back(column.side);
  }
  Table table(heads, sides);
  for (size_t i = 0; i < plans.size(); ++i) {
    std::vector<std::string> row;
    for (const Column &column : columns)
      row.push_back(column.cell(i, plans[i]));
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
