#include "tools/shardwright/Compare.h"

#include "cost_model/search/Report.h"

#include <algorithm>
#include <cmath>

namespace shardwright::tools {

using namespace cost;

namespace {

std::string onOff(bool on) { return on ? "on" : "off"; }

/// Layers of every stage, and what of them recomputes: "8+8 (full 2)".
std::string stagesText(const Plan &plan) {
  std::string text, last;
  int64_t same = 0;
  const auto flush = [&] {
    if (same == 0)
      return;
    text += text.empty() ? "" : " + ";
    text += last;
    if (same > 1)
      text += " x" + std::to_string(same);
    same = 0;
  };
  for (const Stage &stage : plan.stages) {
    std::string one;
    for (const StageRun &run : stage.runs) {
      one += one.empty() ? "" : ",";
      one += std::to_string(run.count) + " " + run.kind;
      if (run.recompute != Recompute::None)
        one += "/" + std::string(name(run.recompute));
    }
    if (one != last)
      flush();
    last = one;
    ++same;
  }
  flush();
  return text;
}

} // namespace

std::string signedSeconds(Seconds difference) {
  if (difference.count() == 0)
    return "0 s";
  return (difference.count() > 0 ? "+" : "-") +
         secondsText(Seconds(std::fabs(difference.count())));
}

std::string signedPercent(double fraction) {
  return (fraction >= 0 ? "+" : "-") + percentText(std::fabs(fraction));
}

std::vector<PlanField> fieldsOf(const Plan &plan) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  return {{"model", plan.modelName},
          {"model digest", plan.modelSha256},
          {"cluster", plan.clusterName},
          {"cluster digest", plan.clusterSha256},
          {"GPUs", number(plan.ranks())},
          {"sequence", number(plan.sequence)},
          {"global batch", number(plan.globalBatch)},
          {"tp", number(plan.tp)},
          {"pp", number(plan.pp)},
          {"dp", number(plan.dp)},
          {"cp", number(plan.cp)},
          {"cp kind", plan.cp > 1 ? std::string(name(plan.cpKind)) : "-"},
          {"ep", number(plan.ep)},
          {"etp", number(plan.etp)},
          {"kv replicas", number(plan.kvReplicas)},
          {"sp", onOff(plan.sp)},
          {"zero", number(plan.zero)},
          {"zero ranks", number(zeroDataRanks(plan))},
          {"optimizer", plan.offloadOptimizer ? "host" : "device"},
          {"activations", plan.offloadActivations ? "host" : "device"},
          {"order", plan.order == MeshOrder::PpDp ? "pp, dp" : "dp, pp"},
          {"microbatch", number(plan.microBatch)},
          {"microbatches", number(plan.microbatches())},
          {"schedule",
           plan.pp > 1 ? std::string(name(plan.schedule)) : "-"},
          {"vp", number(plan.chunks)},
          {"microbatch group",
           groupOf(plan) > 0 ? number(groupOf(plan)) : "-"},
          {"parameters", std::string(name(plan.dtypes.param))},
          {"compute", std::string(name(plan.dtypes.compute))},
          {"products", std::string(name(plan.dtypes.products))},
          {"reduce", std::string(name(plan.dtypes.reduce))},
          {"gradients", std::string(name(plan.dtypes.grad))},
          {"master", std::string(name(plan.dtypes.master))},
          {"stages", stagesText(plan)}};
}

std::string fieldsTable(const Plan &a, const Plan &b,
                        const std::string &nameOfA,
                        const std::string &nameOfB) {
  using Align = Table::Align;
  Table table({"field", nameOfA, nameOfB},
              {Align::Left, Align::Left, Align::Left});
  const std::vector<PlanField> left = fieldsOf(a), right = fieldsOf(b);
  bool any = false;
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].value != right[i].value) {
      table.add({left[i].name, left[i].value, right[i].value});
      any = true;
    }
  return any ? table.text() : "";
}

std::string termsTable(const Estimate &a, const Estimate &b,
                       const std::string &nameOfA,
                       const std::string &nameOfB) {
  using Align = Table::Align;
  Table table({"term", nameOfA, nameOfB, "difference", "of the step"},
              {Align::Left, Align::Right, Align::Right, Align::Right,
               Align::Right});
  const double step = a.stepTime.count();
  const auto add = [&](const std::string &term, Seconds left, Seconds right) {
    if (left.count() == 0 && right.count() == 0)
      return;
    table.add({term, secondsText(left), secondsText(right),
               signedSeconds(right - left),
               signedPercent((right - left).count() / step)});
  };
  for (size_t i = 0; i < a.terms.size() && i < b.terms.size(); ++i)
    add(a.terms[i].name, a.terms[i].time, b.terms[i].time);
  add("step", a.stepTime, b.stepTime);
  table.add({"MFU", percentText(a.modelFlopsUtilization),
             percentText(b.modelFlopsUtilization)});
  size_t stage = 0;
  const Bytes left = fullestStage(a, stage), right = fullestStage(b, stage);
  table.add({"memory/rank", bytesText(left), bytesText(right),
             (right < left ? "-" : "+") +
                 bytesText(right < left ? left - right : right - left)});
  return table.text();
}

} // namespace shardwright::tools
