//===- CommandPlan.cpp - The fastest plans that fit -----------------------===//

#include "cost_model/estimate/Evidence.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Depfile.h"
#include "tools/shardwright/Fronts.h"
#include "tools/shardwright/Interrupt.h"
#include "tools/shardwright/LaunchText.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/Trust.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct PlanOptions {
  std::string model, output;
  QuestionFlags question;
  SearchFlags search;
  DepfileFlag depfile;
  bool json = false, why = false;

  std::vector<std::string> inputs() const {
    return {model, question.cluster, question.profile};
  }
};

/// How far apart plans must be for their order to be sure.
double tiedFactor(const Question &question) {
  const RunFamily family =
      question.model.program.experts > 0       ? RunFamily::Experts
      : question.base.dtypes.products != Narrow::None ? RunFamily::Dense8
                                               : RunFamily::Dense16;
  return tiedWithin(question.cluster.hardware.name, question.profile.name,
                    family);
}

/// What is worked out beside the best plans.
struct Beside {
  std::vector<LeanPlan> lean;
  std::optional<AskedFront> front;
  std::optional<GoodputAnswer> months; ///< of the best plan
};

Json answerJson(const Question &question, const SearchAnswer &found,
                const Beside &beside) {
  const Program &program = question.model.program;
  const Bytes limit = found.options.memoryLimit;
  const bool sizes = found.sizes.size() > 1;
  const double tied = tiedFactor(question);
  Json plans = Json::array();
  for (const ChosenPlan &chosen : found.plans) {
    const RankedPlan &ranked = chosen.ranked;
    Json entry = Json::object();
    if (sizes)
      entry = {{"gpus", ranked.plan.ranks()},
               {"global_batch", ranked.plan.globalBatch}};
    entry.update(pricedPlanJson(program, ranked.plan, ranked.estimate, limit));
    entry.update(intervalJson(
        intervalOf(program, question.cluster.hardware, question.profile,
                   ranked.plan, ranked.estimate)));
    entry["searched_below_bytes"] = chosen.memoryLimit.count();
    entry["tied_with_best"] =
        areTied(found.result.plans.front(), ranked, tied);
    plans.push_back(std::move(entry));
  }
  Json answer = {{"model", program.name},
                 {"objective", name(found.objective)},
                 {"plans", plans},
                 {"tied_within", tied},
                 {"lean", leanJson(question, found, beside.lean)},
                 {"search", countersJson(found.result.counters)},
                 {"rejected", rejectedJson(found.result)},
                 {"basis", basisJson(question.cluster.hardware,
                                     question.profile, question.base, limit)}};
  if (beside.front)
    answer["front"] = frontJson(question, found, *beside.front);
  if (beside.months)
    answer["goodput"] = goodputJson(*beside.months);
  if (!found.result.counters.proven && !sizes &&
      found.objective == Objective::Time)
    answer["search"]["open_bound_seconds"] = found.openValue;
  if (found.smallest) {
    const RankedPlan &ranked = *found.smallest;
    answer["smallest"] =
        pricedPlanJson(program, ranked.plan, ranked.estimate, limit);
    answer["smallest"]["missing_bytes"] =
        excess(ranked.memory, limit).count();
    if (found.onMoreGpus)
      answer["fits_on_gpus"] = found.gpusThatFit;
    answer["gpus_tried"] = found.gpusTried;
  }
  return answer;
}

void printBasis(const Question &question, const DTypes &dtypes,
                std::ostream &out) {
  const Hardware &hardware = question.cluster.hardware;
  out << "numbers rest on: cluster " << hardware.name << " ("
      << hardware.ranks() << " x " << hardware.device.name << "), profile "
      << question.profile.name << ", " << typesText(dtypes)
      << ", MFU against "
      << siText(hardware.device.peakOf(dtypes.compute).count())
      << "FLOP/s with causal attention pairs and logits counted once\n"
      << "searched: what " << name(question.framework) << " ("
      << factsOf(question.framework).version
      << ") "
      << (question.framework == Framework::Native && !question.compiled
              ? "prices, parts of a sequence and experts, which are not compiled "
                "yet, among it; --runs-on native leaves them out, and another "
                "framework's name asks for its plans\n"
              : "runs; --runs-on asks for another framework's plans\n");
  if (question.profile.name == "native")
    out << "profile native: the program that `compile` emits; what Megatron does "
           "with a plan: --profile megatron-core\n";
}

void printAnswer(const Question &question, const SearchAnswer &found,
                 const Beside &beside, bool why, std::ostream &out) {
  const Program &program = question.model.program;
  const Bytes limit = found.options.memoryLimit;
  const SearchResult &result = found.result;
  out << program.name << " on " << found.options.gpus << " x "
      << question.cluster.hardware.device.name << ", global batch "
      << found.options.globalBatch << " x " << program.sequence
      << " tokens, usable memory " << bytesText(limit) << "\n\n";
  if (!result.plans.empty()) {
    const RankedPlan &best = result.plans.front();
    const double tied = tiedFactor(question);
    const auto others = std::count_if(
        result.plans.begin() + 1, result.plans.end(),
        [&](const RankedPlan &other) { return areTied(best, other, tied); });
    out << plansTable(program, result.plans, limit, tied);
    if (others > 0)
      out << "tied: predicted less than " << percentText(tied - 1)
          << " apart, within which measurements may turn the order\n";
    out << (result.counters.proven ? "\nbest: " : "\nbest found: ")
        << planText(program, best.plan) << "\nstep "
        << secondsText(best.estimate.stepTime) << "; "
        << intervalText(intervalOf(program, question.cluster.hardware,
                                   question.profile, best.plan, best.estimate))
        << "\n\n"
        << timeTable(best.estimate) << "\n"
        << memoryTable(best.estimate, limit) << "\n";
    const std::string lean = leanText(question, found, beside.lean);
    out << lean << (lean.empty() ? "" : "\n");
  }
  if (beside.months)
    out << goodputText(*beside.months) << "\n";
  if (beside.front)
    out << frontText(question, found, *beside.front) << "\n";
  if (why && !result.rejected.empty())
    out << rejectedTable(result, limit, 20) << "\n";
  const SearchCounters &counters = result.counters;
  if (found.sizes.size() > 1)
    out << "chosen from " << groupedText(static_cast<int64_t>(found.sizes.size()))
        << " sizes of job and batch, by "
        << (found.objective == Objective::Time ? "tokens a second"
                                               : name(found.objective))
        << "\n";
  out << groupedText(counters.considered)
      << plural(counters.considered, " legal plan") << " considered: "
      << groupedText(counters.evaluated) << " priced, "
      << groupedText(counters.pruned) << " pruned by a bound on their time, "
      << groupedText(counters.unfit)
      << (found.objective == Objective::Memory && !result.plans.empty()
              ? " need more memory than the best"
              : " do not fit");
  if (!counters.proven)
    out << ", " << groupedText(counters.open) << " not looked at";
  if (counters.uncounted > 0)
    out << ", and " << groupedText(counters.uncounted)
        << plural(counters.uncounted, " mesh") << " whose plans nobody counted";
  out << "; "
      << groupedText(counters.illegal) << " more break a rule\n";
  printBasis(question,
             result.plans.empty() ? question.base.dtypes
                                  : result.plans.front().plan.dtypes,
             out);
}

/// The search takes the smallest group of microbatches that is legal
/// (SEARCH.md): who wants to try a larger one has to ask.
void noteGroups(const SearchAnswer &found, std::ostream &err) {
  const Plan &best = found.result.plans.front().plan;
  const int64_t group = groupOf(best);
  if (group == 0 || found.options.evenGroups)
    return;
  const Range &range =
      found.options.ranges[static_cast<size_t>(Field::Group)];
  std::vector<std::string> larger;
  for (int64_t size : groupsNear(best.pp, best.microbatches(), group))
    if (size > group && range.contains(size))
      larger.push_back(std::to_string(size));
  if (!larger.empty())
    note("interleaved chunks run " + std::to_string(group) +
             " microbatches in a row, the fewest: more hold more memory and may "
             "hide transfers; --fix microbatch_group=" + larger.front() +
             (larger.size() > 1 ? " (or " + larger[1] + ", ...)" : "") +
             " asks for it",
         err);
}

/// What else is shown asks searches of its own.
Beside plansBeside(const PlanOptions &options, const SearchAnswer &found,
                   std::ostream &err) {
  const auto start = std::chrono::steady_clock::now();
  const bool lean = options.search.pareto.empty();
  Beside beside;
  if (lean)
    beside.lean = leanPlans(found);
  else
    beside.front = askedFront(options.search, found);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (!lean || !beside.lean.empty())
    note("searched for " +
             std::string(lean ? "plans in less memory" : "the front") + " in " +
             secondsText(Seconds(took.count())) + " more",
         err);
  return beside;
}

ExitCode runPlan(const PlanOptions &options, Streams streams) {
  const InterruptGuard guard; // of the fronts, too
  Failure failure;
  Question question;
  SearchAnswer found;
  if (!checkOutputs({options.output, options.depfile.path}, options.inputs(),
                    failure) ||
      !options.depfile.check(options.output, failure) ||
      !readQuestion(options.model, options.question, 0, question, failure) ||
      !answer(question, options.question, options.search, streams, found,
              failure))
    return report(failure, streams.err);
  for (const std::string &text : question.model.notes)
    note(text, streams.err);
  Beside beside = plansBeside(options, found, streams.err);
  if (!found.result.plans.empty() &&
      (options.search.goodput.any() ||
       found.objective == Objective::Goodput ||
       found.objective == Objective::Money)) {
    const RankedPlan &best = found.result.plans.front();
    if (!answerGoodput(options.search.goodput, question.model.program,
                       question.cluster.hardware, best.plan, best.estimate,
                       beside.months.emplace(), failure))
      return report(failure, streams.err);
  }
  if (options.json)
    streams.out << answerJson(question, found, beside).dump(2) << "\n";
  else if (!found.result.plans.empty() || options.why)
    printAnswer(question, found, beside, options.why, streams.out);
  if (found.result.plans.empty())
    return report(whyNothing(question, found), streams.err);
  const int64_t layers = question.model.program.layers;
  if (const int64_t full = found.options.ranges[static_cast<size_t>(
                                                    Field::FullLayers)]
                               .least;
      full > layers)
    warn("recompute = full:" + std::to_string(full) + " is full: the model has " +
             std::to_string(layers) + plural(layers, " layer"),
         streams.err);
  noteGroups(found, streams.err);
  if (const auto asked = options.question.asked(question.framework))
    warnOfUnsaid(*asked, question.model.program,
                 found.result.plans.front().plan, streams.err);
  const RankedPlan &best = found.result.plans.front();
  if (static_cast<double>(best.memory.count()) >
      0.99 * static_cast<double>(found.options.memoryLimit.count()))
    warn("the best plan is within 1 % of the memory limit; --memory-limit asks "
         "for more room",
         streams.err);
  warnOfLoss(question.profile, question.model.program, best.plan, best.estimate,
             found.options.memoryLimit, streams.err);
  if (!options.output.empty()) {
    if (!writeText(options.output, best.text, failure) ||
        !options.depfile.write(options.output, options.inputs(), failure))
      return report(failure, streams.err);
    note("wrote " + options.output, streams.err);
  }
  return ExitCode::Done;
}

} // namespace

void addPlan(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App *command =
      app.add_subcommand("plan", "Find the fastest plans that fit");
  command
      ->add_option("model", options->model, "config.json, or its folder")
      ->required();
  options->question.add(*command, true, true);
  options->search.add(*command);
  options->search.addListing(*command);
  options->search.addObjective(*command);
  command->add_option("-o,--output", options->output,
                      "Write the best plan to this file");
  options->depfile.add(*command);
  command->add_flag("--why", options->why,
                    "Say what every rejected mesh lost on");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright plan examples/models/llama-3-70b --cluster dgx-h100 "
      "--gpus 64 -o plan.json\n"
      "  shardwright plan examples/models/llama-3-8b --cluster dgx-h100 "
      "--fix tp=2 --max pp=2 --top 5 --json\n"
      "\n"
      "Exits 2 if no plan fits, and says what would have to change.");
  command->callback([=, &exitCode] {
    exitCode = runPlan(*options, streams);
  });
}

} // namespace shardwright::tools
