//===- CommandMan.cpp - The pages of the manual ---------------------------===//
//
// For the build, which installs them: hidden from people.
//
//===----------------------------------------------------------------------===//

#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/ManPages.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace shardwright::tools {

void addMan(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto folder = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("man", "Write the pages of the manual to a folder");
  command->group("");
  command->add_option("folder", *folder, "Folder, which exists")->required();
  command->footer("Example:\n"
                  "  shardwright man . && man ./shardwright-plan.1");
  command->callback([=, &app, &exitCode] {
    for (const ManPage &page : manPages(app, SHARDWRIGHT_VERSION)) {
      cost::Failure failure;
      if (!writeText(*folder + "/" + page.name, page.text, failure)) {
        exitCode = report(failure, streams.err);
        return;
      }
    }
    exitCode = ExitCode::Done;
  });
}

} // namespace shardwright::tools
