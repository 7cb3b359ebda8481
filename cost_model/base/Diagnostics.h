//===- Diagnostics.h - The catalogue of refusals ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_DIAGNOSTICS_H
#define SHARDWRIGHT_COST_MODEL_BASE_DIAGNOSTICS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Kinds of failure; the numbers are the exit codes of the tools.
enum class FailureKind {
  Bug = 1,         ///< ours
  No = 2,          ///< an honest no: nothing fits, a check failed
  Unsupported = 3, ///< valid, but not handled yet
  Input = 4,       ///< a file is wrong
  Usage = 5,       ///< a flag is wrong
};

/// One for every entry of Diagnostics.def, spelt as users see it.
enum class Diag : uint16_t {
#define DIAGNOSTIC(id, section, kind, cause, cure) id,
#define RULE(id, kind, formula, reason, cure) id,
#include "cost_model/base/Diagnostics.def"
};

struct Diagnostic {
  Diag id;                  ///< internal_error in tables of other parts
  std::string_view name;    ///< stable: "unknown_key"
  std::string_view section; ///< "Files"; "Rules" are the rules of plans
  FailureKind kind;
  std::string_view formula; ///< of rules: what must hold; else empty
  std::string_view cause;
  std::string_view cure;
  /// Whose rule it is: of every software, or of the frameworks named.
  std::string_view whose = "all";
};

/// Every entry, in the order of the table.
const std::vector<Diagnostic> &diagnostics();
const Diagnostic &describe(Diag id);

/// `entries` as a page of Markdown; `versions` says which version of which
/// framework the rules were read from.
std::string diagnosticsPage(const std::vector<Diagnostic> &entries,
                            const std::string &versions);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_DIAGNOSTICS_H
