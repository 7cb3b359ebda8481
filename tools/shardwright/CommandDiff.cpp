//===- CommandDiff.cpp - What two plan files differ in --------------------===//

#include "cost_model/plan/PlanJson.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Compare.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/LayoutDiff.h"
#include "tools/shardwright/PlanFlags.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct DiffOptions {
  std::string left, right, model;
  bool json = false;
};

/// The plan at `path`; with a model its program too, for which it is legal.
bool readNamed(const std::string &path, const std::string &model,
               NamedPlan &named, Failure &failure) {
  named.name = path;
  if (model.empty()) {
    std::string text;
    return readText(path, text, failure) &&
           readPlan(text, path, named.plan, failure);
  }
  Model loaded;
  if (!loadPlan(path, model, named.plan, failure) ||
      !loadModel(model, named.plan.sequence, loaded, failure))
    return false;
  named.program = std::move(loaded.program);
  return requireLegal(path, named.program, named.plan, FailureKind::Input,
                      failure);
}

Json diffJson(const NamedPlan &left, const NamedPlan &right, bool layout) {
  Json differences = Json::array();
  const std::vector<PlanField> a = fieldsOf(left.plan),
                               b = fieldsOf(right.plan);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].value != b[i].value)
      differences.push_back(
          {{"field", a[i].name}, {"left", a[i].value}, {"right", b[i].value}});
  Json json = {{"equal", left.plan == right.plan},
               {"differences", differences}};
  if (layout)
    json["layout"] = layoutJson(left, right);
  return json;
}

ExitCode runDiff(const DiffOptions &options, Streams streams) {
  Failure failure;
  NamedPlan left, right;
  if (!readNamed(options.left, options.model, left, failure) ||
      !readNamed(options.right, options.model, right, failure))
    return report(failure, streams.err);
  const bool equal = left.plan == right.plan, layout = !options.model.empty();
  if (options.json) {
    streams.out << diffJson(left, right, layout).dump(2) << "\n";
  } else {
    streams.out << fieldsTable(left.plan, right.plan, left.name, right.name);
    if (layout && !equal)
      streams.out << "\n" << layoutText(left, right);
  }
  return equal ? ExitCode::Done : ExitCode::No;
}

} // namespace

void addDiff(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App *command =
      app.add_subcommand("diff", "Show what two plan files differ in");
  command->add_option("left", options->left, "Plan file")->required();
  command->add_option("right", options->right, "Plan file")->required();
  command->add_option(
      "--model", options->model,
      "config.json, or its folder: show also how its tensors and "
      "their optimizer state lie under either plan, so what a "
      "checkpoint would have to be resharded for");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer("Examples:\n"
                  "  shardwright diff plan.json other.json\n"
                  "  shardwright diff plan.json other.json --model "
                  "examples/models/llama-3-8b\n"
                  "\n"
                  "Exits 2 if they differ. What the difference costs: "
                  "`shardwright explain MODEL LEFT --against RIGHT`.");
  command->callback([=, &exitCode] { exitCode = runDiff(*options, streams); });
}

} // namespace shardwright::tools
