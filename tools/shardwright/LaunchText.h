//===- LaunchText.h - A launch as files -------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAUNCHTEXT_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAUNCHTEXT_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/launch/Launch.h"
#include "tools/shardwright/PlanJson.h"

#include <iosfwd>
#include <string>

namespace shardwright::tools {

/// A script that starts the job; `about` are lines of comment at its head. A
/// config file in JSON is written by the script.
std::string launchScript(const cost::Launch &launch,
                         const std::vector<std::string> &about);
/// The config file as TOML, with the command that reads it in its head.
std::string launchToml(const cost::Launch &launch,
                       const std::vector<std::string> &about);
/// The keys of the config file, as objects in one another.
Json configJson(const cost::Launch &launch);
/// Warns of what a plan that `framework` has to run says and its launcher cannot
/// be told (cost::unsaid); `native` is told all of it by `compile`.
void warnOfUnsaid(cost::Framework framework, const cost::Program &program,
                  const cost::Plan &plan, std::ostream &err);
/// Warns where a plan fits under one of Megatron's profiles, but not with what
/// Megatron-LM's own loss holds beside (cost::megatronLossCopies).
void warnOfLoss(const cost::Profile &profile, const cost::Program &program,
                const cost::Plan &plan, const cost::Estimate &estimate,
                cost::Bytes limit, std::ostream &err);
/// All of it: environment, command, config, notes.
Json launchJson(const cost::Launch &launch);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_LAUNCHTEXT_H
