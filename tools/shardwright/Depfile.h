//===- Depfile.h - What an output was made from, for make -------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_DEPFILE_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_DEPFILE_H

#include "cost_model/base/Failure.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shardwright::tools {

/// The rule of a make file that says `output` is to be made again when one of
/// `inputs` changes. Inputs that are no files (names of shipped clusters and
/// profiles, empty ones) are left out; a folder stands for the config in it.
std::string depfileText(const std::string &output,
                        const std::vector<std::string> &inputs);

/// --depfile of a verb.
struct DepfileFlag {
  std::string path;

  void add(CLI::App &command);
  /// Refuses --depfile without an output that the rule could be about.
  bool check(const std::string &output, cost::Failure &failure) const;
  /// Writes the rule, if it was asked for.
  bool write(const std::string &output, const std::vector<std::string> &inputs,
             cost::Failure &failure) const;
};

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_DEPFILE_H
