//===- CommandCompletion.cpp - What shells complete -----------------------===//

#include "tools/shardwright/Command.h"
#include "tools/shardwright/Completion.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace shardwright::tools {

namespace {

ExitCode runCompletion(const CLI::App &tool, const std::string &shell,
                       Streams streams) {
  if (shell == "bash")
    streams.out << bashCompletion(tool);
  else if (shell == "zsh")
    streams.out << zshCompletion(tool);
  else if (shell == "fish")
    streams.out << fishCompletion(tool);
  else {
    cost::Failure failure;
    refuse(failure, cost::Diag::flag_value,
           "completion " + shell + ": expected bash, zsh or fish");
    return report(failure, streams.err);
  }
  return ExitCode::Done;
}

} // namespace

void addCompletion(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto shell = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand(
      "completion", "Write the script with which a shell completes commands");
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->footer("Examples:\n"
                  "  source <(shardwright completion bash)\n"
                  "  shardwright completion fish > "
                  "~/.config/fish/completions/shardwright.fish\n"
                  "\n"
                  "Installed with the tool, where the shells look for it.");
  command->callback([=, &app, &exitCode] {
    exitCode = runCompletion(app, *shell, streams);
  });
}

} // namespace shardwright::tools
