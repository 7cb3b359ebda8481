#include "tools/shardwright/CliOptions.h"

#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace shardwright::tools {

namespace {

/// Values that only we know; shells offer files beside them.
std::vector<std::string> choicesOf(const CLI::Option &option) {
  const std::vector<std::string> &names = option.get_lnames();
  auto has = [&](const char *name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("cluster") || has("like"))
    return cost::shippedHardwareNames();
  if (has("profile"))
    return cost::shippedProfileNames();
  return {};
}

} // namespace

std::vector<CliOption> optionsOf(const CLI::App &verb) {
  std::vector<CliOption> all;
  for (const CLI::Option *option : verb.get_options()) {
    if (option->get_group().empty())
      continue;
    CliOption view;
    view.positional = option->get_positional();
    for (const std::string &name : option->get_snames())
      view.names.push_back("-" + name);
    for (const std::string &name : option->get_lnames())
      view.names.push_back("--" + name);
    if (view.positional)
      view.names = {option->get_name(true)};
    if (option->get_items_expected_max() > 0) {
      // CLI11 joins the type and the wording of its checks: "INT:INT in [1 - 8]".
      const std::string type = option->get_type_name();
      const size_t colon = type.find(':');
      view.value = type.substr(0, colon);
      if (view.value.empty())
        view.value = "VALUE";
      if (colon != std::string::npos)
        view.limits = type.substr(colon + 1);
    }
    view.description = option->get_description();
    view.preset = option->get_default_str();
    view.group = option->get_group();
    view.choices = choicesOf(*option);
    view.required = option->get_required();
    all.push_back(std::move(view));
  }
  return all;
}

std::vector<const CLI::App *> verbsOf(const CLI::App &tool) {
  return tool.get_subcommands(
      [](const CLI::App *verb) { return !verb->get_group().empty(); });
}

} // namespace shardwright::tools
