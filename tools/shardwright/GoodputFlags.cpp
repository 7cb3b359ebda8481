#include "tools/shardwright/GoodputFlags.h"

#include "cost_model/search/Report.h"
#include "tools/shardwright/Constraints.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <sstream>

namespace shardwright::tools {

using namespace cost;

namespace {

/// What nobody said: a file system that takes 1 GB/s of every node, ten minutes
/// to find and replace what failed (MegaScale, arXiv 2402.15627, section 6.3:
/// detected and diagnosed in less than ten minutes), and PCIe 4 x16.
constexpr double kStoragePerNode = 1e9, kRestart = 600, kHostCopy = 25e9;
constexpr const char *kFailures = "llama-3";

std::string presetNames() {
  return wordsOf(failurePresets(), [](const FailurePreset &preset) {
    return std::string(preset.name);
  });
}

std::string durationText(double seconds) {
  char text[64];
  if (seconds >= 2 * 86400)
    std::snprintf(text, sizeof(text), "%.1f days", seconds / 86400);
  else if (seconds >= 2 * 3600)
    std::snprintf(text, sizeof(text), "%.1f h", seconds / 3600);
  else if (seconds >= 120)
    std::snprintf(text, sizeof(text), "%.1f min", seconds / 60);
  else
    return secondsText(Seconds(seconds));
  return text;
}

} // namespace

std::string checkAmount(const std::string &text) {
  double value = 0;
  // CLI11's own ranges let NaN pass.
  if (parseNumber(text, value) && value >= 0 && value <= 1e30)
    return "";
  return "expected a number from 0 to 1e30, but got " + text;
}

void GoodputFlags::add(CLI::App &command) {
  const auto number = [&](const char *flag, double &value, const char *help) {
    command.add_option(flag, value, help)
        ->check(checkAmount)
        ->group("Goodput");
  };
  command
      .add_flag("--goodput", wanted,
                "Say what failures, checkpoints and restarts leave of it; the "
                "flags below imply it")
      ->group("Goodput");
  number("--tokens", tokens, "Tokens to train on: time, GPU-hours and money");
  command
      .add_option("--failures", failures,
                  "Failures of a GPU and day, or a preset: " + presetNames() +
                      " (default: the cluster file's, or " + kFailures + ")")
      ->group("Goodput");
  number("--restart", restart, "Seconds from a failure to the first step");
  number("--storage", storage,
         "Bytes a second that the shared file system takes (default: the "
         "cluster file's, or 1e9 a node)");
  command
      .add_flag("--async-checkpoint", asynchronous,
                "Copy checkpoints to the host and write them beside training")
      ->group("Goodput");
  number("--checkpoint-interval", interval,
         "Seconds between checkpoints (default: the best)");
  number("--price", price, "Money for a GPU and hour");
}

bool GoodputFlags::any() const {
  return wanted || asynchronous || !failures.empty() || tokens >= 0 ||
         restart >= 0 || storage >= 0 || interval >= 0 || price >= 0;
}

bool answerGoodput(const GoodputFlags &flags, const Program &program,
                   const Hardware &hardware, const Plan &plan,
                   const Estimate &estimate, GoodputAnswer &answer,
                   Failure &failure) {
  GoodputQuestion &question = answer.question;
  question.operations = hardware.operations;
  Operations &operations = question.operations;
  const auto assume = [&](const std::string &text) {
    answer.assumptions.push_back(text);
  };
  answer.failureSource = operations.failureSource;
  std::string preset = operations.failureSource.empty() ? kFailures : "";
  if (!flags.failures.empty()) {
    preset.clear();
    answer.failureSource = "--failures";
    if (!parseNumber(flags.failures, operations.failuresPerDeviceDay))
      preset = flags.failures;
    else if (operations.failuresPerDeviceDay < 0 ||
             operations.failuresPerDeviceDay > 1e4) {
      return refuse(failure, Diag::flag_value,
                    "--failures " + flags.failures +
                        ": expected failures of a GPU and day from 0 to 10000");
    }
  } else if (!preset.empty()) {
    assume("failures as in preset " + preset);
  }
  if (!preset.empty()) {
    const FailurePreset *found = failurePreset(preset);
    if (!found) {
      return refuse(failure, Diag::flag_value,
                    "--failures " + flags.failures +
                        ": expected a number or one of " + presetNames());
    }
    operations.failuresPerDeviceDay = found->perDeviceDay;
    answer.failureSource = found->source;
  }
  if (flags.restart >= 0) {
    operations.restart = Seconds(flags.restart);
  } else if (hardware.operations.failureSource.empty()) {
    operations.restart = Seconds(kRestart);
    assume("a restart takes " + durationText(kRestart) +
           " and the reading of a checkpoint");
  }
  if (flags.storage >= 0) {
    operations.storageWrite = BytesPerSecond(flags.storage);
  } else if (hardware.operations.storageSource.empty()) {
    operations.storageWrite =
        BytesPerSecond(kStoragePerNode * static_cast<double>(hardware.nodes));
    assume("the file system takes 1 GB/s of every node");
  }
  if (operations.storageWrite.count() < 1) {
    return refuse(failure, Diag::flag_value,
                  "storage (--storage or the cluster's): expected at least one "
                  "byte a second, but got " +
                      std::to_string(operations.storageWrite.count()));
  }
  if (flags.price >= 0)
    operations.pricePerDeviceHour = flags.price;
  question.asynchronous = flags.asynchronous;
  question.hostCopy = BytesPerSecond(kHostCopy);
  if (flags.asynchronous)
    assume("a device copies 25 GB/s to its host");
  question.interval = Seconds(std::max(0.0, flags.interval));
  question.tokens = std::max(0.0, flags.tokens);
  question.devices = plan.ranks();
  question.nodes = hardware.nodes;
  question.step = estimate.stepTime;
  question.tokensPerStep = static_cast<double>(plan.globalBatch) *
                           static_cast<double>(plan.sequence);
  question.checkpoint =
      checkpointBytes(static_cast<double>(parameterCount(program)),
                      plan.dtypes);
  assume("4 bytes are read for a token");
  answer.result = goodput(question);
  return true;
}

std::string goodputText(const GoodputAnswer &answer) {
  const GoodputQuestion &question = answer.question;
  const Goodput &result = answer.result;
  std::ostringstream out;
  const auto percent = [](double share) { return percentText(share); };
  out << "goodput\n"
      << "failures    " << countText(result.failuresPerDay)
      << " a day of the job, one in "
      << durationText(result.meanTimeBetween.count()) << "\n"
      << "checkpoint  "
      << bytesText(Bytes(static_cast<int64_t>(question.checkpoint))) << ", "
      << durationText(result.write.count()) << " to write, "
      << durationText(result.stall.count()) << " of them training waits\n"
      << "interval    " << durationText(result.shared.interval.count())
      << ": checkpoints take " << percent(result.shared.checkpointing)
      << ", work done again " << percent(result.shared.repeating) << "\n";
  if (result.twoTiers)
    out << "on nodes    every " << durationText(result.node.interval.count())
        << ": checkpoints take " << percent(result.node.checkpointing)
        << ", work done again " << percent(result.node.repeating) << "\n";
  out << "restarts    " << percent(result.restarting) << "\n"
      << "useful      " << percent(result.useful) << " of the time\n"
      << "tokens      " << countText(result.tokensPerDay) << " a day, "
      << siText(result.dataBytesPerSecond) << "B/s of data\n";
  if (question.tokens > 0) {
    if (result.tokensPerDay <= 0)
      out << "training    never ends: failures leave no time\n";
    else
      out << "training    " << countText(question.tokens) << " tokens in "
          << durationText(result.days * 86400) << ", "
          << countText(result.deviceHours) << " GPU-hours"
          << (question.operations.pricePerDeviceHour > 0
                  ? ", " + countText(result.money) + " " +
                        (question.operations.currency.empty()
                             ? std::string("to pay")
                             : question.operations.currency)
                  : std::string())
          << "\n";
  }
  out << "failures by: " << answer.failureSource << "\n";
  for (const std::string &text : answer.assumptions)
    out << "assumed: " << text << "\n";
  return out.str();
}

Json goodputJson(const GoodputAnswer &answer) {
  const GoodputQuestion &question = answer.question;
  const Goodput &result = answer.result;
  const auto tier = [](const CheckpointInterval &interval) {
    return Json{{"interval_seconds", interval.interval.count()},
                {"checkpointing_share", interval.checkpointing},
                {"repeating_share", interval.repeating}};
  };
  Json json = {
      {"failures_per_gpu_day", question.operations.failuresPerDeviceDay},
      {"failures_per_day", result.failuresPerDay},
      {"failure_source", answer.failureSource},
      {"checkpoint_bytes", question.checkpoint},
      {"storage_bytes_per_second", question.operations.storageWrite.count()},
      {"checkpoint_write_seconds", result.write.count()},
      {"checkpoint_stall_seconds", result.stall.count()},
      {"shared", tier(result.shared)},
      {"restart_seconds", question.operations.restart.count()},
      {"restarting_share", result.restarting},
      {"useful_share", result.useful},
      {"tokens_per_day", result.tokensPerDay},
      {"data_bytes_per_second", result.dataBytesPerSecond},
      {"assumptions", answer.assumptions}};
  if (result.failuresPerDay > 0)
    json["mean_time_between_failures_seconds"] = result.meanTimeBetween.count();
  if (result.twoTiers) {
    json["node"] = tier(result.node);
    json["node_stall_seconds"] = result.nodeStall.count();
  }
  if (question.tokens > 0) {
    json["tokens"] = question.tokens;
    json["days"] = result.tokensPerDay > 0 ? Json(result.days) : Json();
    json["gpu_hours"] =
        result.tokensPerDay > 0 ? Json(result.deviceHours) : Json();
    if (question.operations.pricePerDeviceHour > 0) {
      json["money"] = result.tokensPerDay > 0 ? Json(result.money) : Json();
      json["currency"] = question.operations.currency;
    }
  }
  return json;
}

bool parseSlowRanks(const std::vector<std::string> &texts, int64_t ranks,
                    std::vector<SlowRank> &slow, Failure &failure) {
  for (const std::string &text : texts) {
    const size_t colon = text.find(':');
    SlowRank entry{};
    if (colon == std::string::npos ||
        !parseInteger(text.substr(0, colon), entry.rank) ||
        !parseNumber(text.substr(colon + 1), entry.speed) || entry.rank < 0 ||
        entry.rank >= ranks || entry.speed < 0.001 || entry.speed > 1) {
      return refuse(failure, Diag::flag_value,
                    "--slow-rank " + text +
                        ": expected RANK:SPEED with a rank below " +
                        std::to_string(ranks) +
                        " and a speed from 0.001 to 1, such as 17:0.9");
    }
    slow.push_back(entry);
  }
  return true;
}

} // namespace shardwright::tools
