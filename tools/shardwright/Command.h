//===- Command.h - What the verbs have in common ----------------*- C++ -*-===//
//
// A verb is a file: `add<Verb>` declares its flags, `run<Verb>` does it with
// streams given, so that it can be tested without a process.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMMAND_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMMAND_H

#include "tools/shardwright/ExitCode.h"

#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace shardwright::tools {

/// Where a verb writes: data for programs, words for people.
struct Streams {
  std::ostream &out;
  std::ostream &err;
};

void addInspect(CLI::App &app, Streams streams, ExitCode &exitCode);
void addPlan(CLI::App &app, Streams streams, ExitCode &exitCode);
void addPredict(CLI::App &app, Streams streams, ExitCode &exitCode);
void addExplain(CLI::App &app, Streams streams, ExitCode &exitCode);
void addDiff(CLI::App &app, Streams streams, ExitCode &exitCode);
void addSweep(CLI::App &app, Streams streams, ExitCode &exitCode);
void addExport(CLI::App &app, Streams streams, ExitCode &exitCode);
void addCompile(CLI::App &app, Streams streams, ExitCode &exitCode);
void addCalibrate(CLI::App &app, Streams streams, ExitCode &exitCode);
void addImportTopology(CLI::App &app, Streams streams, ExitCode &exitCode);
void addDiagnostics(CLI::App &app, Streams streams, ExitCode &exitCode);
void addValidate(CLI::App &app, Streams streams, ExitCode &exitCode);
void addCompletion(CLI::App &app, Streams streams, ExitCode &exitCode);
void addMan(CLI::App &app, Streams streams, ExitCode &exitCode);

/// Writes every message as a line of its own and returns the exit code.
ExitCode report(const cost::Failure &failure, std::ostream &err);
void warn(const std::string &message, std::ostream &err);
/// A fact that the user may want to know and need not act on.
void note(const std::string &message, std::ostream &err);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMMAND_H
