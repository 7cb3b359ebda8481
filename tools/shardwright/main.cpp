//===- main.cpp - The shardwright tool ------------------------------------===//

#include "tools/shardwright/Command.h"

#include <CLI/CLI.hpp>

#include <exception>
#include <iostream>

using namespace shardwright::tools;

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
  std::cerr << "shardwright: error: " << error.what() << "\n"
            << "try `shardwright" << verb << " --help`\n";
  return ExitCode::Usage;
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
             "3 valid but unsupported, 4 a bad input file, 5 bad usage.\n"
             "Data goes to stdout, words for people to stderr.");

  ExitCode exitCode = ExitCode::Done;
  Streams streams{std::cout, std::cerr};
  addInspect(app, streams, exitCode);
  addPlan(app, streams, exitCode);
  addPredict(app, streams, exitCode);
  addExplain(app, streams, exitCode);
  addDiff(app, streams, exitCode);
  addSweep(app, streams, exitCode);
  addCompile(app, streams, exitCode);
  addValidate(app, streams, exitCode);
  addCompletion(app, streams, exitCode);
  addMan(app, streams, exitCode);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return parseProblem(app, error);
  }
  std::cout.flush();
  if (!std::cout && exitCode == ExitCode::Done) {
    std::cerr << "shardwright: error: stdout: cannot write\n";
    return ExitCode::Usage;
  }
  return exitCode;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::exception &error) {
    std::cerr << "shardwright: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::Bug);
  }
}
