#include "tools/shardwright/Completion.h"

#include "tools/shardwright/CliOptions.h"
#include "tools/shardwright/Inputs.h"

#include <CLI/CLI.hpp>

#include <map>

namespace shardwright::tools {

namespace {

std::string verbNames(const CLI::App &tool) {
  std::vector<std::string> names;
  for (const CLI::App *verb : verbsOf(tool))
    names.push_back(verb->get_name());
  return joined(names, " ");
}

std::string flagNames(const CLI::App &verb) {
  std::vector<std::string> names;
  for (const CliOption &option : optionsOf(verb))
    if (!option.positional)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names, " ");
}

/// In single quotes of a shell.
std::string inQuotes(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// Inside a spec of zsh's _arguments, these characters end a part.
std::string zshText(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\')
      result += '\\';
    result += c;
  }
  return result;
}

/// Function of the script that offers the names that `option` knows.
std::string zshFunction(const std::string &tool, const CliOption &option) {
  return "_" + tool + "_" + option.names.back().substr(2);
}

/// The functions for all such options, each once.
std::string zshFunctions(const CLI::App &tool) {
  std::map<std::string, std::string> functions;
  for (const CLI::App *verb : verbsOf(tool))
    for (const CliOption &option : optionsOf(*verb))
      if (!option.choices.empty())
        functions[zshFunction(tool.get_name(), option)] =
            "  _alternative 'names:name:(" + joined(option.choices, " ") +
            ")' 'files:file:_files'\n";
  std::string text;
  for (const auto &[name, body] : functions)
    text += name + "() {\n" + body + "}\n";
  return text;
}

/// What zsh offers as the value of `option`.
std::string zshValues(const std::string &tool, const CliOption &option) {
  if (!option.choices.empty())
    return ":name or file:" + zshFunction(tool, option);
  if (option.value == "TEXT")
    return ":" + zshText(option.value) + ":_files";
  return ":" + zshText(option.value) + ": ";
}

/// The arguments of _arguments for one verb, a line each.
std::string zshArguments(const std::string &tool, const CLI::App &verb,
                         const std::string &indent) {
  std::string text;
  int position = 0;
  for (const CliOption &option : optionsOf(verb)) {
    if (option.positional) {
      text += indent + inQuotes((position++ ? "*" : "1") + (":" + option.names[0]) +
                              ":_files") + " \\\n";
      continue;
    }
    for (const std::string &name : option.names) {
      std::string spec = "*" + name;
      if (!option.value.empty() && name.rfind("--", 0) == 0)
        spec += "=";
      else if (!option.value.empty())
        spec += "+";
      spec += "[" + zshText(option.description) + "]";
      if (!option.value.empty())
        spec += zshValues(tool, option);
      text += indent + inQuotes(spec) + " \\\n";
    }
  }
  return text;
}

} // namespace

std::string bashCompletion(const CLI::App &tool) {
  const std::string name = tool.get_name();
  std::string cases;
  for (const CLI::App *verb : verbsOf(tool)) {
    cases += "  " + verb->get_name() + ")\n    flags=" +
             inQuotes(flagNames(*verb)) + "\n    case $previous in\n";
    for (const CliOption &option : optionsOf(*verb)) {
      if (option.positional || option.value.empty())
        continue;
      cases += "    " + joined(option.names, "|") + ") " +
               (option.choices.empty()
                    ? "return ;;\n"
                    : "flags=" + inQuotes(joined(option.choices, " ")) +
                          " names=1 ;;\n");
    }
    cases += "    esac ;;\n";
  }
  return "# bash completion for " + name + "; `" + name +
         " completion bash` writes it\n"
         "_" + name + "() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]}"
         " previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local verb= flags= names= i\n"
         "  COMPREPLY=()\n"
         "  # bash takes --flag=value for three words.\n"
         "  if [[ $word == = ]]; then\n"
         "    word=\n"
         "  elif [[ $previous == = ]]; then\n"
         "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  fi\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    if [[ ${COMP_WORDS[i]} != -* ]]; then verb=${COMP_WORDS[i]}; "
         "break; fi\n"
         "  done\n"
         "  case $verb in\n"
         "  '')\n    flags=" + inQuotes(flagNames(tool) + " " + verbNames(tool)) +
         " names=1 ;;\n" + cases +
         "  esac\n"
         "  # Without an answer the shell completes names of files.\n"
         "  if [[ $names || $word == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
         "  fi\n"
         "}\n"
         "complete -o default -F _" + name + " " + name + "\n";
}

std::string zshCompletion(const CLI::App &tool) {
  const std::string name = tool.get_name();
  std::string verbs, cases;
  for (const CLI::App *verb : verbsOf(tool)) {
    verbs += "    " + inQuotes(zshText(verb->get_name()) + ":" +
                             zshText(verb->get_description())) + "\n";
    cases += "  " + verb->get_name() + ")\n    _arguments -S \\\n" +
             zshArguments(name, *verb, "      ") + "      && return ;;\n";
  }
  return "#compdef " + name + "\n"
         "# `" + name + " completion zsh` writes it\n" + zshFunctions(tool) +
         "_" + name + "() {\n"
         "  local curcontext=$curcontext state line\n"
         "  local -a verbs=(\n" + verbs + "  )\n"
         "  _arguments -C \\\n" + zshArguments(name, tool, "    ") +
         "    '1:verb:->verb' '*::argument:->arguments' && return\n"
         "  if [[ $state == verb ]]; then\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  case $line[1] in\n" + cases +
         "  esac\n"
         "}\n"
         "_" + name + " \"$@\"\n";
}

std::string fishCompletion(const CLI::App &tool) {
  const std::string name = tool.get_name(), command = "complete -c " + name;
  std::string text = "# fish completion for " + name + "; `" + name +
                     " completion fish` writes it\n";
  auto add = [&](const CLI::App &verb, const std::string &when) {
    for (const CliOption &option : optionsOf(verb)) {
      if (option.positional)
        continue;
      text += command + " -n " + inQuotes(when);
      for (const std::string &flag : option.names)
        text += flag.rfind("--", 0) == 0 ? " -l " + flag.substr(2)
                                         : " -s " + flag.substr(1);
      if (!option.value.empty())
        text += option.value == "TEXT" ? " -r" : " -x";
      if (!option.choices.empty())
        text += " -a " + inQuotes(joined(option.choices, " "));
      text += " -d " + inQuotes(option.description) + "\n";
    }
  };
  add(tool, "__fish_use_subcommand");
  for (const CLI::App *verb : verbsOf(tool)) {
    text += command + " -f -n __fish_use_subcommand -a " + verb->get_name() +
            " -d " + inQuotes(verb->get_description()) + "\n";
    add(*verb, "__fish_seen_subcommand_from " + verb->get_name());
  }
  return text;
}

} // namespace shardwright::tools
