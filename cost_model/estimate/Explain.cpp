//===- Explain.cpp - Where every figure of an estimate comes from ---------===//
#include "cost_model/estimate/Explain.h"
#include "cost_model/base/Format.h"
#include "cost_model/estimate/ExplainCollectives.h"
#include "cost_model/estimate/Goodput.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace shardwright::cost {
namespace {

ExplainedInput seconds(std::string name, Seconds time) {
  return {std::move(name), time.count(), "s"};
}
ExplainedInput count(std::string name, double value) {
  return {std::move(name), value, ""};
}

class Explainer {
public:
  Explainer(const Program &program, const Hardware &hardware,
            const Profile &profile, const Plan &plan)
      : program(program), hardware(hardware), profile(profile), plan(plan) {
    estimate = estimateTime(program, hardware, profile, plan, nullptr,
                            &breakdown);
  }

  Explanation run() {
    addStep();
    addTerms();
    addOverlap();
    addStages();
    addDevice();
    result.collectives =
        explainCollectives(program, hardware, profile, plan,
                           static_cast<int64_t>(breakdown.last));
    return std::move(result);
  }

private:
  ExplainedPart &part(std::string name, std::string about) {
    result.parts.push_back({std::move(name), std::move(about), {}});
    return result.parts.back();
  }
  Seconds term(const char *name) const {
    for (const Term &term : estimate.terms)
      if (term.name == name)
        return term.time;
    return Seconds(0);
  }
  double perChunk() const {
    return static_cast<double>(
        chunkMicrobatches(plan.schedule, plan.microbatches()));
  }

  void addStep() {
    ExplainedPart &step = part("step", "the whole, and what it is worth");
    ExplainedLine sum{"step_time", estimate.stepTime.count(), "s", "", {}};
    for (const Term &term : estimate.terms) {
      sum.formula += (sum.formula.empty() ? "" : " + ") + term.name;
      sum.inputs.push_back(seconds(term.name, term.time));
    }
    step.lines.push_back(sum);
    const double tokens = static_cast<double>(plan.globalBatch) *
                          static_cast<double>(plan.sequence);
    const double ranks = static_cast<double>(plan.ranks());
    step.lines.push_back(
        {"tokens_per_second_per_gpu",
         estimate.tokensPerSecondPerGpu,
         "",
         "global_batch * sequence / step_time / gpus",
         {count("global_batch", static_cast<double>(plan.globalBatch)),
          count("sequence", static_cast<double>(plan.sequence)),
          seconds("step_time", estimate.stepTime), count("gpus", ranks)}});
    step.lines.push_back(
        {"mfu",
         estimate.modelFlopsUtilization,
         "",
         "flops_per_token * tokens / (step_time * gpus * peak)",
         {{"flops_per_token",
           modelFlopsPerToken(program, FlopsConvention::CausalHalved), "flop"},
          count("tokens", tokens), seconds("step_time", estimate.stepTime),
          count("gpus", ranks),
          {"peak", arithmeticRate(hardware.device, plan.dtypes.compute),
           "flop/s"}}});
  }

  void addTerms() {
    const StageBreakdown &own = breakdown.stages[breakdown.last];
    const LayerProfile &work = own.work;
    ExplainedPart &terms = part(
        "terms", "of stage " + std::to_string(breakdown.last) +
                     ", whose gradients are reduced last; times of its layers "
                     "are for one microbatch");
    const ExplainedInput times = count("microbatches", perChunk());
    const auto add = [&](const char *name, std::string formula,
                         std::vector<ExplainedInput> inputs) {
      terms.lines.push_back({name, term(name).count(), "s", std::move(formula),
                             std::move(inputs)});
    };
    add("compute_forward", "microbatches * forward",
        {times, seconds("forward", work.forward)});
    add("compute_backward",
        "microbatches * (data_gradient - recomputed + weight_gradient)",
        {times, seconds("data_gradient", work.dataGrad),
         seconds("recomputed", work.recompute),
         seconds("weight_gradient", work.weightGrad)});
    add("recompute", "microbatches * recomputed",
        {times, seconds("recomputed", work.recompute)});
    add("tp_communication", "microbatches * (forward_exposed + backward_exposed)",
        {times, seconds("forward_exposed", work.forwardCommunication),
         seconds("backward_exposed", work.backwardCommunication)});
    add("cp_communication",
        "microbatches * (forward_context + backward_context)",
        {times, seconds("forward_context", work.forwardContext),
         seconds("backward_context", work.backwardContext)});
    const Seconds exchange = work.forwardExchange + work.backwardExchange;
    add("ep_communication",
        "microbatches * (forward_exchange + backward_exchange) - hidden",
        {times, seconds("forward_exchange", work.forwardExchange),
         seconds("backward_exchange", work.backwardExchange),
         seconds("hidden", perChunk() * exchange - term("ep_communication"))});
    add("host", "microbatches * (forward_waits + backward_waits)",
        {times, seconds("forward_waits", work.forwardHost),
         seconds("backward_waits", work.backwardHost)});
    add("offload", "microbatches * (forward_exposed + backward_exposed)",
        {times, seconds("forward_exposed", own.savedForward),
         seconds("backward_exposed", own.savedBackward),
         seconds("one_way", own.toHost)});
    add("pp_communication", "held",
        {seconds("held", own.line.transfer)});
    add("pp_bubble", "end - busy - held",
        {seconds("end", own.line.end), seconds("busy", own.line.busy),
         seconds("held", own.line.transfer)});
    add("dp_communication",
        "exposed_reduction + microbatches * (forward_gathers + "
        "backward_transfers)",
        {seconds("exposed_reduction", own.exposedReduce), times,
         seconds("forward_gathers", own.shardedForward),
         seconds("backward_transfers", own.shardedBackward)});
    add("embedding_communication", "shared",
        {seconds("shared", breakdown.shared)});
    addUpdate(terms);
    add("stragglers",
        "deviation * expected_largest * computing",
        {count("deviation", hardware.device.speedDeviation),
         count("expected_largest", expectedLargestNormal(plan.ranks())),
         seconds("computing", breakdown.computing)});
  }

  void addUpdate(ExplainedPart &terms) {
    const auto most = std::max_element(
        breakdown.stages.begin(), breakdown.stages.end(),
        [](const StageBreakdown &a, const StageBreakdown &b) {
          return a.optimizer < b.optimizer;
        });
    terms.lines.push_back(
        {"optimizer",
         term("optimizer").count(),
         "s",
         "(state * state_bytes + parameters * gradient_bytes) / (bandwidth * "
         "fraction) + host",
         {count("state", static_cast<double>(most->stateElements)),
          {"state_bytes",
           plan.offloadOptimizer ? 0 : profile.stateBytesPerParameter, "B"},
          count("parameters", static_cast<double>(most->elements)),
          {"gradient_bytes", profile.gradientBytesPerParameter, "B"},
          {"bandwidth", hardware.device.memoryBandwidth.count(), "B/s"},
          count("fraction",
                hardware.device.memoryFraction[static_cast<size_t>(
                    KernelClass::Optimizer)]),
          seconds("host", most->hostUpdate)}});
    terms.lines.push_back({"parameter_gather",
                           term("parameter_gather").count(),
                           "s",
                           "exposed_gather",
                           {seconds("exposed_gather",
                                    term("parameter_gather"))}});
    terms.lines.push_back({"synchronization",
                           term("synchronization").count(),
                           "s",
                           "norm_reduction",
                           {seconds("norm_reduction",
                                    synchronizationTime(hardware, plan))}});
  }

  /// What of the transfers shows, beside all of them.
  void addOverlap() {
    const StageBreakdown &own = breakdown.stages[breakdown.last];
    ExplainedPart &overlap =
        part("overlap", "transfers of that stage: what compute hides of them");
    const auto add = [&](const char *name, Seconds all, Seconds exposed) {
      overlap.lines.push_back(
          {name,
           exposed.count(),
           "s",
           "total - hidden",
           {seconds("total", all), seconds("hidden", all - exposed)}});
    };
    // Sharded gradients are summed, and sharded parameters gathered again, behind
    // the backward pass of every microbatch; what is left for the end of the step
    // (exposedReduce) hides behind nothing.
    if (plan.zero >= 2)
      add(plan.zero >= 3 ? "backward_transfers" : "gradient_reduction",
          perChunk() * (plan.zero >= 3 ? own.gather + own.reduce : own.reduce) +
              own.exposedReduce,
          perChunk() * own.shardedBackward + own.exposedReduce);
    else
      add("gradient_reduction", own.reduce, own.exposedReduce);
    if (plan.zero >= 3)
      add("parameter_gather", perChunk() * own.gather,
          perChunk() * own.shardedForward);
    else
      add("parameter_gather", own.gather, own.exposedGather);
  }

  void addStages() {
    ExplainedPart &stages = part(
        "stages", "time of every rank of the pipeline; what imbalance costs is "
                  "the run against one whose stages all take the mean");
    Seconds sum(0);
    for (size_t i = 0; i < breakdown.stages.size(); ++i) {
      const StageTimeline &line = breakdown.stages[i].line;
      sum += line.busy;
      stages.lines.push_back({"stage_" + std::to_string(i),
                              line.end.count(),
                              "s",
                              "busy + transfers + bubble",
                              {seconds("busy", line.busy),
                               seconds("transfers", line.transfer),
                               seconds("bubble", line.idle)}});
    }
    PipelineTimes even = breakdown.pipeline;
    const double share = 1.0 / static_cast<double>(even.times.size());
    StageTimes mean{};
    for (const StageTimes &stage : breakdown.pipeline.times) {
      mean.forward += share * stage.forward;
      mean.backwardData += share * stage.backwardData;
      mean.backwardWeight += share * stage.backwardWeight;
      mean.hiddenBeside += share * stage.hiddenBeside;
    }
    even.times.assign(even.times.size(), mean);
    const Seconds as =
        runPipeline(plan.schedule, plan.microbatches(), breakdown.pipeline)
            .makespan();
    const Seconds alike =
        runPipeline(plan.schedule, plan.microbatches(), even).makespan();
    stages.lines.push_back(
        {"imbalance",
         (as - alike).count(),
         "s",
         "pipeline - pipeline_of_equal_stages",
         {seconds("pipeline", as), seconds("pipeline_of_equal_stages", alike)}});
  }

  void addDevice() {
    const Device &device = hardware.device;
    ExplainedPart &machine =
        part("machine", "what kernels and links were taken to reach");
    machine.lines.push_back(
        {"products_large",
         device.peakOf(plan.dtypes.compute).count() *
             device.gemm.sustainedFraction * device.gemm.powerFraction,
         "flop/s",
         "peak * sustained * power",
         {{"peak", device.peakOf(plan.dtypes.compute).count(), "flop/s"},
          count("sustained", device.gemm.sustainedFraction),
          count("power", device.gemm.powerFraction)}});
    machine.lines.push_back(
        {"streaming",
         device.memoryBandwidth.count() *
             device.memoryFraction[static_cast<size_t>(
                 KernelClass::Elementwise)],
         "B/s",
         "bandwidth * fraction",
         {{"bandwidth", device.memoryBandwidth.count(), "B/s"},
          count("fraction", device.memoryFraction[static_cast<size_t>(
                                KernelClass::Elementwise)])}});
    for (size_t i = 1; i < hardware.levels.size(); ++i) {
      const Level &level = hardware.levels[i];
      machine.lines.push_back(
          {level.name + "_per_node",
           static_cast<double>(level.nics) * level.bandwidth.count() *
               hardware.fabric.nicFraction / level.oversubscription,
           "B/s",
           "nics * bandwidth * reached / oversubscription",
           {count("nics", static_cast<double>(level.nics)),
            {"bandwidth", level.bandwidth.count(), "B/s"},
            count("reached", hardware.fabric.nicFraction),
            count("oversubscription", level.oversubscription)}});
    }
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan &plan;
  Breakdown breakdown;
  Estimate estimate;
  Explanation result;
};

std::string numberText(double value, const std::string &unit) {
  if (unit == "s")
    return secondsText(Seconds(value));
  char text[64];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return unit.empty() ? text : std::string(text) + " " + unit;
}

} // namespace

Explanation explain(const Program &program, const Hardware &hardware,
                    const Profile &profile, const Plan &plan) {
  return Explainer(program, hardware, profile, plan).run();
}

std::string explanationText(const Explanation &explanation) {
  std::string text;
  for (const ExplainedPart &part : explanation.parts) {
    text += part.name + ": " + part.about + "\n";
    for (const ExplainedLine &line : part.lines) {
      text += "  " + line.name + " = " + numberText(line.value, line.unit) +
              " = " + line.formula + "\n";
      std::string inputs;
      for (const ExplainedInput &input : line.inputs) {
        inputs += inputs.empty() ? "    with " : ", ";
        inputs += input.name + " " + numberText(input.value, input.unit);
      }
      text += inputs + "\n";
    }
    text += "\n";
  }
  text += "collectives of that stage, as if nothing ran beside them\n";
  Table table({"collective", "axis", "phase", "calls", "payload", "ranks",
               "nodes", "algorithm", "a call", "in all", "NIC, a call"},
              {Table::Align::Left, Table::Align::Left, Table::Align::Left});
  for (const ExplainedCollective &line : explanation.collectives)
    table.add({line.collective, line.axis, line.phase, groupedText(line.calls),
               bytesText(Bytes(static_cast<int64_t>(line.payloadBytes))),
               std::to_string(line.ranks), std::to_string(line.nodes),
               line.protocol.empty() ? line.algorithm
                                     : line.algorithm + " " + line.protocol,
               secondsText(Seconds(line.secondsPerCall)),
               secondsText(Seconds(line.seconds)),
               line.nodes > 1 ? bytesText(Bytes(static_cast<int64_t>(
                                    line.nicBytesPerCall)))
                              : "-"});
  return text + table.text();
}

} // namespace shardwright::cost
