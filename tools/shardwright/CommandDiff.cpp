//===- CommandDiff.cpp - What two plan files differ in --------------------===//

#include "cost_model/plan/PlanJson.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Compare.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/PlanJson.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct DiffOptions {
  std::string left, right;
  bool json = false;
};

ExitCode runDiff(const DiffOptions &options, Streams streams) {
  Failure failure;
  Plan left, right;
  std::string leftText, rightText;
  if (!readText(options.left, leftText, failure) ||
      !readPlan(leftText, options.left, left, failure) ||
      !readText(options.right, rightText, failure) ||
      !readPlan(rightText, options.right, right, failure))
    return report(failure, streams.err);
  if (options.json) {
    Json differences = Json::array();
    const std::vector<PlanField> a = fieldsOf(left), b = fieldsOf(right);
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i].value != b[i].value)
        differences.push_back({{"field", a[i].name},
                               {"left", a[i].value},
                               {"right", b[i].value}});
    streams.out << Json{{"equal", left == right}, {"differences", differences}}
                       .dump(2)
                << "\n";
  } else {
    streams.out << fieldsTable(left, right, options.left, options.right);
  }
  if (left == right)
    return ExitCode::Done;
  return ExitCode::No;
}

} // namespace

void addDiff(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App *command =
      app.add_subcommand("diff", "Show what two plan files differ in");
  command->add_option("left", options->left, "Plan file")->required();
  command->add_option("right", options->right, "Plan file")->required();
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer("Examples:\n"
                  "  shardwright diff plan.json other.json\n"
                  "\n"
                  "Exits 2 if they differ. What the difference costs: "
                  "`shardwright explain MODEL LEFT --against RIGHT`.");
  command->callback([=, &exitCode] { exitCode = runDiff(*options, streams); });
}

} // namespace shardwright::tools
