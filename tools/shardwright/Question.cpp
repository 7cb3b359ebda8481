#include "tools/shardwright/Question.h"

#include "cost_model/base/Format.h"
#include "cost_model/hardware/Kernel.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

bool parseSizes(const std::string &text, int64_t least, int64_t most,
                std::vector<int64_t> &sizes, std::string &problem) {
  const size_t dots = text.find("..");
  const size_t colon = text.find(':');
  int64_t first = 0, last = 0, step = 1;
  bool read = parseInteger(text.substr(0, std::min(dots, colon)), first);
  last = first;
  if (dots != std::string::npos)
    read = read && parseInteger(text.substr(dots + 2, colon == std::string::npos
                                                          ? colon
                                                          : colon - dots - 2),
                                last);
  if (colon != std::string::npos)
    read = read && dots != std::string::npos && dots < colon &&
           parseInteger(text.substr(colon + 1), step);
  problem.clear();
  if (!read || step < 1)
    problem = "expected a number, A..B or A..B:STEP, but got " + text;
  else if (first > last)
    problem = "expected A <= B in A..B, but got " + text;
  else if (first < least || last > most)
    problem = "expected numbers from " + std::to_string(least) + " to " +
              std::to_string(most) + ", but got " + text;
  else if ((last - first) / step >= kMostSizes)
    problem = "expected at most " + std::to_string(kMostSizes) +
              " sizes, but got " + std::to_string((last - first) / step + 1) +
              " of " + text + "; A..B:STEP takes every STEP-th";
  if (!problem.empty())
    return false;
  sizes.clear();
  for (int64_t size = first; size <= last; size += step)
    sizes.push_back(size);
  return true;
}

namespace {

/// CLI11's own ranges let NaN pass.
std::string checkSeconds(const std::string &text) {
  double value = 0;
  if (parseNumber(text, value) && value >= 1e-3 && value <= 1e9)
    return "";
  return "expected seconds from 0.001 to 1e9, but got " + text;
}

/// An option that takes a number or, if `choices` is not null, a range.
void addSize(CLI::App &command, const char *flag, const std::string &help,
             int64_t most, int64_t &value, std::vector<int64_t> *choices) {
  if (!choices) {
    command.add_option(flag, value, help)
        ->check(CLI::Range(int64_t(1), most))
        ->group("Question");
    return;
  }
  command
      .add_option_function<std::string>(
          flag,
          [=, &value](const std::string &text) {
            std::string problem;
            if (!parseSizes(text, 1, most, *choices, problem))
              throw CLI::ValidationError(flag, problem);
            value = choices->back();
          },
          help + "; a number, or A..B or A..B:STEP to choose within")
      ->group("Question");
}

} // namespace

void QuestionFlags::add(CLI::App &command, bool clusterRequired, bool ranges) {
  CLI::Option *option =
      command
          .add_option("--cluster", cluster,
                      "Cluster file, or the name of a shipped one (dgx-h100)")
          ->group("Question");
  if (clusterRequired)
    option->required();
  addSize(command, "--gpus", "GPUs to use (default: the whole cluster)",
          int64_t(1) << 18, gpus, ranges ? &gpusChoices : nullptr);
  addSize(command, "--global-batch",
          "Sequences of a step (default: 16,384 tokens a GPU)",
          int64_t(1) << 31, globalBatch, ranges ? &batchChoices : nullptr);
  command
      .add_option("--sequence", sequence,
                  "Tokens of a sequence (default: the config's longest)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->group("Question");
  addMachineless(command);
}

void QuestionFlags::addMachineless(CLI::App &command) {
  command
      .add_option("--profile", profile,
                  "Whose software runs the plan: a profile's name or file")
      ->capture_default_str()
      ->group("Question");
  command
      .add_option("--runs-on", runsOn,
                  "Framework that has to be able to run the plan: " +
                      frameworkNames() + " (default: the profile's)")
      ->group("Question");
  command
      .add_option("--dtype", dtype,
                  "bf16, f32 or f64 (default: bf16 on GPUs, f32 on a host)")
      ->group("Question");
  command
      .add_option(
          "--products", products,
          "Products of layers: " + namesOf(narrows) +
              "; any: what device and framework have, for the search to "
              "choose (default: none, in the type of --dtype)")
      ->group("Question");
  command
      .add_option(
          "--gradients", gradients,
          "Type in which gradients are kept and summed: f32 or bf16, or "
          "any of the framework's (default: the profile's)")
      ->group("Question");
  command
      .add_option("--memory-limit", memoryLimit,
                  "Memory below which a rank has to stay, such as 70GiB (default: what the "
                  "device leaves)")
      ->group("Question");
}

void SearchFlags::add(CLI::App &command) {
  command
      .add_option("--fix", constraints.fix,
                  "Pin fields of the plan: tp=8, sp=on, recompute=full:2, "
                  "schedule=1f1b, ... (repeatable; fields: " + fieldNames() +
                      ")")
      ->group("Search");
  command
      .add_option("--max", constraints.max,
                  "Limit fields of the plan: tp=8, microbatch=4, ... "
                  "(repeatable)")
      ->group("Search");
  command
      .add_option("--forbid", constraints.forbid,
                  "Values that no field may have: tp=16, recompute=full, "
                  "sp=off, ...; each by itself (repeatable)")
      ->group("Search");
  command
      .add_option("--threads", threads,
                  "Threads of the search; the answer does not depend on them "
                  "(default: one a core, at most 3)")
      ->check(CLI::Range(1, 256))
      ->group("Search");
  command
      .add_option("--time-limit", timeLimit,
                  "Seconds after which the search gives what it has, and says "
                  "how far that may be from the best (so does Ctrl-C)")
      ->check(checkSeconds)
      ->group("Search");
}

void SearchFlags::addObjective(CLI::App &command) {
  command
      .add_option("--objective", objective,
                  "What the best plan is best at: " + namesOf(objectives) +
                      ". time: of a step, or of a token if sizes are ranges; "
                      "goodput: tokens kept a second after failures; memory: of "
                      "the fullest rank; money: for a token kept")
      ->capture_default_str()
      ->group("Search");
  command
      .add_option("--pareto", pareto,
                  "List every plan that no other beats in both of two "
                  "objectives, such as time,memory or time,money")
      ->delimiter(',')
      ->expected(2)
      ->group("Search");
  goodput.add(command);
}

void SearchFlags::addListing(CLI::App &command) {
  command
      .add_flag("--every-split", everySplit,
                "List plans that differ only in layers per stage or in what "
                "recomputes, too")
      ->group("Search");
  command.add_option("--top", top, "Plans to list, best first")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), int64_t(1000)))
      ->group("Search");
}

namespace {

/// --products and --gradients: one value for the base plan, or a free choice.
bool readTypes(const QuestionFlags &flags, Question &question,
               Failure &failure) {
  const FrameworkFacts &able = factsOf(question.framework);
  const Device &device = question.cluster.hardware.device;
  DTypes &dtypes = question.base.dtypes;
  const auto priced = [&](Narrow narrow) {
    return narrow == Narrow::None || narrowRate(device, narrow).speedup > 0;
  };
  if (flags.products == "any") {
    for (Narrow narrow : able.products)
      if (priced(narrow))
        question.products.push_back(narrow);
  } else if (!flags.products.empty()) {
    const auto found = std::find_if(
        std::begin(narrows), std::end(narrows),
        [&](Narrow narrow) { return flags.products == name(narrow); });
    if (found == std::end(narrows))
      return refuse(failure, Diag::flag_value,
                    "--products " + flags.products +
                        ": expected any, " + namesOf(narrows));
    if (!priced(*found))
      return refuse(failure, Diag::no_rate_for_dtype,
                    "--products " + flags.products + ": '" + device.name +
                        "' has no rate for it");
    dtypes.products = *found;
  }
  if (flags.gradients == "any") {
    if (dtypes.compute == DType::BF16)
      question.gradients = able.gradients;
  } else if (flags.gradients == "f32" || flags.gradients == "bf16") {
    dtypes.grad = dtypes.reduce =
        flags.gradients == "f32" ? DType::F32 : DType::BF16;
  } else if (!flags.gradients.empty()) {
    return refuse(failure, Diag::flag_value,
                  "--gradients " + flags.gradients +
                      ": expected f32, bf16 or any");
  }
  return true;
}

/// Of whose files one rate may have been changed without the other.
void noteLinks(const std::string &cluster, Question &question) {
  const Hardware &hardware = question.cluster.hardware;
  const double rings = ringRate(hardware.fabric).count(),
               links = hardware.levels.front().bandwidth.count();
  if (hardware.fabric.model == CollectiveModel::Nccl && rings < links / 2 &&
      !shippedHardware(cluster))
    question.model.notes.push_back(
        cluster + ": reductions and gathers inside a node are priced by "
                  "/collectives (ring_channels * channel_bytes_per_second, " +
        siText(rings) + "B/s); /levels/0 (" + siText(links) +
        "B/s) prices sends and all-to-alls alone");
}

} // namespace

bool readQuestion(const std::string &model, const QuestionFlags &flags,
                  int64_t sequence, Question &question, Failure &failure) {
  Bytes limit;
  DTypes dtypes;
  if (!flags.memoryLimit.empty() && !parseBytes(flags.memoryLimit, limit))
    refuse(failure, Diag::flag_value,
           "--memory-limit " + flags.memoryLimit +
               ": expected a size such as 70GiB");
  if (!flags.dtype.empty() && !parseDTypes(flags.dtype, dtypes))
    refuse(failure, Diag::flag_value,
           "--dtype " + flags.dtype + ": expected bf16, f32 or f64");
  Framework runsOn = Framework::Native;
  if (!flags.runsOn.empty() && !parseFramework(flags.runsOn, runsOn))
    refuse(failure, Diag::flag_value,
           "--runs-on " + flags.runsOn + ": expected " + frameworkNames());
  if (!failure.messages.empty())
    return false;
  if (!loadModel(model, sequence ? sequence : flags.sequence, question.model,
                 failure) ||
      !loadCluster(flags.cluster, question.cluster, failure) ||
      !loadProfile(flags.profile, question.profile, failure))
    return false;
  noteLinks(flags.cluster, question);
  question.framework =
      flags.runsOn.empty() ? question.profile.framework : runsOn;
  question.compiled =
      !flags.runsOn.empty() && runsOn == Framework::Native;

  const Hardware &hardware = question.cluster.hardware;
  Plan &base = question.base;
  base.modelName = question.model.program.name;
  base.modelSha256 = question.model.sha256;
  base.clusterName = hardware.name;
  base.clusterSha256 = question.cluster.sha256;
  base.sequence = question.model.program.sequence;
  base.dtypes = question.profile.dtypes;
  if (!flags.dtype.empty())
    base.dtypes = dtypes;
  else if (hardware.device.peakOf(base.dtypes.compute).count() <= 0)
    parseDTypes("f32", base.dtypes); // the device has no 16-bit arithmetic
  if (hardware.device.peakOf(base.dtypes.compute).count() <= 0)
    return refuse(failure, Diag::no_rate_for_dtype,
                  "--dtype " + flags.dtype + ": '" + hardware.device.name +
                      "' has no rate for " +
                      std::string(name(base.dtypes.compute)));
  if (!readTypes(flags, question, failure))
    return false;
  question.memoryLimit =
      flags.memoryLimit.empty() ? hardware.device.usable : limit;
  if (question.memoryLimit > hardware.device.usable)
    question.model.notes.push_back(
        "--memory-limit " + flags.memoryLimit + " is more than the " +
        bytesText(hardware.device.usable) + " that a rank of " +
        hardware.name + " can use: plans are for a device that has it");
  return true;
}

bool sizeQuestion(Question &question, int64_t gpus, Failure &failure) {
  if (!resizeCluster(question.cluster, gpus, failure))
    return false;
  const Hardware &hardware = question.cluster.hardware;
  if (hardware.name == "host" && hardware.nodes > 1)
    question.model.notes.push_back(
        "cluster host: " + std::to_string(hardware.ranks()) +
        " ranks are priced as " + std::to_string(hardware.nodes) +
        " such machines; on one machine they share its cores and its memory");
  return true;
}

} // namespace shardwright::tools
