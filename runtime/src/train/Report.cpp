//===- Report.cpp - Steps and the summary ---------------------------------===//
#include "runtime/src/train/Report.h"

#include <nlohmann/json.hpp>

#include <cstdio>

#include <sys/resource.h>

namespace shardwright::runtime {

using Json = nlohmann::json;

std::string stepText(const StepLine &line) {
  char text[160];
  std::snprintf(text, sizeof(text),
                "step %lld  loss %.6f  grad norm %.6f  %.3f s  %.0f tokens/s",
                static_cast<long long>(line.step), line.result.loss,
                line.result.gradientNorm, line.seconds, line.tokensPerSecond);
  return text;
}

std::string stepJson(const StepLine &line) {
  char text[256];
  std::snprintf(text, sizeof(text),
                "{\"step\": %lld, \"loss\": %.17g, \"grad_norm\": %.17g, "
                "\"seconds\": %.6f, \"tokens_per_second\": %.1f}",
                static_cast<long long>(line.step), line.result.loss,
                line.result.gradientNorm, line.seconds, line.tokensPerSecond);
  return text;
}

std::string rankReport(const sw_rt_context &context, const Trainer &trainer,
                       const Ledger &ledger, bool stepsAgree) {
  Json collectives = Json::array(), flops = Json::object(),
       memory = Json::object(), highWater = Json::object();
  for (const auto &[key, entry] : ledger.collectives) {
    const auto &[call, axis, phase] = key;
    collectives.push_back({{"collective", name(call)},
                           {"axis", axis},
                           {"phase", name(phase)},
                           {"calls", entry.calls},
                           {"payload_bytes", entry.payloadBytes}});
  }
  for (int phase = 0; phase < SW_RT_PHASES; ++phase)
    if (const int64_t count = ledger.flops[static_cast<size_t>(phase)])
      flops[name(static_cast<sw_rt_phase>(phase))] = count;
  const Arena &arena = trainer.getArena();
  for (int i = 0; i < Arena::Parts; ++i) {
    const Arena::Part part = static_cast<Arena::Part>(i);
    const std::string key = std::string(Arena::name(part)) + "_bytes";
    memory[key] = arena.bytes(part);
    highWater[key] = arena.highWater(part);
  }
  memory["total_bytes"] = arena.totalBytes();
  Json device = Json::object();
  for (const auto &[key, value] : context.device->counters())
    device[key] = value;
  Json report = {
      {"rank", context.rank()},
      {"device", device},
      {"stage", trainer.getStage().index},
      {"ledger",
       {{"collectives", collectives}, {"flops", flops}, {"memory", memory}}},
      {"steps_agree", stepsAgree},
      {"high_water", highWater},
      {"communication_seconds",
       static_cast<double>(context.communicationNanoseconds) / 1e9}};
  return report.dump();
}

std::string summaryJson(const sw_rt_program &program, const Mesh &mesh,
                        const RunFacts &facts,
                        const std::vector<std::string> &ranks) {
  const Json predicted =
      Json::parse(program.predicted ? program.predicted : "", nullptr, false);
  bool ranksAgree = true, stepsAgree = true, predictionAgrees = true;
  const bool hasPrediction =
      predicted.is_array() &&
      static_cast<int32_t>(predicted.size()) == program.num_stages;
  Json ledgers = Json::array(), perRank = Json::array();
  for (const std::string &text : ranks) {
    Json report = Json::parse(text);
    Json ledger = report["ledger"];
    const size_t stage = report["stage"];
    stepsAgree = stepsAgree && report["steps_agree"];
    if (stage == ledgers.size()) {
      ledger["stage"] = stage;
      ledger["rank"] = report["rank"];
      ledgers.push_back(ledger);
      if (hasPrediction)
        for (const char *key : {"collectives", "flops", "memory"})
          predictionAgrees = predictionAgrees &&
                             predicted[stage].contains(key) &&
                             predicted[stage][key] == ledger[key];
    } else {
      for (const char *key : {"collectives", "flops", "memory"})
        ranksAgree = ranksAgree && ledgers[stage][key] == ledger[key];
    }
    Json facts = {{"rank", report["rank"]},
                  {"stage", stage},
                  {"high_water", report["high_water"]},
                  {"communication_seconds", report["communication_seconds"]}};
    if (!report["device"].empty())
      facts["device"] = report["device"];
    perRank.push_back(facts);
  }
  Json axes = Json::object();
  for (const Mesh::Axis &axis : mesh.getAxes())
    axes[axis.name] = axis.size;
  const double tokens = static_cast<double>(facts.steps * program.global_batch *
                                            program.sequence);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Json summary = {
      {"model", program.model},
      {"backend", facts.backend},
      {"device", facts.device},
      {"ranks", mesh.ranks()},
      {"mesh", axes},
      {"steps", facts.steps},
      {"seconds", facts.seconds},
      {"tokens_per_second", facts.seconds > 0 ? tokens / facts.seconds : 0.0},
      {"loss", facts.last.loss},
      {"grad_norm", facts.last.gradientNorm},
      {"ledger", ledgers},
      {"ledger_equal_on_ranks_of_a_stage", ranksAgree},
      {"ledger_equal_in_all_steps", stepsAgree},
      {"ledger_equals_prediction",
       hasPrediction ? Json(predictionAgrees) : Json()},
      {"canaries", "whole"},
      {"per_rank", perRank},
      {"process_peak_resident_bytes", int64_t(usage.ru_maxrss) * 1024}};
  return Json{{"summary", summary}}.dump();
}

sw_rt_status shareUnbooked(sw_rt_context &context, void *bytes, int64_t count) {
  if (context.rank() != 0)
    return receiveUnbooked(context, 0, bytes, count);
  for (int peer = 1; peer < context.mesh.ranks(); ++peer)
    if (sw_rt_status status = sendUnbooked(context, peer, bytes, count))
      return status;
  return SW_RT_OK;
}

sw_rt_status gatherTexts(sw_rt_context &context, const std::string &text,
                         std::vector<std::string> &texts) {
  texts.clear();
  auto even = [](int64_t bytes) { return (bytes + 1) / 2 * 2; };
  int64_t length = static_cast<int64_t>(text.size());
  if (context.rank() != 0) {
    std::string padded = text;
    padded.resize(static_cast<size_t>(even(length)));
    if (sw_rt_status status = sendUnbooked(context, 0, &length, 8))
      return status;
    return sendUnbooked(context, 0, padded.data(), even(length));
  }
  texts.push_back(text);
  for (int peer = 1; peer < context.mesh.ranks(); ++peer) {
    if (sw_rt_status status = receiveUnbooked(context, peer, &length, 8))
      return status;
    std::string other(static_cast<size_t>(even(length)), 0);
    if (sw_rt_status status =
            receiveUnbooked(context, peer, other.data(), even(length)))
      return status;
    other.resize(static_cast<size_t>(length));
    texts.push_back(std::move(other));
  }
  return SW_RT_OK;
}

} // namespace shardwright::runtime
