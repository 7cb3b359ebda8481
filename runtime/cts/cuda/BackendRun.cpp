//===- BackendRun.cpp - Runs of the tiny program on a fake GPU ------------===//
#include "runtime/cts/cuda/BackendRun.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

namespace shardwright::runtime::cts {

const fs::path &folder() {
  struct Folder {
    fs::path path = fs::temp_directory_path() /
                    ("shardwright-cuda-" + std::to_string(getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() { fs::remove_all(path); }
  };
  static const Folder one;
  return one.path;
}

std::string slurp(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Json> Outcome::lines() const {
  std::vector<Json> result;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty() && line[0] == '{')
      result.push_back(Json::parse(line));
  return result;
}

Outcome shell(const std::string &environment, const std::string &command) {
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(
      ("env LD_LIBRARY_PATH=" SHARDWRIGHT_FAKE " CUDA_HOME= " + environment +
       " " + command + " >" + (folder() / "out").string() + " 2>" +
       (folder() / "err").string())
          .c_str());
  return {
      WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder() / "out"),
      slurp(folder() / "err"),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count()};
}

std::string data() {
  const fs::path path = folder() / "tokens.bin";
  if (!fs::exists(path)) {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 500; ++i) {
      file.put(static_cast<char>(i * i % 37));
      file.put(0);
    }
  }
  return " --data " + path.string() + " ";
}

Outcome train(const std::string &environment, const std::string &plan,
              const std::string &flags) {
  return shell(environment, SHARDWRIGHT_TINY " " + plan + data() + flags);
}

} // namespace shardwright::runtime::cts
