//===- TraceFile.cpp - A predicted step as a chrome trace -----------------===//
#include "tools/shardwright/TraceFile.h"

#include "cost_model/base/Format.h"
#include "cost_model/estimate/StepTrace.h"
#include "tools/shardwright/PlanJson.h"

namespace shardwright::tools {

using namespace cost;

namespace {

/// The lines of a rank's thread.
int threadOf(const StepSpan &span) {
  if (!span.beside)
    return 0;
  return span.name == name(ActionKind::SendForward) ? 1 : 2;
}

Json metadata(const char *what, int64_t rank, int thread,
              const std::string &label) {
  return {{"name", what},
          {"ph", "M"},
          {"pid", rank},
          {"tid", thread},
          {"args", {{"name", label}}}};
}

Json eventOf(const StepSpan &span, int64_t rank) {
  constexpr double microseconds = 1e6;
  Json event = {{"name", std::string(span.name)},
                {"cat", span.microbatch < 0 ? "term" : "action"},
                {"ph", "X"},
                {"pid", rank},
                {"tid", threadOf(span)},
                {"ts", microseconds * span.begin.count()},
                {"dur", microseconds * (span.end - span.begin).count()}};
  if (span.microbatch >= 0)
    event["args"] = {{"microbatch", span.microbatch}, {"chunk", span.chunk}};
  return event;
}

} // namespace

bool checkTrace(const std::string &path, const Plan &plan, Failure &failure) {
  const int64_t actions = actionsOfStep(plan);
  return path.empty() || actions <= kMostTracedActions ||
         refuse(failure, Diag::flag_value,
                "--trace " + path + ": a step of this plan has up to " +
                    groupedText(actions) +
                    " actions, expected at most " +
                    groupedText(kMostTracedActions) +
                    ": ask with a smaller --global-batch");
}

std::string traceText(const Question &question, const Plan &plan) {
  const int64_t stride = pipelineStride(plan);
  std::string text = "{\"schema\": \"shardwright.trace/1\",\n\"traceEvents\": [";
  const char *separator = "\n";
  const auto add = [&](const Json &event) {
    text += separator + event.dump();
    separator = ",\n";
  };
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    const int64_t rank = stage * stride;
    add(metadata("process_name", rank, 0,
                 "rank " + std::to_string(rank) + " stage " +
                     std::to_string(stage)));
    add(metadata("thread_name", rank, 0, "rank"));
    if (plan.pp > 1 && question.profile.overlapTransfers) {
      add(metadata("thread_name", rank, 1, "sent forward"));
      add(metadata("thread_name", rank, 2, "sent backward"));
    }
  }
  for (const StepSpan &span :
       traceStep(question.model.program, question.cluster.hardware,
                 question.profile, plan))
    add(eventOf(span, span.stage * stride));
  return text + "\n]}\n";
}

} // namespace shardwright::tools
