//===- BackendRun.h - Runs of the tiny program on a fake GPU ----*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_CUDA_BACKENDRUN_H
#define SHARDWRIGHT_RUNTIME_CTS_CUDA_BACKENDRUN_H

#include <catch2/catch.hpp>
#include <cuda.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace shardwright::runtime::cts {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Of this test process; made when it is first asked for.
const fs::path &folder();
std::string slurp(const fs::path &path);

struct Outcome {
  int code;
  std::string out, err;
  double seconds;
  /// What stands on lines of stdout as JSON.
  std::vector<Json> lines() const;
};

/// A command where the fake libraries are the only ones.
Outcome shell(const std::string &environment, const std::string &command);

/// " --data FILE ", tokens that the tiny program knows.
std::string data();

/// The tiny program: ranks are threads.
Outcome train(const std::string &environment, const std::string &plan,
              const std::string &flags);

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_BACKENDRUN_H
