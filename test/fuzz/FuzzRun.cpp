//===- FuzzRun.cpp - Flags and token files of compiled programs -----------===//
//
// An input is a command line, an argument per line, up to an empty line; what
// follows is the token file.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/train/Data.h"
#include "runtime/src/train/Options.h"
#include "test/fuzz/FuzzTarget.h"

#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

using namespace shardwright;
using namespace shardwright::fuzz;

namespace {

void checkTokens(const runtime::Options &options, std::string_view content,
                 bool wide) {
  // The kind of file is told by its name, so a link of that name is made.
  const int file = memfd_create("tokens", MFD_CLOEXEC);
  require(file >= 0 && write(file, content.data(), content.size()) ==
                           static_cast<ssize_t>(content.size()),
          "a file of memory can be written");
  const std::string target =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
  std::string path = target;
  if (wide) {
    path = "/tmp/shardwright-fuzz-" + std::to_string(getpid()) + ".bin";
    require(symlink(target.c_str(), path.c_str()) == 0, "a link can be made");
  }
  constexpr int64_t sequence = 6, batch = 4;
  for (int64_t vocab : {2, 300}) {
    runtime::TokenFile tokens;
    std::string why;
    if (!tokens.open(path, vocab, sequence, why)) {
      require(!why.empty(), "a refusal has a message");
      continue;
    }
    const runtime::Batches batches(tokens, options.seed, sequence, batch);
    std::vector<int32_t> ids(sequence * batch), labels(sequence * batch);
    const int32_t outside = batches.fill(options.steps & 0xffff, 0, batch,
                                         vocab, ids.data(), labels.data());
    bool found = false;
    for (int32_t id : ids)
      found |= id >= vocab;
    for (int32_t id : labels)
      found |= id >= vocab;
    require(found == (outside >= 0), "tokens outside the vocabulary are named");
  }
  if (wide)
    unlink(path.c_str());
  close(file);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest = textOf(data, size);
  std::vector<std::string> arguments = {"program"};
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty())
      break;
    arguments.emplace_back(line.substr(0, line.find('\0')));
  }
  std::vector<const char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  runtime::Options options;
  std::string why;
  if (!runtime::parseOptions(static_cast<int>(argv.size()), argv.data(),
                             options, why))
    require(!why.empty(), "a refusal has a message");
  require(!runtime::helpText("program", "model", "2 ranks").empty(),
          "there is a help text");
  const bool wide = options.data.ends_with(".bin");
  checkTokens(options, rest, wide);
  return 0;
}
