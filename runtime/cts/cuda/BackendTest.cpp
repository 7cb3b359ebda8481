//===- BackendTest.cpp - The CUDA backend on a fake driver ----------------===//
//
// What the backend asks of NVIDIA's libraries and how it ends when they refuse.
// Not a run on a GPU (FakeLibraries.cpp).
//
//===----------------------------------------------------------------------===//
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

using Json = nlohmann::json;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::temp_directory_path() /
                        ("shardwright-cuda-" + std::to_string(getpid()));

struct Outcome {
  int code;
  std::string out, err;
  double seconds;
  std::vector<Json> lines() const {
    std::vector<Json> result;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);)
      if (!line.empty() && line[0] == '{')
        result.push_back(Json::parse(line));
    return result;
  }
};

std::string slurp(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Outcome shell(const std::string &environment, const std::string &command) {
  fs::create_directories(folder);
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(
      ("env LD_LIBRARY_PATH=" SHARDWRIGHT_FAKE " CUDA_HOME= " + environment +
       " " + command + " >" + (folder / "out").string() + " 2>" +
       (folder / "err").string())
          .c_str());
  return {
      WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder / "out"),
      slurp(folder / "err"),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count()};
}

std::string data() {
  const fs::path path = folder / "tokens.bin";
  fs::create_directories(folder);
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

/// One line on stderr, nothing on stdout.
void refuses(const std::string &environment, int code,
             const std::string &text) {
  const Outcome run = train(environment, "device", "--steps 1 --timeout 1");
  INFO(environment << "\n" << run.err);
  CHECK(run.code == code);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, StartsWith("error: expected "));
  CHECK_THAT(run.err, Contains(text));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

} // namespace

TEST_CASE("bad surroundings end in one line") {
  refuses("FAKE_DRIVER_VERSION=11040", 3,
          "for CUDA " + std::to_string(13) + ".0 or later");
  refuses("FAKE_DEVICES=-1", 3, "NVIDIA's driver to start");
  refuses("FAKE_DEVICES=0", 3, "at least one GPU, but got none");
  refuses("FAKE_CAPABILITY=70", 3,
          "compute capability 8.0 or later, but got 'Fake GPU' with 7.0");
  refuses("FAKE_FREE_BYTES=1000", 2, "but 1000 of 85899345920 are");
  refuses("FAKE_BLAS_VERSION=110100", 3, "cuBLASLt 12 or later");
  refuses("FAKE_CREATE=1", 3, "cuBLASLt to start");
}

TEST_CASE("a GPU whose work does not end meets the deadline") {
  const Outcome run = train("FAKE_HANG=1", "device", "--steps 1 --timeout 0.5");
  CHECK(run.code == 2);
  CHECK(run.seconds < 5);
  CHECK_THAT(run.err, Contains("to end within 0.5 s, but 'Fake GPU' of rank 0 "
                               "is still at work"));
}

TEST_CASE("more ranks than GPUs are refused") {
  const Outcome run = train("FAKE_DEVICES=2", "dp=4,device", "--steps 1");
  CHECK(run.code == 3);
  CHECK_THAT(run.err, Contains("expected a GPU for each rank of this host"));
}

// Traced, so that every call is made: the tiny program's functions are the
// host's and no recording holds them.
TEST_CASE("the calls of a step train as the host does") {
  const std::string trace = " --trace " + (folder / "trace.json").string();
  const Outcome host =
      train("", "micro=2", "--steps 4 --json --lr 0.01" + trace);
  const Outcome device =
      train("", "micro=2,device", "--steps 4 --json --lr 0.01" + trace);
  INFO(device.err);
  REQUIRE(host.code == 0);
  REQUIRE(device.code == 0);
  const auto want = host.lines(), got = device.lines();
  REQUIRE(got.size() == want.size());
  for (size_t step = 0; step < 4; ++step) {
    CHECK(got[step]["loss"].get<double>() ==
          Approx(want[step]["loss"].get<double>()).epsilon(1e-12));
    CHECK(got[step]["grad_norm"].get<double>() ==
          Approx(want[step]["grad_norm"].get<double>()).epsilon(1e-12));
  }
  const Json summary = got.back()["summary"];
  CHECK(summary["device"] == "cuda");
  CHECK(summary["ledger"] == want.back()["summary"]["ledger"]);
  CHECK(summary["canaries"] == want.back()["summary"]["canaries"]);
}

TEST_CASE("the second step is recorded and later ones replay it") {
  const fs::path log = folder / "log";
  fs::create_directories(folder);
  fs::remove(log);
  const Outcome run =
      train("FAKE_LOG=" + log.string(), "device", "--steps 4 --json");
  INFO(run.err);
  CHECK(slurp(log) == "begin_capture\nend_capture\ngraph_launch\n"
                      "graph_launch\ngraph_launch\n");
  // Replays book what was recorded.
  if (run.code == 0)
    CHECK(run.lines().back()["summary"]["ledger_equal_in_all_steps"] == true);
}

TEST_CASE("the conformance suite passes as far as a fake driver goes") {
  const Outcome run = shell("SHARDWRIGHT_CTS_DEVICE=cuda", SHARDWRIGHT_CTS
                            " 'matmul equals*,embedding*,memory of a device*,"
                            "rows are copied*,squares*,attention survives*,"
                            "a poisoned context*'");
  INFO(run.out);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("All tests passed"));
  CHECK_THAT(run.out, Contains("in 8 test cases"));
}
