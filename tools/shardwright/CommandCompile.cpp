//===- CommandCompile.cpp - From a plan to an executable ------------------===//

#include "compiler/Driver/Compile.h"

#include "compiler/Codegen/Link.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Depfile.h"
#include "tools/shardwright/PlanFlags.h"
#include "tools/shardwright/Question.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct CompileFlags {
  CompileOptions options;
  std::string emit = "exe", planOutput;
  QuestionFlags question;
  SearchFlags search;
  PlanFlags plan;
  DepfileFlag depfile;
};

/// The plan that the flags spell or that the search finds, as text.
bool makePlan(const CompileFlags &flags, Streams streams, std::string &text,
              Failure &failure) {
  Question question;
  if (!readQuestion(flags.options.modelPath, flags.question, 0, question,
                    failure))
    return false;
  for (const std::string &text : question.model.notes)
    note(text, streams.err);
  if (flags.plan.any()) {
    if (flags.search.constraints.any()) {
      return refuse(failure, Diag::conflicting_flags,
                    "--fix, --max and --forbid bound a search, and flags such as --tp "
                    "spell the plan: expected one or the other");
    }
    Plan plan;
    if (!planFromFlags(flags.plan, question.model.program, question.base,
                       flags.question.gpus, question.cluster.hardware.ranks(),
                       flags.question.globalBatch, plan, failure) ||
        !requireLegal("", question.model.program, plan, FailureKind::Usage,
                      failure) ||
        !sizeQuestion(question, plan.ranks(), failure))
      return false;
    text = canonicalText(plan);
    return true;
  }
  if (!checkModelCompiles(flags.options.modelPath, question.model.program,
                          flags.options.emit, failure))
    return false;
  SearchAnswer found;
  SearchFlags search = flags.search;
  // More is planned, not compiled yet; who asks for it is told so.
  std::vector<std::string> &fix = search.constraints.fix;
  if (std::none_of(fix.begin(), fix.end(),
                   [](const std::string &text) {
                     return text.find("cp=") != std::string::npos;
                   }))
    fix.emplace_back("cp=1");
  if (!answer(question, flags.question, search, streams, found, failure))
    return false;
  if (found.result.plans.empty()) {
    failure = whyNothing(question, found);
    return false;
  }
  const RankedPlan &best = found.result.plans.front();
  note("plan: " + planText(question.model.program, best.plan), streams.err);
  text = best.text;
  return true;
}

ExitCode runCompile(CompileFlags flags, Streams streams) {
  Failure failure;
  CompileOptions &options = flags.options;
  auto refused = [&](Diag id, std::string message) {
    refuse(failure, id, std::move(message));
    return report(failure, streams.err);
  };
  if (!emitNamed(flags.emit, options.emit))
    return refused(Diag::flag_value,
                   "--emit " + flags.emit +
                       ": expected model, plan, spmd, rt, llvm, ptx, obj or "
                       "exe");
  const std::string planOutput =
      !options.planPath.empty()    ? ""
      : !flags.planOutput.empty() ? flags.planOutput
                                  : options.output + ".plan.json";
  std::vector<std::string> inputs = {options.modelPath, options.planPath,
                                     flags.question.cluster,
                                     flags.question.profile};
  if (!checkOutputs({options.output, planOutput, flags.depfile.path}, inputs,
                    failure) ||
      !flags.depfile.check(options.output, failure))
    return report(failure, streams.err);
  // Before a search of minutes; a plan file names its cluster itself.
  if (options.planPath.empty() && !flags.question.cluster.empty() &&
      !checkTargetFlags(options, flags.question.cluster, failure))
    return report(failure, streams.err);
  std::error_code error;
  if (options.emit == Emit::Executable &&
      std::filesystem::exists(options.output, error) &&
      !std::filesystem::is_regular_file(options.output, error))
    return refused(Diag::output_unwritable,
                   options.output + ": expected a file for the program, but it "
                                    "is a device or a pipe");
  if (options.planPath.empty()) {
    if (flags.question.cluster.empty())
      return refused(Diag::missing_plan,
                     "expected --plan FILE, or --cluster C to make a plan");
    if (flags.question.dtype.empty() && options.target == "host")
      flags.question.dtype = "f32"; // what hosts are fast in
    if (!makePlan(flags, streams, options.planText, failure))
      return report(failure, streams.err);
  } else if (!flags.question.cluster.empty() || flags.plan.any() ||
             flags.question.gpus || flags.question.globalBatch ||
             flags.question.sequence || flags.search.constraints.any() ||
             !flags.question.dtype.empty() ||
             !flags.question.runsOn.empty() ||
             !flags.question.memoryLimit.empty() ||
             flags.search.timeLimit > 0) {
    return refused(Diag::conflicting_flags,
                   "--plan " + options.planPath +
                       ": the file says it all; drop the flags that make a "
                       "plan");
  }
  if (!compile(options, failure))
    return report(failure, streams.err);
  // The plan is a file: what was compiled can be read, changed and repeated.
  if (!planOutput.empty()) {
    if (!writeText(planOutput, options.planText, failure))
      return report(failure, streams.err);
    note("wrote " + planOutput, streams.err);
  }
  if (options.emit == Emit::Executable) {
    inputs.emplace_back();
    if (!codegen::findRuntime(inputs.back(), failure))
      return report(failure, streams.err);
  }
  if (!flags.depfile.write(options.output, inputs, failure))
    return report(failure, streams.err);
  note("wrote " + options.output, streams.err);
  return ExitCode::Done;
}

} // namespace

void addCompile(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand(
      "compile", "Compile a model under a plan into a program that trains it");
  command
      ->add_option("model", flags->options.modelPath,
                   "config.json, or its folder")
      ->required();
  command->add_option("--plan", flags->options.planPath,
                      "Plan file; without it the plan is made first");
  command
      ->add_option("-o,--output", flags->options.output,
                   "File that gets the program")
      ->required();
  command
      ->add_option("--emit", flags->emit,
                   "What to write: model, plan, spmd, rt, llvm, ptx, obj or exe")
      ->capture_default_str();
  command
      ->add_option("--target", flags->options.target,
                   "What the program computes on: host or cuda")
      ->capture_default_str();
  command
      ->add_option("--gpu-arch", flags->options.gpuArchs,
                   "With --target cuda: GPUs to carry code for, of sm_80, "
                   "sm_90 and sm_100 (default: that of the plan's cluster, or "
                   "all); several with commas")
      ->delimiter(',')
      ->allow_extra_args(false); // else it takes the model behind it
  command
      ->add_option("--cpu", flags->options.cpu,
                   "Processor to generate code for, as LLVM names it")
      ->capture_default_str();
  command->add_option("--dump-dir", flags->options.dumpDir,
                      "Folder that gets the IR after every phase");
  command->add_option("--plan-output", flags->planOutput,
                      "File that gets the plan made (default: the output's "
                      "name and .plan.json)");
  flags->depfile.add(*command);
  flags->question.add(*command, false);
  flags->search.add(*command);
  flags->plan.add(*command);
  command->footer(
      "Examples:\n"
      "  shardwright compile examples/models/tiny-llama --plan plan.json -o "
      "tiny\n"
      "  shardwright compile examples/models/tiny-llama --cluster host --gpus 8 "
      "--tp 2 --pp 2 --global-batch 16 -o tiny\n"
      "  ./tiny --ranks 8");
  command->callback([=, &exitCode] {
    exitCode = runCompile(*flags, streams);
  });
}

} // namespace shardwright::tools
