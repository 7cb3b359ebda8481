//===- Completion.h - Verbs and flags for shells to complete ----*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPLETION_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPLETION_H

#include <string>

namespace CLI {
class App;
}

namespace shardwright::tools {

/// Scripts that tell a shell the verbs, their flags, the names of shipped
/// clusters and profiles, and where a file is expected.
std::string bashCompletion(const CLI::App &tool);
std::string zshCompletion(const CLI::App &tool);
std::string fishCompletion(const CLI::App &tool);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPLETION_H
