//===- StepTrace.cpp - A predicted step, moment by moment -----------------===//
#include "cost_model/estimate/StepTrace.h"
#include "cost_model/schedule/Timeline.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {
namespace {

class Tracer {
public:
  Tracer(const Estimate &estimate, const Breakdown &breakdown)
      : estimate(estimate), breakdown(breakdown) {}

  void addSchedule(const Plan &plan) {
    ScheduleCache schedules;
    std::vector<Span> actions;
    runSchedule(schedules.get(plan.schedule, plan.pp, plan.chunks,
                              plan.microbatches(), plan.group),
                breakdown.pipeline, &actions);
    for (const Span &span : actions) {
      const bool sent = span.kind == ActionKind::SendForward ||
                        span.kind == ActionKind::SendBackward;
      add({name(span.kind), span.stage, span.chunk, span.microbatch,
           sent && breakdown.pipeline.overlapTransfers, span.begin, span.end});
    }
  }

  /// In the order of the step, which is not that of the terms.
  void addEnd() {
    const auto stages = static_cast<int64_t>(breakdown.stages.size());
    for (int64_t stage = 0; stage < stages; ++stage) {
      const StageBreakdown &own = at(stage);
      add({"dp_communication", stage, -1, -1, false, own.line.end,
           own.line.end + own.exposedReduce});
    }
    const StageBreakdown &last =
        breakdown.stages[breakdown.last];
    Seconds now = last.line.end + last.exposedReduce;
    // Of every stage its own time; the step waits for the longest.
    const auto together = [&](std::string_view name, auto &&timeOf) {
      for (int64_t stage = 0; stage < stages; ++stage)
        add({name, stage, -1, -1, false, now, now + timeOf(stage)});
      now += termNamed(name);
    };
    together("embedding_communication", [&](int64_t stage) {
      return stage == 0 || stage == stages - 1 ? breakdown.shared : Seconds(0);
    });
    const auto alike = [&](std::string_view name) {
      together(name, [&](int64_t) { return termNamed(name); });
    };
    alike("synchronization");
    together("optimizer", [&](int64_t stage) { return at(stage).optimizer; });
    together("parameter_gather",
             [&](int64_t stage) { return at(stage).exposedGather; });
    alike("stragglers");
  }

  std::vector<StepSpan> spans;

private:
  const StageBreakdown &at(int64_t stage) const {
    return breakdown.stages[static_cast<size_t>(stage)];
  }
  Seconds termNamed(std::string_view name) const {
    const auto found =
        std::find_if(estimate.terms.begin(), estimate.terms.end(),
                     [&](const Term &term) { return term.name == name; });
    assert(found != estimate.terms.end() && "an estimate has all its terms");
    return found->time;
  }
  void add(const StepSpan &span) {
    if (span.end > span.begin)
      spans.push_back(span);
  }

  const Estimate &estimate;
  const Breakdown &breakdown;
};

} // namespace

int64_t actionsOfStep(const Plan &plan) {
  constexpr int64_t kinds = 7; // that take time
  return checkedMul(checkedMul(kinds * plan.pp, plan.chunks),
                    chunkMicrobatches(plan.schedule, plan.microbatches()));
}

std::vector<StepSpan> traceStep(const Program &program,
                                const Hardware &hardware,
                                const Profile &profile, const Plan &plan) {
  Breakdown breakdown;
  const Estimate estimate = estimateTime(program, hardware, profile, plan,
                                         /*cache=*/nullptr, &breakdown);
  Tracer tracer(estimate, breakdown);
  tracer.addSchedule(plan);
  tracer.addEnd();
  return std::move(tracer.spans);
}

} // namespace shardwright::cost
