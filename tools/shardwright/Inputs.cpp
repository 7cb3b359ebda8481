#include "tools/shardwright/Inputs.h"

#include "compiler/Driver/Load.h"
#include "cost_model/base/Sha256.h"
#include "cost_model/program/ModelDigest.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace shardwright::tools {

using namespace cost;

namespace {

/// A word that cannot be a shipped name is a path.
bool looksLikePath(const std::string &name) {
  return name.find('/') != std::string::npos ||
         name.find(".json") != std::string::npos;
}

int64_t editDistance(const std::string &a, const std::string &b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      int64_t changed = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// Why a device takes nothing, which shows at the first byte: a blank, which no
/// format of ours minds. Terminals take it, and would show it.
std::string whyDeviceRefuses(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_character_file(path, error))
    return "";
  const int file = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return std::strerror(errno);
  std::string why;
  if (!isatty(file) && ::write(file, " ", 1) != 1)
    why = std::strerror(errno);
  ::close(file);
  return why;
}

} // namespace

std::string nearest(const std::string &word,
                    const std::vector<std::string> &names) {
  const std::string *best = nullptr;
  int64_t least = static_cast<int64_t>(word.size()) / 3 + 2;
  for (const std::string &name : names) {
    int64_t distance = editDistance(word, name);
    if (distance < least) {
      least = distance;
      best = &name;
    }
  }
  return best ? ": did you mean '" + *best + "'?" : "";
}

bool checkOutputs(const std::vector<std::string> &outputs,
                  const std::vector<std::string> &inputs, Failure &failure) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &output = outputs[i];
    if (output.empty())
      continue;
    if (output == "-")
      return refuse(failure, Diag::output_unwritable,
                    "-: cannot write: expected the name of a file; standard "
                    "output is /dev/stdout");
    if (fs::is_directory(output, error))
      return refuse(failure, Diag::output_unwritable,
                  output + ": cannot write: Is a directory");
    // Before hours of work, not behind them.
    const fs::path folder = fs::path(output).parent_path();
    if (!folder.empty() && !fs::is_directory(folder, error))
      return refuse(failure, Diag::output_unwritable,
                    output + ": cannot write: " +
                        (fs::exists(folder, error)
                             ? "Not a directory"
                             : "No such file or directory"));
    if (const std::string why = whyDeviceRefuses(output); !why.empty())
      return refuse(failure, Diag::output_unwritable,
                    output + ": cannot write: " + why);
    for (size_t other = 0; other < i; ++other)
      if (fs::path(outputs[other]).lexically_normal() ==
          fs::path(output).lexically_normal())
        return refuse(failure, Diag::output_twice,
                    output + ": expected a file for each output, but got it "
                             "twice");
    for (const std::string &input : inputs)
      for (const fs::path &file :
           {fs::path(input), fs::path(input) / "config.json",
            fs::path(input) / "params.json"})
        if (!input.empty() && fs::exists(file, error) &&
            fs::equivalent(file, output, error))
          return refuse(failure, Diag::output_is_input,
                      output + ": expected an output that is no input, but it "
                               "is read as " +
                          file.string());
  }
  return true;
}

bool loadModel(const std::string &path, int64_t sequence, Model &model,
               Failure &failure) {
  if (!loadProgram(path, sequence, model.program, failure, &model.notes))
    return false;
  model.sha256 = modelDigest(model.program);
  return true;
}

namespace {

/// What cannot be asked about, such as a loop of links, is there to be refused.
bool isThere(const std::string &path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

} // namespace

std::string joined(const std::vector<std::string> &words,
                   std::string_view between) {
  std::string text;
  for (const std::string &word : words) {
    text += text.empty() ? "" : between;
    text += word;
  }
  return text;
}

bool readClusterText(const std::string &name, const std::string &flag,
                     ClusterText &cluster, Failure &failure) {
  if (const char *shipped = shippedHardware(name)) {
    cluster = {shipped, name + ".json"};
    return true;
  }
  cluster.file = name;
  if (!looksLikePath(name) && !isThere(name)) {
    std::vector<std::string> names = shippedHardwareNames();
    return refuse(failure, Diag::unknown_cluster,
                  flag + " " + name + ": expected a cluster file or one of " +
                      joined(names) + nearest(name, names));
  }
  return readText(name, cluster.text, failure);
}

bool loadCluster(const std::string &name, Cluster &cluster, Failure &failure) {
  ClusterText read;
  if (!readClusterText(name, "--cluster", read, failure) ||
      !readHardware(read.text, read.file, cluster.hardware, failure))
    return false;
  cluster.sha256 = sha256(read.text);
  return true;
}

bool resizeCluster(Cluster &cluster, int64_t gpus, Failure &failure) {
  if (gpus == 0 || gpus == cluster.hardware.ranks())
    return true;
  Hardware cut;
  if (!resized(cluster.hardware, gpus, cut, failure))
    return false;
  cluster.hardware = cut;
  return true;
}

bool loadProfile(const std::string &name, Profile &profile, Failure &failure) {
  std::string text, file = name;
  if (const char *shipped = shippedProfile(name)) {
    text = shipped;
    file = name + ".json";
  } else if (!looksLikePath(name) && !isThere(name)) {
    std::vector<std::string> names = shippedProfileNames();
    return refuse(failure, Diag::unknown_profile,
                "--profile " + name + ": expected a profile file or one of " +
                    joined(names) + nearest(name, names));
  } else if (!readText(name, text, failure)) {
    return false;
  }
  return readProfile(text, file, profile, failure);
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// A positive number in one of `units`, whose name may follow blanks.
bool parseAmount(const std::string &text, std::initializer_list<Unit> units,
                 double &value) {
  char *end = nullptr;
  errno = 0;
  value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || errno != 0 || !std::isfinite(value) || value <= 0)
    return false;
  while (*end == ' ')
    ++end;
  for (const Unit &unit : units)
    if (unit.name == end) {
      value *= unit.factor;
      return true;
    }
  return false;
}

} // namespace

bool parseRate(const std::string &text, BytesPerSecond &rate) {
  double value = 0;
  // The ends that cluster files have.
  constexpr double least = 1e7, most = 1e15;
  if (!parseAmount(text, {{"", 1}, {"GB/s", 1e9}, {"Gb/s", 1e9 / 8}}, value) ||
      value < least || value > most)
    return false;
  rate = BytesPerSecond(value);
  return true;
}

bool parseBytes(const std::string &text, Bytes &bytes) {
  double value = 0;
  if (!parseAmount(text,
                   {{"", 1},
                    {"B", 1},
                    {"KiB", 1024.},
                    {"MiB", 1024. * 1024},
                    {"GiB", 1024. * 1024 * 1024},
                    {"TiB", 1024. * 1024 * 1024 * 1024},
                    {"KB", 1e3},
                    {"MB", 1e6},
                    {"GB", 1e9},
                    {"TB", 1e12}},
                   value) ||
      value < 1 || value >= 9e18)
    return false;
  bytes = Bytes(static_cast<int64_t>(value));
  return true;
}

} // namespace shardwright::tools
