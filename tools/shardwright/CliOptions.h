//===- CliOptions.h - Options of a verb, as pages describe them -*- C++ -*-===//
//
// Man pages and completions are written from the registered verbs, so that they
// know every flag there is.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_CLIOPTIONS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_CLIOPTIONS_H

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shardwright::tools {

struct CliOption {
  std::vector<std::string> names; ///< "-o", "--output"; of an argument its name
  std::string value;              ///< TEXT, INT, ...; empty: takes none
  std::string limits;             ///< of the value, as CLI11 words them
  std::string description;        ///< without a full stop
  std::string preset;             ///< the value if it is not given; may be empty
  std::string group;
  std::vector<std::string> choices; ///< values to offer; files may be others
  bool positional = false, required = false;
};

/// What `verb` (or the tool itself) takes, in order of declaration, without what
/// is hidden.
std::vector<CliOption> optionsOf(const CLI::App &verb);

/// The verbs that are not hidden, in order of declaration.
std::vector<const CLI::App *> verbsOf(const CLI::App &tool);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_CLIOPTIONS_H
