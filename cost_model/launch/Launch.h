//===- Launch.h - A plan, as frameworks are told of it ----------*- C++ -*-===//
//
// plan.json -> what the launcher of a framework wants: arguments, settings of
// its config file, environment. A table a framework, a row an argument, read
// beside the source whose version Framework.cpp names
// (FrameworkFacts::version).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_LAUNCH_LAUNCH_H
#define SHARDWRIGHT_COST_MODEL_LAUNCH_LAUNCH_H

#include "cost_model/hardware/Profile.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardwright::cost {

/// An argument of a command; a switch has no value.
struct LaunchArgument {
  std::string flag, value;
  bool operator==(const LaunchArgument &) const = default;
};

/// What a key of a config file may hold.
using SettingValue =
    std::variant<bool, int64_t, std::string, std::vector<std::string>,
                 std::vector<std::vector<std::string>>>;
/// A key of a config file, with dots between the tables that it lies in.
struct LaunchSetting {
  std::string key;
  SettingValue value;
  bool operator==(const LaunchSetting &) const = default;
};

/// How a job is started: torchrun on every node, the framework's program and
/// what that is told.
struct Launch {
  std::vector<LaunchArgument> environment; ///< variables and their values
  std::vector<LaunchArgument> torchrun;
  std::vector<LaunchArgument> program; ///< the script, or -m and the module
  std::vector<LaunchArgument> arguments;
  std::string configFlag, configFile; ///< empty: the program reads none
  std::vector<LaunchSetting> config;
  std::vector<std::string> notes; ///< what has to be done by hand
};

/// A plan that is legal for `program` and the framework (checkPlan), and nodes
/// of `gpusPerNode`.
struct LaunchQuestion {
  const Program &program;
  const Plan &plan;
  /// Whose switches of overlap are written.
  const Profile &profile;
  int64_t gpusPerNode;
};

/// What the plan says and the launcher of `framework` has no argument for, each
/// as `#/json/pointer: expected ..., but got ...`; empty: launch says all of it.
std::vector<std::string> unsaid(Framework framework, const Program &program,
                                const Plan &plan);

/// Precondition: nothing is unsaid. `framework` is none of `native`, which is
/// launched by `compile`.
Launch launch(Framework framework, const LaunchQuestion &question);

/// Megatron-LM's pretrain_gpt.py, without the arguments that describe the
/// model, data and optimizer.
Launch megatronLaunch(const LaunchQuestion &question);
/// What the loss of pretrain_gpt.py, fused or not, holds of logits in f32 on a
/// rank that has the head, beyond what `profile` prices.
Bytes megatronLossCopies(const Program &program, const Plan &plan,
                         const Profile &profile);
/// torchtitan.train and its TOML: parallelism, training, activation checkpoint,
/// quantization.
Launch titanLaunch(const LaunchQuestion &question);
/// Megatron-DeepSpeed's pretrain_gpt.py and DeepSpeed's JSON.
Launch deepSpeedLaunch(const LaunchQuestion &question);

/// Layers of one entry of Plan::stages, and how they recompute.
struct StageLayers {
  int64_t layers = 0, full = 0, selective = 0;
  bool fullFirst = true; ///< those in full are the first ones
};
std::vector<StageLayers> stageLayers(const Program &program, const Plan &plan);
/// Layers of all stages that recompute in full, and selectively.
StageLayers allLayers(const std::vector<StageLayers> &stages);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_LAUNCH_LAUNCH_H
