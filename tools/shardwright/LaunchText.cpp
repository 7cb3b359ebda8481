#include "tools/shardwright/LaunchText.h"

#include "cost_model/base/Format.h"
#include "tools/shardwright/Command.h"

#include <algorithm>
#include <cctype>

namespace shardwright::tools {

using namespace cost;

namespace {

std::string quotes(const std::string &word) {
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// `word` as a shell reads it back; a variable is left to the shell.
std::string quoted(const std::string &word) {
  if (word.starts_with("$"))
    return "\"" + word + "\"";
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string("-_./,:=+").find(static_cast<char>(c)) !=
               std::string::npos;
  };
  for (char c : word)
    if (!plain(static_cast<unsigned char>(c)))
      return quotes(word);
  return word;
}

std::string argumentText(const LaunchArgument &argument) {
  return argument.flag +
         (argument.value.empty() ? "" : " " + quoted(argument.value));
}

std::string commandText(const Launch &launch, const std::string &prefix,
                        const std::string &lineBreak) {
  std::string text = prefix + "torchrun";
  for (const LaunchArgument &argument : launch.torchrun)
    text += " " + argumentText(argument);
  for (const LaunchArgument &argument : launch.program)
    text += " " + argumentText(argument);
  if (!launch.configFlag.empty())
    text += " " + launch.configFlag + " " + launch.configFile;
  for (const LaunchArgument &argument : launch.arguments)
    text += lineBreak + argumentText(argument);
  return text + "\n";
}

/// Names of models and clusters are bytes; none of them ends the comment.
std::string comment(const std::vector<std::string> &lines) {
  std::string text;
  for (std::string line : lines) {
    std::replace_if(
        line.begin(), line.end(),
        [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
    text += "# " + line + "\n";
  }
  return text;
}

Json valueJson(const SettingValue &value) {
  return std::visit([](const auto &held) { return Json(held); }, value);
}

} // namespace

Json configJson(const Launch &launch) {
  Json root = Json::object();
  for (const LaunchSetting &setting : launch.config) {
    Json *table = &root;
    size_t begin = 0;
    for (size_t dot; (dot = setting.key.find('.', begin)) != std::string::npos;
         begin = dot + 1)
      table = &(*table)[setting.key.substr(begin, dot - begin)];
    (*table)[setting.key.substr(begin)] = valueJson(setting.value);
  }
  return root;
}

void warnOfUnsaid(Framework framework, const Program &program,
                  const Plan &plan, std::ostream &err) {
  if (framework == Framework::Native)
    return;
  for (const std::string &text : unsaid(framework, program, plan))
    warn("nobody can tell " + std::string(name(framework)) +
             " of this plan (`export` refuses it): " + text,
         err);
}

void warnOfLoss(const Profile &profile, const Program &program,
                const Plan &plan, const Estimate &estimate, Bytes limit,
                std::ostream &err) {
  if (profile.framework != Framework::MegatronCore)
    return;
  const Bytes copies = megatronLossCopies(program, plan, profile);
  for (int64_t rank = 0; rank < plan.pp; ++rank) {
    const std::vector<int64_t> own = stagesOfRank(plan, rank);
    if (std::find(own.begin(), own.end(), stageCount(plan) - 1) == own.end())
      continue;
    const Bytes memory = estimate.stages[static_cast<size_t>(rank)].total();
    if (staysBelow(memory, limit) && !staysBelow(memory + copies, limit))
      warn("the plan fits with a loss that keeps its logits in 16 bits, as " +
               profile.name +
               " has Transformer Engine's; that of Megatron-LM's "
               "pretrain_gpt.py holds up to " +
               bytesText(copies) + " more on a rank of stage " +
               std::to_string(rank) + ", too much by " +
               bytesText(excess(memory + copies, limit)),
           err);
  }
}

std::string launchScript(const Launch &launch,
                         const std::vector<std::string> &about) {
  std::string text = "#!/bin/sh\n" + comment(about);
  for (const LaunchArgument &variable : launch.environment)
    text += "export " + variable.flag + "=" + quoted(variable.value) + "\n";
  if (!launch.config.empty())
    text += "cat > " + launch.configFile + " <<'END'\n" +
            configJson(launch).dump(2) + "\nEND\n";
  // What is left to say is said behind the script's name.
  Launch open = launch;
  open.arguments.push_back({"\"$@\"", ""});
  return text + commandText(open, "exec ", " \\\n  ");
}

std::string launchToml(const Launch &launch,
                       const std::vector<std::string> &about) {
  std::string text = comment(about) + "#\n" + commandText(launch, "#   ", " ");
  std::string table;
  for (const LaunchSetting &setting : launch.config) {
    const size_t dot = setting.key.rfind('.');
    if (const std::string of = setting.key.substr(0, dot); of != table) {
      table = of;
      text += "\n[" + table + "]\n";
    }
    // Values of TOML that are numbers, truths, texts and lists are JSON, too.
    text += setting.key.substr(dot + 1) + " = " +
            valueJson(setting.value).dump() + "\n";
  }
  return text;
}

Json launchJson(const Launch &launch) {
  const auto command = [](const std::vector<LaunchArgument> &arguments) {
    Json list = Json::array();
    for (const LaunchArgument &argument : arguments) {
      list.push_back(argument.flag);
      if (!argument.value.empty())
        list.push_back(argument.value);
    }
    return list;
  };
  Json environment = Json::object();
  for (const LaunchArgument &variable : launch.environment)
    environment[variable.flag] = variable.value;
  return {{"environment", environment},
          {"torchrun", command(launch.torchrun)},
          {"program", command(launch.program)},
          {"arguments", command(launch.arguments)},
          {"config_file", launch.configFile},
          {"config", configJson(launch)},
          {"notes", launch.notes}};
}

} // namespace shardwright::tools
