#include "tools/shardwright/Question.h"

#include "cost_model/hardware/Kernel.h"
#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Constraints.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ostream>
#include <set>
#include <thread>

namespace shardwright::tools {

using namespace cost;

void QuestionFlags::add(CLI::App &command, bool clusterRequired) {
  CLI::Option *option =
      command
          .add_option("--cluster", cluster,
                      "Cluster file, or the name of a shipped one (dgx-h100)")
          ->group("Question");
  if (clusterRequired)
    option->required();
  command.add_option("--gpus", gpus, "GPUs to use (default: the whole cluster)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 18))
      ->group("Question");
  command
      .add_option("--global-batch", globalBatch,
                  "Sequences of a step (default: 16,384 tokens a GPU)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31))
      ->group("Question");
  command
      .add_option("--sequence", sequence,
                  "Tokens of a sequence (default: the config's longest)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31))
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
                  "Framework that has to be able to run the plan: native, "
                  "megatron-core, torchtitan or deepspeed (default: the "
                  "profile's)")
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
                  "Memory that a rank may use, such as 70GiB (default: what the "
                  "device leaves)")
      ->group("Question");
}

void SearchFlags::add(CLI::App &command) {
  command
      .add_option("--fix", fix,
                  "Pin fields of the plan: tp=8, sp=on, recompute=full:2, "
                  "schedule=1f1b, ... (repeatable)")
      ->group("Search");
  command
      .add_option("--max", max,
                  "Limit fields of the plan: tp=8, microbatch=4, ... "
                  "(repeatable)")
      ->group("Search");
  command
      .add_option("--threads", threads,
                  "Threads of the search; the answer does not depend on them "
                  "(default: one a core)")
      ->check(CLI::Range(1, 256))
      ->group("Search");
  command
      .add_option("--time-limit", timeLimit,
                  "Seconds after which the search gives what it has, and says "
                  "how far that may be from the best (so does Ctrl-C)")
      ->check(CLI::Range(0.001, 1e9))
      ->group("Search");
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
  question.framework =
      flags.runsOn.empty() ? question.profile.framework : runsOn;

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

namespace {

/// Doubles the GPUs until a plan fits, to 64 times what was asked.
void tryMoreGpus(const Question &question, SearchAnswer &answer) {
  SearchOptions options = answer.options;
  options.top = 1;
  for (int factor = 2; factor <= 64; factor *= 2) {
    Failure ignored;
    Hardware larger;
    options.gpus = answer.options.gpus * factor;
    if (!resized(question.cluster.hardware, options.gpus, larger, ignored))
      continue;
    ProgramEstimator estimator(question.model.program, larger, question.profile,
                               question.base, question.framework, options);
    SearchResult result = cost::search(estimator, options);
    if (result.plans.empty())
      continue;
    answer.gpusThatFit = options.gpus;
    answer.onMoreGpus = result.plans.front();
    return;
  }
}

/// Distinct messages of the rules that reject every mesh, in order.
std::vector<Message> brokenRules(const SearchResult &result) {
  std::vector<Message> messages;
  std::set<std::string> seen;
  for (const RejectedFamily &family : result.rejected)
    for (const Violation &violation : family.violations)
      if (seen.insert(violation.message).second)
        messages.emplace_back(violation.id, violation.message);
  return messages;
}

std::string numbers(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

} // namespace

Failure whyNothing(const Question &question, const SearchAnswer &answer) {
  const Program &program = question.model.program;
  const int64_t gpus = answer.options.gpus;
  Failure failure;
  auto &notes = failure.notes;
  if (answer.smallest) {
    const RankedPlan &plan = *answer.smallest;
    size_t stage = 0;
    fullestStage(plan.estimate, stage);
    Bytes missing = plan.memory - answer.options.memoryLimit + Bytes(1);
    refuse(failure, Diag::no_plan_fits,
           "no plan fits: the smallest needs " + bytesText(plan.memory) +
               " on a rank of stage " + std::to_string(stage) + ", and " +
               bytesText(answer.options.memoryLimit) + " are usable");
    notes.push_back("the smallest: " + planText(program, plan.plan));
    notes.push_back("to fit, it must shed " + bytesText(missing) +
                    " a rank: more GPUs, a shorter sequence, a smaller model, "
                    "or fewer --fix");
    if (answer.onMoreGpus)
      notes.push_back("on " + std::to_string(answer.gpusThatFit) +
                      " GPUs a plan fits: " +
                      planText(program, answer.onMoreGpus->plan));
    return failure;
  }
  if (!answer.result.counters.proven) {
    refuse(failure, Diag::search_stopped,
           "no plan was found before the search was stopped");
    return failure;
  }
  std::vector<Message> rules = brokenRules(answer.result);
  if (rules.empty()) {
    refuse(failure, Diag::no_mesh,
           "no mesh of " + std::to_string(gpus) +
               " GPUs obeys --fix and --max: tp * pp * dp * cp must be " +
               std::to_string(gpus) + ", whose divisors are " +
               numbers(divisors(gpus)) +
               ", and microbatch * dp must divide the global batch of " +
               std::to_string(answer.options.globalBatch));
    return failure;
  }
  refuse(failure, Diag::no_plan_is_legal, "no plan is legal:");
  failure.messages.insert(failure.messages.end(), rules.begin(), rules.end());
  return failure;
}

namespace {

std::atomic<bool> interrupted = false;

/// Ctrl-C ends the search, not the process; a second one ends that, too.
class InterruptGuard {
public:
  InterruptGuard() {
    interrupted = false;
    before = std::signal(SIGINT, [](int) {
      interrupted = true;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~InterruptGuard() { std::signal(SIGINT, before); }

private:
  void (*before)(int);
};

/// How far the answer of a search that was stopped may be from the best.
std::string openText(const SearchResult &result) {
  std::string text = "stopped: " + groupedText(result.counters.open) +
                     " plans were not looked at; none of them takes less than " +
                     secondsText(result.openBound);
  if (!result.plans.empty())
    text += ", so the best is at most " +
            percentText(1 - result.openBound.count() /
                                result.plans[0].estimate.stepTime.count()) +
            " faster than the one found";
  return text;
}

} // namespace

bool answer(Question &question, const QuestionFlags &flags,
            const SearchFlags &search, Streams streams, SearchAnswer &answer,
            Failure &failure) {
  SearchOptions &options = answer.options;
  bool parsed = parseConstraints(search.fix, true, options.ranges, failure);
  parsed = parseConstraints(search.max, false, options.ranges, failure) && parsed;
  if (!parsed || !sizeQuestion(question, flags.gpus, failure))
    return false;

  const Range &zero = options.ranges[static_cast<int>(Field::Zero)];
  const FrameworkFacts &able = factsOf(question.framework);
  if (std::none_of(able.zero.begin(), able.zero.end(),
                   [&](int stage) { return zero.contains(stage); })) {
    return refuse(failure, Diag::zero_not_of_framework,
                  "--fix zero=" + std::to_string(zero.least) + ": " +
                      std::string(name(question.framework)) +
                      " has ZeRO stages " +
                      numbers({able.zero.begin(), able.zero.end()}) +
                      "; --runs-on names another framework");
  }

  const Program &program = question.model.program;
  options.gpus = question.cluster.hardware.ranks();
  options.layers = program.layers;
  options.experts = program.experts;
  options.globalBatch = flags.globalBatch;
  if (options.globalBatch == 0) {
    options.globalBatch = defaultGlobalBatch(options.gpus, program.sequence);
    note("--global-batch is not given: " + std::to_string(options.globalBatch) +
             " sequences a step",
         streams.err);
  }
  question.base.globalBatch = options.globalBatch;
  options.policies = searchedPolicies(program);
  allow(options, question.framework, question.cluster.hardware);
  options.products = question.products;
  if (options.products.empty() &&
      question.base.dtypes.products != Narrow::None)
    options.products = {question.base.dtypes.products};
  options.gradients = question.gradients;
  options.memoryLimit = question.memoryLimit;
  options.top = search.top;
  options.distinct = !search.everySplit;

  options.threads =
      search.threads
          ? search.threads
          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

  // The only clock: it goes to people, and into an answer if they limit it.
  auto start = std::chrono::steady_clock::now();
  ProgramEstimator estimator(program, question.cluster.hardware,
                             question.profile, question.base,
                             question.framework, options);
  {
    InterruptGuard guard;
    options.stop = [&] {
      std::chrono::duration<double> so_far =
          std::chrono::steady_clock::now() - start;
      return interrupted ||
             (search.timeLimit > 0 && so_far.count() >= search.timeLimit);
    };
    answer.result = cost::search(estimator, options);
    options.stop = nullptr;
  }
  if (!answer.result.counters.proven)
    warn(openText(answer.result), streams.err);
  if (answer.result.plans.empty() && answer.result.counters.proven)
    answer.smallest = cost::smallest(estimator, options);
  if (answer.smallest)
    tryMoreGpus(question, answer);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const SearchCounters &counters = answer.result.counters;
  note("searched " + groupedText(counters.considered) + " plans in " +
           secondsText(Seconds(took.count())),
       streams.err);
  return true;
}

} // namespace shardwright::tools
