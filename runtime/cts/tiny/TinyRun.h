//===- TinyRun.h - Whole runs of the tiny program ---------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_TINY_TINYRUN_H
#define SHARDWRIGHT_RUNTIME_CTS_TINY_TINYRUN_H

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace shardwright::runtime::cts {

using Json = nlohmann::json;

/// A folder of this test process, with a token file.
struct Folder {
  std::filesystem::path path;
  Folder();
  ~Folder();
  std::string operator/(const std::string &name) const {
    return (path / name).string();
  }
};
const Folder &folder();

std::string slurp(const std::string &path);

struct Outcome {
  int code;
  std::string out, err;
  double seconds;
  std::vector<Json> lines() const; ///< of `out`, those that are JSON
};

Outcome shell(const std::string &command);

/// The tiny program; what starts its ranks as processes, empty where nothing
/// does: mpirun, and as torchrun does.
extern const std::string tiny, mpirun, launch;
extern const std::string mpiEnvironment;

/// " --data FILE".
std::string data();

Outcome train(const std::string &plan, const std::string &flags);
Outcome trainOnMpi(int ranks, const std::string &plan,
                   const std::string &flags);
Outcome trainOnSockets(int ranks, const std::string &plan,
                       const std::string &flags);

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_TINY_TINYRUN_H
