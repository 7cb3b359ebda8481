#include "runtime/cts/tiny/TinyRun.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

namespace shardwright::runtime::cts {

Folder::Folder()
    : path(std::filesystem::temp_directory_path() /
           ("shardwright-rt-" + std::to_string(getpid()))) {
  std::filesystem::create_directories(path);
  std::ofstream data(path / "tokens.bin", std::ios::binary);
  uint32_t state = 12345;
  for (int i = 0; i < 500; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint16_t token = static_cast<uint16_t>((state >> 16) % 37);
    data.put(static_cast<char>(token & 0xff));
    data.put(static_cast<char>(token >> 8));
  }
}

Folder::~Folder() { std::filesystem::remove_all(path); }

const Folder &folder() {
  static const Folder one;
  return one;
}

std::string slurp(const std::string &path) {
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

Outcome shell(const std::string &command) {
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(
      (command + " >" + (folder() / "out") + " 2>" + (folder() / "err"))
          .c_str());
  return {
      WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder() / "out"),
      slurp(folder() / "err"),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count()};
}

const std::string tiny = SHARDWRIGHT_TINY;
const std::string mpirun = SHARDWRIGHT_MPIRUN;
const std::string launch = SHARDWRIGHT_LAUNCH;
const std::string mpiEnvironment =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 "
    "OMPI_MCA_btl_base_warn_component_unused=0 ";

std::string data() { return " --data " + (folder() / "tokens.bin"); }

Outcome train(const std::string &plan, const std::string &flags) {
  return shell(tiny + " " + plan + data() + " " + flags);
}
Outcome trainOnMpi(int ranks, const std::string &plan,
                   const std::string &flags) {
  return shell(mpiEnvironment + mpirun + " -n " + std::to_string(ranks) + " " +
               tiny + " " + plan + data() + " " + flags);
}

Outcome trainOnSockets(int ranks, const std::string &plan,
                       const std::string &flags) {
  return shell(launch + " " + std::to_string(ranks) + " " + tiny + " " + plan +
               data() + " " + flags);
}

} // namespace shardwright::runtime::cts
