#include "tools/shardwright/Depfile.h"

#include "compiler/Import/HfConfig.h"
#include "tools/shardwright/Inputs.h"

#include <CLI/CLI.hpp>

#include <filesystem>

namespace shardwright::tools {

using namespace cost;

namespace {

/// As GCC writes names in its depfiles: make and ninja read them back.
std::string escaped(const std::string &name) {
  std::string text;
  for (char c : name) {
    if (c == ' ' || c == '#' || c == '\t')
      text += '\\';
    if (c == '$')
      text += '$';
    text += c;
  }
  return text;
}

} // namespace

std::string depfileText(const std::string &output,
                        const std::vector<std::string> &inputs) {
  // A rule for each input, too: make goes on when one has gone.
  std::string text = escaped(output) + ":", rules;
  std::error_code error;
  for (const std::string &input : inputs) {
    if (input.empty())
      continue;
    const std::string file = configFile(input);
    if (!std::filesystem::is_regular_file(file, error))
      continue;
    text += " \\\n  " + escaped(file);
    rules += escaped(file) + ":\n";
  }
  return text + "\n" + rules;
}

void DepfileFlag::add(CLI::App &command) {
  command.add_option("--depfile", path,
                     "File that gets the inputs as a rule for make and ninja");
}

bool DepfileFlag::check(const std::string &output, Failure &failure) const {
  if (path.empty() || !output.empty())
    return true;
  return refuse(failure, Diag::missing_output,
                "--depfile " + path +
                    ": expected an output that is made from the inputs, but "
                    "got none");
}

bool DepfileFlag::write(const std::string &output,
                        const std::vector<std::string> &inputs,
                        Failure &failure) const {
  return path.empty() || writeText(path, depfileText(output, inputs), failure);
}

} // namespace shardwright::tools
