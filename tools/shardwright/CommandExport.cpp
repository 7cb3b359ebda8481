//===- CommandExport.cpp - A plan for the launcher of a framework ---------===//

#include "compiler/Import/HfConfig.h"
#include "compiler/Import/MegatronArguments.h"
#include "cost_model/launch/Launch.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/LaunchText.h"
#include "tools/shardwright/PlanFlags.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

/// More devices than one operating system has: a rack is several nodes.
constexpr int64_t mostOfANode = 16;

struct ExportOptions {
  std::string model, planFile, framework, cluster, profile = "megatron-core",
                                                   output;
  int64_t gpusPerNode = 0;
  bool json = false;
};

/// GPUs of a node, by the flag or the innermost domain of the cluster.
bool nodeOf(const ExportOptions &options, const Plan &plan, int64_t &gpus,
            Streams streams, Failure &failure) {
  gpus = options.gpusPerNode;
  if (gpus == 0) {
    const std::string &name =
        options.cluster.empty() ? plan.clusterName : options.cluster;
    Cluster cluster;
    if (options.cluster.empty() && !shippedHardware(name))
      return refuse(failure, Diag::unknown_cluster,
                    options.planFile +
                        ": expected --cluster or --gpus-per-node "
                        "for a plan of the cluster '" +
                        name + "', which does not come along");
    if (!loadCluster(name, cluster, failure))
      return false;
    warnOfCluster(options.planFile, plan, cluster, streams.err);
    gpus = cluster.hardware.levels.front().size;
    if (gpus > mostOfANode)
      return refuse(failure, Diag::device_count,
                    "expected --gpus-per-node: the innermost domain of " +
                        name + " has " + std::to_string(gpus) +
                        " GPUs, more than a node");
  }
  if (plan.ranks() > gpus && plan.ranks() % gpus != 0)
    return refuse(failure, Diag::device_count,
                  "expected the " + std::to_string(plan.ranks()) +
                      " ranks of the plan to fill nodes of " +
                      std::to_string(gpus) + " GPUs, but got " +
                      std::to_string(plan.ranks() % gpus) + " more");
  return true;
}

/// Adds what describes the model to the arguments of Megatron-LM; `unsaid` gets
/// what they leave out, so that another model would be trained.
bool describeModel(const ExportOptions &options, const Plan &plan,
                   Launch &launch, std::vector<std::string> &unsaid,
                   Failure &failure) {
  ModelSpec spec;
  if (!readHfConfig(options.model, spec, failure))
    return false;
  MegatronModel model = megatronArguments(spec, plan.sequence);
  launch.arguments.insert(launch.arguments.begin(), model.arguments.begin(),
                          model.arguments.end());
  for (const std::string &what : model.unsaid)
    unsaid.push_back("the model has " + what +
                     ", for which no argument is written");
  launch.notes.push_back("data, tokenizer, optimizer, learning rate and "
                         "checkpoints are left to say");
  return true;
}

/// Everything that the framework is told; refuses what it cannot be.
bool makeLaunch(const ExportOptions &options, Framework framework,
                Streams streams, Plan &plan, Model &model, Launch &made,
                std::vector<std::string> &unsaidOfModel, Failure &failure) {
  Profile profile;
  if (!loadPlan(options.planFile, options.model, plan, failure) ||
      !loadModel(options.model, plan.sequence, model, failure) ||
      !loadProfile(options.profile, profile, failure) ||
      !requireLegal(options.planFile, model.program, plan, FailureKind::Input,
                    failure, framework))
    return false;
  for (const std::string &message : unsaid(framework, model.program, plan))
    refuse(failure, Diag::wrong_value, options.planFile + message);
  int64_t gpusPerNode = 0;
  if (!failure.messages.empty() ||
      !nodeOf(options, plan, gpusPerNode, streams, failure))
    return false;
  made = launch(framework, {model.program, plan, profile, gpusPerNode});
  return framework != Framework::MegatronCore ||
         describeModel(options, plan, made, unsaidOfModel, failure);
}

ExitCode runExport(const ExportOptions &options, Streams streams) {
  Failure failure;
  Framework framework = Framework::Native;
  if (!parseFramework(options.framework, framework) ||
      framework == Framework::Native) {
    refuse(failure, Diag::flag_value,
           "--to " + options.framework +
               ": expected megatron-core, torchtitan or deepspeed");
    return report(failure, streams.err);
  }
  Plan plan;
  Model model;
  Launch made;
  std::vector<std::string> unsaidOfModel;
  if (!checkOutputs({options.output}, {options.model, options.planFile},
                    failure) ||
      !makeLaunch(options, framework, streams, plan, model, made,
                  unsaidOfModel, failure))
    return report(failure, streams.err);
  for (const std::string &text : unsaidOfModel)
    warn(text, streams.err);
  for (const std::string &text : made.notes)
    note(text, streams.err);
  std::vector<std::string> about = {
      model.program.name + ", " + planText(model.program, plan),
      "for " + std::string(factsOf(framework).version)};
  about.insert(about.end(), unsaidOfModel.begin(), unsaidOfModel.end());
  std::string text;
  if (options.json) {
    Json json = {{"framework", name(framework)},
                 {"version", factsOf(framework).version},
                 {"unsaid_of_model", unsaidOfModel}};
    json.update(launchJson(made));
    text = json.dump(2) + "\n";
  } else {
    text = framework == Framework::TorchTitan ? launchToml(made, about)
                                              : launchScript(made, about);
  }
  if (options.output.empty())
    streams.out << text;
  else if (!writeText(options.output, text, failure))
    return report(failure, streams.err);
  return ExitCode::Done;
}

} // namespace

void addExport(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App *command = app.add_subcommand(
      "export", "Write what the launcher of a framework wants for a plan");
  command
      ->add_option("model", options->model, "config.json, or its folder")
      ->required();
  command->add_option("plan", options->planFile, "Plan file")->required();
  command
      ->add_option("--to", options->framework,
                   "megatron-core (a script that starts Megatron-LM's "
                   "pretrain_gpt.py), torchtitan (its TOML) or deepspeed (a "
                   "script that writes its JSON and starts Megatron-DeepSpeed)")
      ->required();
  command->add_option("--cluster", options->cluster,
                      "Cluster whose nodes are meant: a name or a file "
                      "(default: the plan's)");
  command
      ->add_option("--gpus-per-node", options->gpusPerNode,
                   "Processes that torchrun starts on a node (default: the "
                   "GPUs of the cluster's nodes)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 15));
  command
      ->add_option("--profile", options->profile,
                   "With --to megatron-core: whose switches of overlap are "
                   "written")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File to write (default: stdout)");
  command->add_flag("--json", options->json,
                    "Print environment, command and config as JSON");
  command->footer(
      "Examples:\n"
      "  shardwright export examples/models/llama-3-70b plan.json --to "
      "megatron-core -o launch.sh\n"
      "  shardwright export examples/models/llama-3-8b plan.json --to "
      "torchtitan --gpus-per-node 4 -o plan.toml\n"
      "\n"
      "A plan that the framework cannot run, or its launcher cannot be told, "
      "is refused (4).\nWhat has to be done by hand is said on stderr.");
  command->callback(
      [=, &exitCode] { exitCode = runExport(*options, streams); });
}

} // namespace shardwright::tools
