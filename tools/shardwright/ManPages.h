//===- ManPages.h - Verbs as pages of the manual ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_MANPAGES_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_MANPAGES_H

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shardwright::tools {

struct ManPage {
  std::string name; ///< of the file: "shardwright-plan.1"
  std::string text; ///< roff, macros of man(7)
};

/// A page of the tool and one of each verb. The same tool writes the same bytes:
/// pages carry no date.
std::vector<ManPage> manPages(const CLI::App &tool, const std::string &version);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_MANPAGES_H
