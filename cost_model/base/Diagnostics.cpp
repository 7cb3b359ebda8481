#include "cost_model/base/Diagnostics.h"

namespace shardwright::cost {

const std::vector<Diagnostic> &diagnostics() {
  static const std::vector<Diagnostic> all = {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  {Diag::id, #id, #section, FailureKind::kind, "", cause, cure},
#define RULE(id, kind, formula, reason, cure)                                  \
  {Diag::id, #id, "Rules", FailureKind::kind, formula, reason, cure},
#define RULE_OF(id, whose, kind, formula, reason, cure)                        \
  {Diag::id, #id, "Rules", FailureKind::kind, formula, reason, cure, whose},
#include "cost_model/base/Diagnostics.def"
  };
  return all;
}

const Diagnostic &describe(Diag id) {
  return diagnostics()[static_cast<size_t>(id)];
}

std::string diagnosticsPage(const std::vector<Diagnostic> &entries,
                            const std::string &versions) {
  std::string page =
      "# Diagnostics\n\n"
      "Every refusal ends in the name of its entry: `error: ... "
      "[unknown_key]`.\n"
      "`shardwright diagnostics NAME` prints one, `shardwright diagnostics\n"
      "--markdown` this page, from the tables "
      "`cost_model/base/Diagnostics.def`,\n"
      "`runtime/src/train/Diagnostics.def` (compiled programs) and\n"
      "`passes/Phase/Diagnostics.def` (IR). The number is the exit code. A "
      "rule\n"
      "that a plan breaks exits 5 instead of 4 where flags spelt the plan, and "
      "2\n"
      "where no plan of a search obeys it.\n";
  std::string_view section;
  for (const Diagnostic &entry : entries) {
    if (entry.section != section) {
      section = entry.section;
      page += "\n## " + std::string(section) + "\n\n";
      page += section == "Rules"
                  ? "The rules of all hold for each of " + versions +
                        ".\n\n| name | exit | what must hold | why | of | cure "
                        "|\n|---|---|---|---|---|---|\n"
                  : "| name | exit | cause | cure |\n|---|---|---|---|\n";
    }
    page += "| `" + std::string(entry.name) + "` | " +
            std::to_string(static_cast<int>(entry.kind)) + " | ";
    if (section == "Rules")
      page += "`" + std::string(entry.formula) + "` | ";
    page += std::string(entry.cause) + " | ";
    if (section == "Rules")
      page += std::string(entry.whose) + " | ";
    page += std::string(entry.cure) + " |\n";
  }
  return page;
}

} // namespace shardwright::cost
