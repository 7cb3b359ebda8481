//===- main.cpp - The shardwright tool ------------------------------------===//

#include "compiler/Driver/Limits.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <exception>
#include <iostream>

using namespace shardwright::tools;
using shardwright::cost::Diag;

namespace {

/// Help is data (stdout); a wrong flag is one line for people (stderr).
ExitCode parseProblem(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0) { // --help, --version
    app.exit(error, std::cout, std::cerr);
    return ExitCode::Done;
  }
  std::string verb;
  for (const CLI::App *sub : app.get_subcommands())
    verb = " " + sub->get_name();
  const std::string what = error.what();
  shardwright::cost::Failure failure;
  // CLI11 has one class for too few and too many values, and words for each.
  if (what.find("At Most 1 required but received") != std::string::npos)
    refuse(failure, Diag::repeated_flag,
           what.substr(0, what.find(':')) +
               ": expected one value, but got it more than once");
  else
    refuse(failure, Diag::wrong_flag, what);
  failure.notes.push_back("try `shardwright" + verb + " --help`");
  return report(failure, std::cerr);
}

/// Whether the first word, if it is none of our flags, is a verb.
bool checkVerb(const CLI::App &app, int argc, char **argv,
               shardwright::cost::Failure &failure) {
  if (argc < 2 || argv[1][0] == '-')
    return true;
  std::vector<std::string> verbs;
  for (const CLI::App *sub :
       app.get_subcommands([](const CLI::App *) { return true; })) {
    if (sub->get_name() == argv[1])
      return true;
    if (!sub->get_group().empty()) // else hidden from people
      verbs.push_back(sub->get_name());
  }
  std::string list;
  for (const std::string &verb : verbs)
    list += (list.empty() ? "" : ", ") + verb;
  return refuse(failure, Diag::unknown_verb,
                "expected one of " + list + ", but got '" +
                    std::string(argv[1]) + "'" + nearest(argv[1], verbs));
}

ExitCode run(int argc, char **argv) {
  CLI::App app("Compiles parallelism plans: which way to split a model over "
               "GPUs is fastest, what it costs, and the program that does it.");
  app.name("shardwright");
  app.set_version_flag("--version", "shardwright " SHARDWRIGHT_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  shardwright inspect examples/models/llama-3-8b\n"
             "  shardwright plan examples/models/llama-3-70b --cluster dgx-h100 "
             "--gpus 64 -o plan.json\n"
             "  shardwright predict examples/models/llama-3-70b --cluster "
             "dgx-h100 --plan plan.json\n"
             "\n"
             "Exit codes: 0 done, 1 a bug of ours, 2 an honest no (nothing "
             "fits, a check failed),\n"
             "3 valid but unsupported, 4 a bad input file, 5 bad usage. What breaks "
             "a rule of plans\nexits by who said it: 4 if a plan file, 5 if the "
             "flags of predict or compile, 2 if\nconstraints leave a search no "
             "plan; 3 in each, if only this compiler lacks it.\n"
             "Data goes to stdout, words for people to stderr.");

  ExitCode exitCode = ExitCode::Done;
  Streams streams{std::cout, std::cerr};
  addInspect(app, streams, exitCode);
  addPlan(app, streams, exitCode);
  addPredict(app, streams, exitCode);
  addExplain(app, streams, exitCode);
  addDiff(app, streams, exitCode);
  addSweep(app, streams, exitCode);
  addExport(app, streams, exitCode);
  addCompile(app, streams, exitCode);
  addValidate(app, streams, exitCode);
  addCalibrate(app, streams, exitCode);
  addImportTopology(app, streams, exitCode);
  addDiagnostics(app, streams, exitCode);
  addCompletion(app, streams, exitCode);
  addMan(app, streams, exitCode);
  // An unset variable of a shell is no answer: --plan "" does not mean any plan.
  for (CLI::App *command : app.get_subcommands([](CLI::App *) { return true; }))
    for (CLI::Option *option : command->get_options())
      if (option->get_type_size() != 0)
        option->check([](const std::string &text) {
          return text.empty() ? "expected a value, but got an empty one" : "";
        });
  shardwright::cost::Failure failure;
  if (!checkVerb(app, argc, argv, failure))
    return report(failure, std::cerr);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return parseProblem(app, error);
  }
  return exitCode;
}

/// Data that nobody can read is no success.
ExitCode finish(ExitCode code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code != ExitCode::Done)
    return code;
  shardwright::cost::Failure failure;
  shardwright::refuseOutput("stdout", errno ? "" : "not all of it was taken",
                            failure);
  return report(failure, std::cerr);
}

} // namespace

int main(int argc, char **argv) {
  shardwright::heedLimits("shardwright");
  try {
    return static_cast<int>(finish(run(argc, argv)));
  } catch (const std::exception &error) {
    std::cerr << "shardwright: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::Bug);
  }
}
