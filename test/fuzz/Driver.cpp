//===- Driver.cpp - Fuzzing with any compiler -----------------------------===//
//
//   fuzz_plan [--runs N] [--seconds S] [--seed N] [--findings DIR] FILE...
//
// Runs the target on every FILE (folders: on all files in them), then on
// mutations of those that are small: N of them (default 0), or as many as S
// seconds allow. The same seed and N are the same inputs. Inputs run in a child
// process; when it dies, the input is kept in DIR (default: the working
// directory) and the next child goes on behind it. Exit codes: 0 no findings, 2
// findings, 5 bad usage.
//
//===----------------------------------------------------------------------===//
#include "test/fuzz/FuzzTarget.h"
#include "test/fuzz/Mutate.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace shardwright::fuzz;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t largestKept = 4 << 20;
constexpr size_t largestSeed = 256 << 10; ///< larger ones are replayed only
constexpr unsigned secondsPerInput = 20;  ///< beyond: a finding
constexpr int mostFindings = 20;

/// What survives the child.
struct Shared {
  uint64_t next; ///< number of the run that follows
  size_t size;
  uint8_t input[largestKept];
};

struct Settings {
  uint64_t runs = 0, seconds = 0, seed = 1;
  std::string findings = ".";
  std::vector<std::string> files;
};

struct Input {
  std::string name, text;
};

bool parse(int argc, char **argv, Settings &settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      settings.files.push_back(argument);
      continue;
    }
    if (i + 1 == argc)
      return false;
    const std::string_view value = argv[++i];
    uint64_t *number = argument == "--runs"      ? &settings.runs
                       : argument == "--seconds" ? &settings.seconds
                       : argument == "--seed"    ? &settings.seed
                                                 : nullptr;
    if (argument == "--findings") {
      settings.findings = value;
    } else if (!number || std::from_chars(value.data(),
                                          value.data() + value.size(), *number)
                                  .ptr != value.data() + value.size()) {
      return false;
    }
  }
  return !settings.files.empty();
}

/// Sorted by name, so that a seed means the same everywhere.
std::vector<Input> readInputs(const std::vector<std::string> &paths) {
  std::vector<fs::path> files;
  for (const std::string &path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const fs::directory_entry &entry :
         fs::recursive_directory_iterator(path))
      if (entry.is_regular_file())
        files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> inputs;
  for (const fs::path &file : files) {
    std::ifstream stream(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    // Lit tests hold many inputs.
    constexpr std::string_view border = "\n// -----\n";
    for (size_t at; (at = text.find(border)) != std::string::npos;
         text.erase(0, at + border.size()))
      inputs.push_back({file.string(), text.substr(0, at)});
    inputs.push_back({file.string(), text});
  }
  return inputs;
}

/// Runs of the child from `shared.next` on: first the files, then mutations.
[[noreturn]] void runChild(Shared &shared, const Settings &settings,
                           const std::vector<Input> &inputs,
                           Clock::time_point end) {
  std::vector<std::string> seeds;
  for (const Input &input : inputs)
    if (input.text.size() <= largestSeed)
      seeds.push_back(input.text);
  for (;;) {
    const uint64_t run = shared.next++;
    shared.size = 0;
    std::string text;
    if (run < inputs.size()) {
      text = inputs[run].text;
    } else {
      const uint64_t mutation = run - inputs.size();
      if (settings.seconds ? Clock::now() >= end : mutation >= settings.runs) {
        --shared.next;
        _exit(0);
      }
      // By number, not by what came before: a child may start anywhere.
      Random random(settings.seed * 0x100000001b3 + mutation);
      text = mutate(seeds, random);
    }
    shared.size = std::min(text.size(), largestKept);
    std::memcpy(shared.input, text.data(), shared.size);
    alarm(secondsPerInput);
    // Of its exact size, so that reading behind it is seen.
    std::vector<uint8_t> exact(text.begin(), text.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    alarm(0);
  }
}

std::string hexName(const Shared &shared) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (size_t i = 0; i < shared.size; ++i)
    hash = (hash ^ shared.input[i]) * 0x100000001b3;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

} // namespace

int main(int argc, char **argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: %s [--runs N] [--seconds S] [--seed N] "
                 "[--findings DIR] FILE...\n",
                 argv[0]);
    return 5;
  }
  const std::vector<Input> inputs = readInputs(settings.files);
  void *map = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  Shared &shared = *new (map) Shared;
  const rlimit noCore{0, 0};
  setrlimit(RLIMIT_CORE, &noCore);

  const Clock::time_point end =
      Clock::now() + std::chrono::seconds(settings.seconds);
  int found = 0;
  for (;;) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) {
      std::perror("fork");
      return 1;
    }
    if (child == 0)
      runChild(shared, settings, inputs, end);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      break;
    const uint64_t run = shared.next - 1;
    std::string kept;
    if (run < inputs.size()) {
      kept = inputs[run].name;
    } else {
      fs::create_directories(settings.findings);
      kept = settings.findings + "/finding-" + hexName(shared);
      std::ofstream(kept, std::ios::binary)
          .write(reinterpret_cast<const char *>(shared.input),
                 static_cast<std::streamsize>(shared.size));
    }
    std::fprintf(stderr, "fuzz: finding: %s %d on run %llu, input %s\n",
                 WIFSIGNALED(status) ? "signal" : "exit code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 static_cast<unsigned long long>(run), kept.c_str());
    if (++found == mostFindings)
      break;
  }
  std::printf("%zu files, %llu mutations, %d findings\n", inputs.size(),
              static_cast<unsigned long long>(
                  shared.next - std::min<uint64_t>(shared.next, inputs.size())),
              found);
  return found ? 2 : 0;
}
