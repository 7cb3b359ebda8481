//===- CommandPlan.cpp - The fastest plans that fit -----------------------===//

#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Depfile.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/Trust.h"

#include <CLI/CLI.hpp>

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

Json answerJson(const Question &question, const SearchAnswer &found) {
  const Program &program = question.model.program;
  const Bytes limit = found.options.memoryLimit;
  Json plans = Json::array();
  for (const RankedPlan &ranked : found.result.plans) {
    plans.push_back(
        pricedPlanJson(program, ranked.plan, ranked.estimate, limit));
    plans.back().update(intervalJson(
        intervalOf(program, question.cluster.hardware, question.profile,
                   ranked.plan, ranked.estimate)));
  }
  Json answer = {{"model", program.name},
                 {"plans", plans},
                 {"search", countersJson(found.result.counters)},
                 {"rejected", rejectedJson(found.result)},
                 {"basis", basisJson(question.cluster.hardware,
                                     question.profile, question.base, limit)}};
  if (!found.result.counters.proven)
    answer["search"]["open_bound_seconds"] = found.result.openBound.count();
  if (found.smallest) {
    const RankedPlan &ranked = *found.smallest;
    answer["smallest"] =
        pricedPlanJson(program, ranked.plan, ranked.estimate, limit);
    answer["smallest"]["missing_bytes"] =
        (ranked.memory - limit + Bytes(1)).count();
    if (found.onMoreGpus)
      answer["fits_on_gpus"] = found.gpusThatFit;
  }
  return answer;
}

void printBasis(const Question &question, std::ostream &out) {
  const Hardware &hardware = question.cluster.hardware;
  out << "numbers rest on: cluster " << hardware.name << " ("
      << hardware.ranks() << " x " << hardware.device.name << "), profile "
      << question.profile.name << ", " << name(question.base.dtypes.compute)
      << ", MFU against "
      << siText(
             hardware.device.peakOf(question.base.dtypes.compute).count())
      << "FLOP/s with causal attention pairs and logits counted once\n"
      << "searched: what " << name(question.framework) << " ("
      << factsOf(question.framework).version
      << ") runs; --runs-on asks for another framework's plans\n";
  if (question.profile.name == "native")
    out << "profile native: the program that `compile` emits; what Megatron does "
           "with a plan: --profile megatron-core\n";
}

void printAnswer(const Question &question, const SearchAnswer &found, bool why,
                 std::ostream &out) {
  const Program &program = question.model.program;
  const Bytes limit = found.options.memoryLimit;
  const SearchResult &result = found.result;
  out << program.name << " on " << found.options.gpus << " x "
      << question.cluster.hardware.device.name << ", global batch "
      << found.options.globalBatch << " x " << program.sequence
      << " tokens, usable memory " << bytesText(limit) << "\n\n";
  if (!result.plans.empty()) {
    const RankedPlan &best = result.plans.front();
    out << plansTable(program, result.plans, limit) << "\nbest: "
        << planText(program, best.plan) << "\nstep "
        << secondsText(best.estimate.stepTime) << "; "
        << intervalText(intervalOf(program, question.cluster.hardware,
                                   question.profile, best.plan, best.estimate))
        << "\n\n"
        << timeTable(best.estimate) << "\n"
        << memoryTable(best.estimate, limit) << "\n";
  }
  if (why && !result.rejected.empty())
    out << rejectedTable(result, limit, 20) << "\n";
  const SearchCounters &counters = result.counters;
  out << groupedText(counters.considered) << " legal plans: "
      << groupedText(counters.evaluated) << " priced, "
      << groupedText(counters.pruned) << " pruned by a bound on their time, "
      << groupedText(counters.unfit) << " do not fit\n";
  printBasis(question, out);
}

ExitCode runPlan(const PlanOptions &options, Streams streams) {
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
  if (options.json)
    streams.out << answerJson(question, found).dump(2) << "\n";
  else if (!found.result.plans.empty() || options.why)
    printAnswer(question, found, options.why, streams.out);
  if (found.result.plans.empty())
    return report(whyNothing(question, found), streams.err);
  const RankedPlan &best = found.result.plans.front();
  if (static_cast<double>(best.memory.count()) >
      0.99 * static_cast<double>(found.options.memoryLimit.count()))
    warn("the best plan is within 1 % of the memory limit; --memory-limit asks "
         "for more room",
         streams.err);
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
  options->question.add(*command, true);
  options->search.add(*command);
  options->search.addListing(*command);
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
