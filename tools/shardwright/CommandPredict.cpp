//===- CommandPredict.cpp - What a given plan costs -----------------------===//

#include "cost_model/estimate/Explain.h"
#include "cost_model/partition/Assignment.h"
#include "cost_model/partition/Layout.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Depfile.h"
#include "tools/shardwright/Expectation.h"
#include "tools/shardwright/GoodputFlags.h"
#include "tools/shardwright/LaunchText.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/SavedPlan.h"
#include "tools/shardwright/TraceFile.h"
#include "tools/shardwright/Trust.h"
#include "tools/shardwright/Words.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct PredictOptions {
  std::string model, planFile, output, reportFile, traceFile, expected;
  double tolerance = 1; ///< percent
  QuestionFlags question;
  PlanFlags plan;
  GoodputFlags goodput;
  std::vector<std::string> slowRanks;
  std::string mfuConvention = "causal_halved";
  DepfileFlag depfile;
  bool json = false, requireFit = false, explain = false;

  /// What a depfile is about.
  const std::string &made() const {
    return reportFile.empty() ? output : reportFile;
  }
  std::vector<std::string> inputs() const {
    return {model, planFile, question.cluster, question.profile, expected};
  }
};

/// Where Megatron Core splits a fused weight, the plan repeats heads. Its
/// profiles price the gathers; who runs the plan may be another.
void noteGatheredHeads(const Question &question, const Plan &plan,
                       std::ostream &err) {
  const Profile &profile = question.profile;
  const bool priced = factsOf(profile.framework).gathersHeads;
  if (plan.kvReplicas == 1 ||
      !(priced || factsOf(question.framework).gathersHeads))
    return;
  const Program &program = question.model.program;
  const int64_t width =
      (program.heads + 2 * program.kvHeads) * program.headDim;
  const Bytes whole(plan.microBatch * plan.sequence / plan.cp * width *
                    byteWidth(plan.dtypes.compute));
  note(std::string(name(priced ? profile.framework : question.framework)) +
           " gathers queries, keys and values of " + std::to_string(plan.tp) +
           " ranks that share " + std::to_string(program.kvHeads) +
           " key/value heads, " + bytesText(whole) +
           " a layer and microbatch, and scatters their gradients (" +
           (priced ? "in tp_communication"
                   : "not priced by the profile " + profile.name) +
           "); weights of keys and values, which it splits, are priced as whole "
           "heads",
       err);
}

/// What --recompute asks for beyond the layers of the stages: all of them do
/// then. One number for all stages may be more than some of them have.
void warnOfRecompute(const std::string &text, const std::vector<int64_t> &layers,
                     std::ostream &err) {
  Recompute policy;
  std::vector<int64_t> full;
  if (!parseRecompute(text, policy, full) || full.empty())
    return;
  const int64_t most = *std::max_element(layers.begin(), layers.end());
  if (full.size() == 1) {
    if (full.front() > most)
      warn("--recompute " + text + " is full: no stage has more than " +
               std::to_string(most) + plural(most, " layer"),
           err);
    return;
  }
  std::string stages;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    const bool beyond = full[i] > layers[i];
    while (end < layers.size() && layers[end] == layers[i] &&
           (full[end] > layers[end]) == beyond)
      ++end;
    if (beyond)
      stages += (stages.empty() ? "stage" : ", stage") +
                (end - i == 1 ? " " + std::to_string(i) + " has "
                              : "s " + std::to_string(i) + "-" +
                                    std::to_string(end - 1) + " have ") +
                std::to_string(layers[i]) + plural(layers[i], " layer");
    i = end;
  }
  if (!stages.empty())
    warn("--recompute " + text + ": " + stages + ": all recompute", err);
}

/// Things that are legal and that nobody wants.
void warnOfPlan(const PredictOptions &options, const Question &question,
                const Plan &plan, std::ostream &err) {
  const int64_t vocab = question.model.program.vocab,
                padded = paddedVocab(vocab, plan.tp);
  if (padded != vocab && !factsOf(question.framework).padsVocabulary)
    note(std::string(name(question.framework)) + " leaves the vocabulary at " +
             std::to_string(vocab) + "; priced with " + std::to_string(padded) +
             ", fewer than 128 rows of a table more on a rank",
         err);
  noteGatheredHeads(question, plan, err);
  if (const auto asked = options.question.asked(question.framework))
    warnOfUnsaid(*asked, question.model.program, plan, err);
  warnOfRecompute(options.plan.recompute,
                  layersOf(question.model.program, plan), err);
  if (options.plan.sp && plan.tp == 1)
    warn("--sp shards the sequence over the tp ranks: with tp = 1 it does "
         "nothing",
         err);
  if (plan.zero > 0 && zeroDegree(plan) == 1 && plan.zeroRanks == 0)
    warn("ZeRO-" + std::to_string(plan.zero) +
             " shards over the dp and cp ranks: with one of them it does "
             "nothing",
         err);
  if (const int run = zeroAsRun(question.profile.framework, plan.zero, plan.pp);
      run != plan.zero && question.profile.framework != Framework::Native)
    warn(std::string(name(question.profile.framework)) +
             " does not run ZeRO-" + std::to_string(plan.zero) +
             " under a pipeline but holds what ZeRO-" + std::to_string(run) +
             " holds, which is more: ask with --zero " + std::to_string(run),
         err);
  if (plan.pp > 1 && plan.microbatches() < plan.pp)
    warn(std::to_string(plan.microbatches()) +
             plural(plan.microbatches(), " microbatch") +
             (plan.microbatches() == 1 ? " does" : " do") + " not fill " +
             std::to_string(plan.pp) + " stages: a global batch of " +
             std::to_string(plan.dp * plan.microBatch * plan.pp) +
             " would",
         err);
}

/// Reads or builds the plan and cuts the cluster to it.
bool choosePlan(const PredictOptions &options, Question &question, Plan &plan,
                Streams streams, Failure &failure) {
  if (!options.planFile.empty()) {
    if (options.plan.any())
      return refuse(failure, Diag::conflicting_flags,
                    "--plan " + options.planFile +
                        ": the file says it all; drop the flags that spell a "
                        "plan");
    if (!readSavedPlan(options.planFile, options.model, options.question,
                       /*searches=*/false, plan, question, streams.err,
                       failure))
      return false;
  } else {
    if (!readQuestion(options.model, options.question, 0, question, failure) ||
        !planFromFlags(options.plan, question.model.program, question.base,
                       options.question.gpus,
                       question.cluster.hardware.ranks(),
                       options.question.globalBatch, plan, failure,
                       options.question.asked(question.framework)) ||
        !requireLegal("", question.model.program, plan, FailureKind::Usage,
                      failure,
                      options.question.asked(question.framework)))
      return false;
    if (options.question.globalBatch == 0)
      note("--global-batch is not given: " + std::to_string(plan.globalBatch) +
               plural(plan.globalBatch, " sequence") + " a step",
           streams.err);
  }
  return sizeQuestion(question, plan.ranks(), failure) &&
         parseSlowRanks(options.slowRanks, plan.ranks(),
                        question.cluster.hardware.slowRanks, failure);
}

bool parseConvention(const std::string &text, FlopsConvention &convention,
                     Failure &failure) {
  for (FlopsConvention known : flopsConventions)
    if (text == name(known)) {
      convention = known;
      return true;
    }
  return refuse(failure, Diag::flag_value,
                "--mfu-convention " + text + ": expected one of " +
                    namesOf(flopsConventions));
}

/// What was taken because nobody said otherwise.
std::vector<std::string> defaultsOf(const PredictOptions &options,
                                    const Question &question,
                                    const Plan &plan) {
  std::vector<std::string> defaults;
  const auto add = [&](bool taken, const std::string &text) {
    if (taken)
      defaults.push_back(text);
  };
  const bool spelled = options.planFile.empty();
  add(options.question.profile == "native", "--profile native");
  add(spelled && options.question.dtype.empty(),
      "--dtype " + std::string(name(plan.dtypes.compute)));
  add(spelled && options.question.globalBatch == 0,
      "--global-batch " + std::to_string(plan.globalBatch));
  add(spelled && options.question.sequence == 0,
      "--sequence " + std::to_string(plan.sequence));
  add(spelled && options.plan.microBatch == 0, "--micro-batch 1");
  add(spelled && options.plan.zero < 0, "--zero 0");
  add(spelled && !options.plan.sp && plan.sp, "--sp");
  add(spelled && options.plan.etp == 0 && plan.etp > 1,
      "--etp " + std::to_string(plan.etp));
  add(spelled && options.plan.recompute.empty(), "--recompute none");
  add(spelled && plan.pp > 1 && options.plan.schedule.empty(),
      "--schedule 1f1b");
  add(options.question.memoryLimit.empty(),
      "--memory-limit " + bytesText(question.memoryLimit));
  add(options.mfuConvention == "causal_halved",
      "--mfu-convention causal_halved");
  return defaults;
}

/// A line for a vocabulary that is not the one of the plan.
std::string paddingText(const Program &program, const Plan &plan) {
  const int64_t padded = paddedVocab(program.vocab, plan.tp);
  return padded == program.vocab
             ? ""
             : "vocabulary " + std::to_string(program.vocab) + ", padded to " +
                   std::to_string(padded) + "\n";
}

void printPrediction(const Question &question, const Plan &plan,
                     const Estimate &estimate, const Trust &trust,
                     FlopsConvention chosen, std::ostream &out) {
  const Program &program = question.model.program;
  const Hardware &hardware = question.cluster.hardware;
  size_t fullest = 0;
  Bytes memory = fullestStage(estimate, fullest);
  const double perToken =
      modelFlopsPerToken(program, FlopsConvention::CausalHalved);
  out << program.name << " on " << plan.ranks() << " x "
      << hardware.device.name << ", global batch " << plan.globalBatch << " x "
      << plan.sequence << " tokens\n"
      << planText(program, plan) << "\n"
      << paddingText(program, plan) << "\n"
      << "step    " << secondsText(estimate.stepTime) << "\n"
      << "        " << intervalText(trust.interval) << "\n"
      << "MFU     "
      << percentText(estimate.modelFlopsUtilization *
                     modelFlopsPerToken(program, chosen) / perToken);
  for (FlopsConvention convention : flopsConventions)
    if (convention != chosen)
      out << ", "
          << percentText(estimate.modelFlopsUtilization *
                         modelFlopsPerToken(program, convention) / perToken)
          << " by " << name(convention);
  out << "\ntokens  "
      << countText(std::round(estimate.tokensPerSecondPerGpu))
      << " a second and GPU\n"
      << "memory  " << bytesText(memory) << " of "
      << bytesText(question.memoryLimit) << " on a rank of stage " << fullest
      << ": " << roomText(memory, question.memoryLimit) << "\n";
  const std::string bubble = bubbleText(plan);
  out << (bubble.empty() ? "" : "bubble  " + bubble + "\n")
      << loadsText(trust) << "\n"
      << timeTable(estimate) << "\n"
      << memoryTable(estimate, question.memoryLimit) << "\n"
      << "ledger of a rank of stage 0, one step\n"
      << ledgerTable(predictLedger(program, plan, 0)) << "\n"
      << "numbers rest on: cluster " << hardware.name << ", profile "
      << question.profile.name << ", " << typesText(plan.dtypes)
      << ", MFU against "
      << siText(hardware.device.peakOf(plan.dtypes.compute).count())
      << "FLOP/s with "
      << (chosen == FlopsConvention::CausalHalved
              ? "causal attention pairs and logits counted once"
          : chosen == FlopsConvention::FullAttention
              ? "every attention pair and logits counted"
              : "6 flops a parameter and token, no attention")
      << "\n";
}

/// Does the plan fit? What people may want to know of it goes to stderr.
bool checkFit(const PredictOptions &options, const Question &question,
              const Plan &plan, const Estimate &estimate, Streams streams,
              Failure &failure) {
  size_t fullest = 0;
  const Bytes memory = fullestStage(estimate, fullest);
  if (!staysBelow(memory, question.memoryLimit)) {
    std::string message =
        "the plan does not fit: a rank of stage " + std::to_string(fullest) +
        " needs " + bytesText(memory) + ", and has to stay below " +
        bytesText(question.memoryLimit) + ": " +
        bytesText(excess(memory, question.memoryLimit)) + " too much";
    if (options.requireFit) {
      return refuse(failure, Diag::plan_does_not_fit, message);
    }
    warn(message, streams.err);
    return true;
  }
  if (static_cast<double>(memory.count()) >
      0.99 * static_cast<double>(question.memoryLimit.count()))
    warn("the plan is within 1 % of the memory limit", streams.err);
  warnOfLoss(question.profile, question.model.program, plan, estimate,
             question.memoryLimit, streams.err);
  return true;
}

ExitCode runPredict(const PredictOptions &options, Streams streams) {
  Failure failure;
  Question question;
  Plan plan;
  FlopsConvention convention = FlopsConvention::CausalHalved;
  if (!checkOutputs({options.output, options.reportFile, options.traceFile,
                     options.depfile.path},
                    options.inputs(), failure) ||
      !options.depfile.check(options.made(), failure) ||
      !parseConvention(options.mfuConvention, convention, failure) ||
      !choosePlan(options, question, plan, streams, failure) ||
      !checkTrace(options.traceFile, plan, failure))
    return report(failure, streams.err);
  warnOfPlan(options, question, plan, streams.err);
  for (const std::string &text : question.model.notes)
    note(text, streams.err);
  const Program &program = question.model.program;
  Estimate estimate = cost::estimate(program, question.cluster.hardware,
                                     question.profile, plan);
  Json json = {{"model", program.name}};
  json.update(pricedPlanJson(program, plan, estimate, question.memoryLimit,
                             convention));
  const Trust trust = trustOf(program, question.cluster.hardware,
                              question.profile, plan, estimate);
  json.update(trustJson(trust));
  json["memory"] = memoryJson(plan, estimate);
  json["ledger"] = ledgersJson(program, plan);
  json["basis"] = basisJson(question.cluster.hardware, question.profile, plan,
                            question.memoryLimit);
  GoodputAnswer months;
  if (options.goodput.any()) {
    if (!answerGoodput(options.goodput, program, question.cluster.hardware,
                       plan, estimate, months, failure))
      return report(failure, streams.err);
    json["goodput"] = goodputJson(months);
  }
  Explanation explanation;
  const std::vector<std::string> defaults =
      defaultsOf(options, question, plan);
  if (options.explain) {
    explanation = explain(program, question.cluster.hardware, question.profile,
                          plan);
    json["explanation"] = explanationJson(explanation);
    json["explanation"]["defaults"] = defaults;
  }
  const std::string jsonText = json.dump(2) + "\n";
  if (options.json)
    streams.out << jsonText;
  else if (options.reportFile.empty()) {
    printPrediction(question, plan, estimate, trust, convention, streams.out);
    if (options.goodput.any())
      streams.out << "\n" << goodputText(months);
    if (options.explain) {
      streams.out << "\n" << explanationText(explanation) << "\n";
      for (const std::string &text : defaults)
        streams.out << "default: " << text << "\n";
    }
  }
  if (!options.output.empty() &&
      !writeText(options.output, canonicalText(plan), failure))
    return report(failure, streams.err);
  if (!options.traceFile.empty() &&
      !writeText(options.traceFile, traceText(question, plan), failure))
    return report(failure, streams.err);

  if (!checkFit(options, question, plan, estimate, streams, failure) ||
      (!options.expected.empty() &&
       !checkExpectation(options.expected, options.tolerance, json, failure)))
    return report(failure, streams.err);
  // Last: to build scripts it says that all checks held.
  if ((!options.reportFile.empty() &&
       !writeText(options.reportFile, jsonText, failure)) ||
      !options.depfile.write(options.made(), options.inputs(), failure))
    return report(failure, streams.err);
  return ExitCode::Done;
}

} // namespace

void addPredict(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App *command = app.add_subcommand(
      "predict", "Say what a plan costs: time, MFU, memory of every rank");
  command
      ->add_option("model", options->model, "config.json, or its folder")
      ->required();
  command->add_option("--plan", options->planFile,
                      "Plan file; or spell the plan with the flags below");
  options->question.add(*command, true);
  options->plan.add(*command);
  command->add_option("-o,--output", options->output,
                      "Write the plan to this file");
  command
      ->add_flag("--require-fit", options->requireFit,
                 "Exit 2 if the plan does not fit")
      ->group("Checks");
  CLI::Option *expect =
      command
          ->add_option("--expect", options->expected,
                       "Report of an earlier time: exit 2 if step time or memory "
                       "has moved from it")
          ->group("Checks");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Percent by which --expect lets them move")
      ->capture_default_str()
      ->check(checkAmount)
      ->needs(expect)
      ->group("Checks");
  options->goodput.add(*command);
  command
      ->add_option("--slow-rank", options->slowRanks,
                   "RANK:SPEED, a device slower than its kind, such as 17:0.9; "
                   "may be repeated")
      ->group("Goodput");
  command
      ->add_option("--mfu-convention", options->mfuConvention,
                   "FLOPs that MFU counts: " + namesOf(flopsConventions))
      ->capture_default_str();
  command->add_flag("--explain", options->explain,
                    "Show the formula of every term with its inputs, every "
                    "collective, every stage and every default");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->add_option("--report", options->reportFile,
                      "Write the JSON to this file, if all checks hold, and no "
                      "tables");
  command->add_option("--trace", options->traceFile,
                      "Write the step as a chrome trace to this file: every "
                      "action of the schedule on a rank of each stage");
  options->depfile.add(*command);
  command->footer(
      "Examples:\n"
      "  shardwright predict examples/models/llama-3-70b --cluster dgx-h100 "
      "--plan plan.json\n"
      "  shardwright predict examples/models/llama-3-70b --cluster dgx-h100 "
      "--gpus 64 --tp 8 --pp 4 --sp --zero 1 --global-batch 128 --json\n"
      "  shardwright predict examples/models/llama-3-70b --cluster dgx-h100 "
      "--plan plan.json --require-fit --expect report.json --tolerance 2\n"
      "  shardwright predict examples/models/llama-3-70b --cluster dgx-h100 "
      "--plan plan.json --trace step.json\n"
      "\n"
      "8 TP and 4 PP on 64 GPUs leave 2 DP: what is not given follows. With "
      "--plan, another\n--cluster, --global-batch or --sequence asks what the "
      "same layout costs there.");
  command->callback([=, &exitCode] {
    exitCode = runPredict(*options, streams);
  });
}

} // namespace shardwright::tools
