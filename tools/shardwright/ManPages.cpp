#include "tools/shardwright/ManPages.h"

#include "tools/shardwright/CliOptions.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace shardwright::tools {

namespace {

/// As roff text: nothing in it is a request or an escape, and dashes stay what
/// they are when pasted into a shell.
std::string roff(const std::string &text) {
  std::string result;
  bool lineStart = true;
  for (char c : text) {
    if (lineStart && (c == '.' || c == '\''))
      result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '`')
      result += "\\(ga";
    else
      result += c;
    lineStart = c == '\n';
  }
  return result;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  return text;
}

std::string bold(const std::string &text) { return "\\fB" + roff(text) + "\\fR"; }
std::string slanted(const std::string &text) {
  return "\\fI" + roff(text) + "\\fR";
}

/// A sentence of a description.
std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.' && text.back() != '\n')
    text += ".";
  return text;
}

/// "INT in [1 - 8]", as CLI11 words it, as a sentence; other checks as they are.
std::string limitsText(const std::string &limits) {
  const size_t from = limits.find(" in ["), to = limits.find(" - ");
  if (from == std::string::npos || to == std::string::npos || to < from ||
      limits.back() != ']')
    return " (" + limits + ")";
  return " From " + limits.substr(from + 5, to - from - 5) + " to " +
         limits.substr(to + 3, limits.size() - to - 4) + ".";
}

std::string option(const CliOption &view) {
  std::string head;
  for (const std::string &name : view.names)
    head += (head.empty() ? "" : ", ") +
            (view.positional ? slanted(name) : bold(name));
  if (!view.positional && !view.value.empty())
    head += " " + slanted(view.value);
  std::string text = sentence(view.description);
  if (!view.limits.empty())
    text += limitsText(view.limits);
  if (!view.preset.empty())
    text += " Default: " + view.preset + ".";
  if (view.required)
    text += " Required.";
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

/// The options in sections by their groups, arguments first.
std::string options(const CLI::App &verb) {
  std::vector<std::pair<std::string, std::string>> sections;
  for (const CliOption &view : optionsOf(verb)) {
    const std::string title = view.positional ? "Arguments" : view.group;
    auto section = std::find_if(sections.begin(), sections.end(),
                                [&](auto &s) { return s.first == title; });
    if (section == sections.end())
      section = sections.insert(sections.end(), {title, ""});
    section->second += option(view);
  }
  std::stable_partition(sections.begin(), sections.end(),
                        [](auto &s) { return s.first == "Arguments"; });
  std::string text = ".SH OPTIONS\n";
  for (const auto &[title, body] : sections)
    text += ".SS " + roff(title) + "\n" + body;
  return text;
}

/// What a verb adds to its help: lines after "Example(s):" are commands, the rest
/// is prose.
std::string footer(const std::string &help) {
  std::istringstream lines(help);
  std::string line, examples, notes;
  bool inExamples = false;
  while (std::getline(lines, line)) {
    const bool indented = line.rfind("  ", 0) == 0;
    if (line == "Example:" || line == "Examples:") {
      inExamples = true;
    } else if (inExamples && (indented || line.empty())) {
      examples += roff(indented ? line.substr(2) : line) + "\n";
    } else {
      inExamples = false;
      notes += line.empty() ? ".PP\n" : roff(line) + "\n";
    }
  }
  while (examples.size() > 1 && examples.substr(examples.size() - 2) == "\n\n")
    examples.pop_back();
  return (notes.empty() ? "" : ".SH NOTES\n" + notes) +
         (examples.empty() ? "" : ".SH EXAMPLES\n.nf\n" + examples + ".fi\n");
}

std::string page(const CLI::App &verb, const std::string &title,
                 const std::string &synopsis, const std::string &version,
                 const std::string &body, const std::string &also) {
  return ".TH " + roff(upper(title)) + " 1 \"\" \"shardwright " + roff(version) +
         "\" \"Shardwright\"\n.SH NAME\n" + roff(title) + " \\- " +
         roff(verb.get_description()) + "\n.SH SYNOPSIS\n" + synopsis + "\n" +
         body + options(verb) + footer(verb.get_footer()) + ".SH SEE ALSO\n" +
         also + "\n";
}

std::string reference(const std::string &name) {
  return "\\fB" + roff(name) + "\\fR(1)";
}

} // namespace

std::vector<ManPage> manPages(const CLI::App &tool, const std::string &version) {
  const std::string name = tool.get_name();
  std::string verbs = ".SH VERBS\n", pages;
  std::vector<ManPage> all;
  for (const CLI::App *verb : verbsOf(tool)) {
    const std::string title = name + "-" + verb->get_name();
    std::string synopsis = bold(name + " " + verb->get_name());
    for (const CliOption &view : optionsOf(*verb))
      if (view.positional)
        synopsis += view.required ? " " + slanted(view.names[0])
                                  : " [" + slanted(view.names[0]) + "]";
    synopsis += " [\\fIoption\\fR...]";
    all.push_back({title + ".1", page(*verb, title, synopsis, version, "",
                                      reference(name))});
    verbs += ".TP\n" + reference(title) + "\n" +
             roff(sentence(verb->get_description())) + "\n";
    pages += (pages.empty() ? "" : ",\n") + reference(title);
  }
  all.insert(all.begin(),
             {name + ".1", page(tool, name,
                                bold(name) + " \\fIverb\\fR [\\fIoption\\fR...]",
                                version, verbs, pages)});
  return all;
}

} // namespace shardwright::tools
