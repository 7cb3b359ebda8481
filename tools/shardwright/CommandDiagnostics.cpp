//===- CommandDiagnostics.cpp - The catalogue of refusals -----------------===//

#include "cost_model/base/Diagnostics.h"
#include "cost_model/rules/Framework.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct DiagnosticsOptions {
  std::string name;
  bool json = false, markdown = false;
};

/// Every table, with those that the cost model cannot see.
std::vector<Diagnostic> catalogue() {
  std::vector<Diagnostic> all = diagnostics();
  const Diagnostic others[] = {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  {Diag::internal_error, #id, #section, FailureKind::kind, "", cause, cure},
#include "runtime/src/train/Diagnostics.def"
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  {Diag::internal_error, #id, #section, FailureKind::kind, "", cause, cure},
#include "passes/Phase/Diagnostics.def"
  };
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

/// Whose rule it is, in the version that was read; nothing of other entries.
std::vector<Framework> frameworksOf(const Diagnostic &entry) {
  std::vector<Framework> all;
  for (Framework framework : frameworks)
    if (!entry.formula.empty() &&
        (entry.whose == "all" ||
         entry.whose.find(name(framework)) != std::string_view::npos))
      all.push_back(framework);
  return all;
}

/// "native (this compiler), megatron-core (Megatron Core 0.20), ..."
std::string versionsText(const std::vector<Framework> &all) {
  std::string text;
  for (Framework framework : all)
    text += (text.empty() ? "" : ", ") + std::string(name(framework)) + " (" +
            std::string(factsOf(framework).version) + ")";
  return text;
}

nlohmann::ordered_json entryJson(const Diagnostic &entry) {
  nlohmann::ordered_json whose = nlohmann::ordered_json::array();
  for (Framework framework : frameworksOf(entry))
    whose.push_back({{"name", name(framework)},
                     {"version", factsOf(framework).version}});
  return {{"name", entry.name},       {"section", entry.section},
          {"exit_code", entry.kind},  {"formula", entry.formula},
          {"cause", entry.cause},     {"cure", entry.cure},
          {"frameworks", whose}};
}

void printEntry(const Diagnostic &entry, std::ostream &out) {
  out << entry.name << " (" << entry.section << ", exit code "
      << static_cast<int>(entry.kind)
      << (entry.formula.empty() || entry.kind != FailureKind::Input
              ? ")\n"
              : "; 5 where flags spelt the plan, 2 where no plan of a search "
                "obeys it)\n");
  if (!entry.formula.empty())
    out << "  must hold: " << entry.formula << "\n";
  if (const std::vector<Framework> whose = frameworksOf(entry); !whose.empty())
    out << "  of: " << versionsText(whose) << "\n";
  out << "  cause: " << entry.cause << "\n  cure:  " << entry.cure << "\n";
}

ExitCode runDiagnostics(const DiagnosticsOptions &options, Streams streams) {
  std::vector<Diagnostic> entries = catalogue();
  if (!options.name.empty()) {
    const auto found = std::find_if(
        entries.begin(), entries.end(),
        [&](const Diagnostic &entry) { return entry.name == options.name; });
    if (found == entries.end()) {
      std::vector<std::string> names;
      for (const Diagnostic &entry : entries)
        names.emplace_back(entry.name);
      Failure failure;
      refuse(failure, Diag::flag_value,
             "diagnostics " + options.name +
                 ": expected the name that ends a message in brackets" +
                 nearest(options.name, names));
      return report(failure, streams.err);
    }
    entries = {Diagnostic(*found)};
  }
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Diagnostic &entry : entries)
      list.push_back(entryJson(entry));
    streams.out << list.dump(2) << "\n";
  } else if (options.markdown) {
    streams.out << diagnosticsPage(
        entries, versionsText({std::begin(frameworks), std::end(frameworks)}));
  } else {
    for (const Diagnostic &entry : entries)
      printEntry(entry, streams.out);
  }
  return ExitCode::Done;
}

} // namespace

void addDiagnostics(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<DiagnosticsOptions>();
  CLI::App *command = app.add_subcommand(
      "diagnostics", "Explain a refusal by the name in brackets behind it");
  command->add_option("name", options->name,
                      "Name of one entry (default: all of them)");
  auto *json = command->add_flag("--json", options->json, "Print JSON on stdout");
  command
      ->add_flag("--markdown", options->markdown,
                 "Print the whole catalogue as a page")
      ->excludes(json);
  command->footer("Example:\n"
                  "  shardwright diagnostics heads_divisible_by_tp");
  command->callback([=, &exitCode] {
    exitCode = runDiagnostics(*options, streams);
  });
}

} // namespace shardwright::tools
