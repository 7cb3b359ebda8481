//===- TrainTest.cpp - Whole runs of the tiny program ---------------------===//
//
// Every plan must give the losses, gradients and parameters of one rank; every
// refusal one message and its exit code.
//
//===----------------------------------------------------------------------===//
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using Json = nlohmann::json;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

/// A folder of this test process, with a token file.
struct Folder {
  fs::path path;
  Folder()
      : path(fs::temp_directory_path() /
             ("shardwright-rt-" + std::to_string(getpid()))) {
    fs::create_directories(path);
    std::ofstream data(path / "tokens.bin", std::ios::binary);
    uint32_t state = 12345;
    for (int i = 0; i < 500; ++i) {
      state = state * 1664525u + 1013904223u;
      const uint16_t token = static_cast<uint16_t>((state >> 16) % 37);
      data.put(static_cast<char>(token & 0xff));
      data.put(static_cast<char>(token >> 8));
    }
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string &name) const {
    return (path / name).string();
  }
};
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

/// A port whose successor, where the runtime listens, is free too.
int freePort() {
  auto bound = [](int wanted, int &port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(wanted));
    socklen_t length = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    const bool good = ::bind(socket, generic, length) == 0 &&
                      getsockname(socket, generic, &length) == 0;
    port = ntohs(address.sin_port);
    close(socket);
    return good;
  };
  for (;;)
    if (int port = 0, next = 0;
        bound(0, port) && port < 65535 && bound(port + 1, next))
      return port;
}

/// As torchrun starts it.
const std::string launch = SHARDWRIGHT_LAUNCH;
Outcome trainOnSockets(int ranks, const std::string &plan,
                       const std::string &flags) {
  return shell(launch + " " + std::to_string(ranks) + " " + tiny + " " + plan +
               data() + " " + flags);
}

/// Tensors of a safetensors file, as f64.
std::map<std::string, std::vector<double>> tensors(const std::string &path) {
  const std::string bytes = slurp(path);
  uint64_t length = 0;
  REQUIRE(bytes.size() > 8);
  std::memcpy(&length, bytes.data(), 8);
  const Json header = Json::parse(bytes.substr(8, length));
  std::map<std::string, std::vector<double>> result;
  for (const auto &[name, entry] : header.items()) {
    const size_t first = entry["data_offsets"][0],
                 last = entry["data_offsets"][1];
    size_t count = 1;
    for (size_t extent : entry["shape"])
      count *= extent;
    std::vector<double> values(count);
    const char *data = bytes.data() + 8 + length + first;
    if (entry["dtype"] == "F64") {
      REQUIRE(last - first == 8 * count);
      std::memcpy(values.data(), data, 8 * count);
    } else {
      REQUIRE(last - first == 4 * count);
      for (size_t i = 0; i < count; ++i) {
        float value;
        std::memcpy(&value, data + 4 * i, 4);
        values[i] = value;
      }
    }
    result[name] = std::move(values);
  }
  return result;
}

double norm(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return std::sqrt(sum);
}

/// Same tensors up to rounding: the order of sums differs between plans.
void compareDumps(const std::string &got, const std::string &want,
                  double tolerance) {
  const auto a = tensors(got), b = tensors(want);
  REQUIRE(a.size() == b.size());
  for (const auto &[name, reference] : b) {
    INFO(name);
    REQUIRE(a.count(name) == 1);
    REQUIRE(a.at(name).size() == reference.size());
    std::vector<double> difference(reference.size());
    for (size_t i = 0; i < reference.size(); ++i)
      difference[i] = a.at(name)[i] - reference[i];
    CHECK(norm(reference) > 0);
    CHECK(norm(difference) <= tolerance * norm(reference));
  }
}

void compareSteps(const Outcome &got, const Outcome &want, double tolerance) {
  const auto a = got.lines(), b = want.lines();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i + 1 < b.size(); ++i) {
    CHECK(a[i]["step"] == b[i]["step"]);
    for (const char *key : {"loss", "grad_norm"})
      CHECK(a[i][key].get<double>() ==
            Approx(b[i][key].get<double>()).epsilon(tolerance));
  }
}

const std::string fiveSteps =
    " --steps 5 --lr 0.01 --eps 1e-3 --json --timeout 60 --dump ";

} // namespace

TEST_CASE("every plan equals one rank in losses, gradients and parameters") {
  for (const std::string variant : {"", ",tied", ",f32"}) {
    const std::string want = folder() / "want.safetensors";
    const Outcome one = train("micro=8" + variant, fiveSteps + want);
    REQUIRE(one.code == 0);
    REQUIRE(one.lines().size() == 6);
    const double tolerance = variant == ",f32" ? 1e-4 : 1e-11;
    for (const std::string plan :
         {"micro=1", "dp=2", "dp=4,zero=1", "tp=2", "tp=4", "pp=2", "pp=3",
          "pp=2,1f1b", "dp=2,tp=2,zero=1", "pp=2,dp=2,micro=2",
          "pp=2,dp=2,tp=2,zero=1", "pp=2,dp=2,tp=2,1f1b", "dp=8,zero=1"}) {
      INFO(plan << variant);
      const std::string got = folder() / "got.safetensors";
      const Outcome run = train(plan + variant, fiveSteps + got);
      INFO(run.err);
      REQUIRE(run.code == 0);
      compareSteps(run, one, tolerance);
      compareDumps(got, want, tolerance);
      const Json summary = run.lines().back()["summary"];
      CHECK(summary["ledger_equal_on_ranks_of_a_stage"] == true);
      CHECK(summary["ledger_equal_in_all_steps"] == true);
      CHECK(summary["canaries"] == "whole");
    }
  }
}

TEST_CASE("threads and MPI give equal bits") {
  if (mpirun.empty()) {
    WARN("not tested, as there is no mpirun");
    return;
  }
  const std::string a = folder() / "threads.safetensors",
                    b = folder() / "mpi.safetensors";
  for (const auto &[ranks, plan] :
       {std::pair(4, "dp=2,tp=2,zero=1"), std::pair(4, "pp=2,dp=2,tied,f32"),
        std::pair(3, "pp=3")}) {
    INFO(plan);
    const Outcome threads = train(plan, fiveSteps + a);
    const Outcome mpi = trainOnMpi(ranks, plan, fiveSteps + b);
    INFO(mpi.err);
    REQUIRE(threads.code == 0);
    REQUIRE(mpi.code == 0);
    compareSteps(mpi, threads, 0);
    CHECK(slurp(a) == slurp(b));
    Json left = threads.lines().back()["summary"]["ledger"],
         right = mpi.lines().back()["summary"]["ledger"];
    CHECK(left == right);
    CHECK(mpi.lines().back()["summary"]["backend"] == "mpi");
  }
}

TEST_CASE("processes over sockets give the same bits as threads") {
  if (launch.empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  const std::string a = folder() / "threads.safetensors",
                    b = folder() / "sockets.safetensors";
  for (const auto &[ranks, plan] :
       {std::pair(4, "dp=2,tp=2,zero=1"), std::pair(4, "pp=2,dp=2,tied,f32")}) {
    INFO(plan);
    const Outcome threads = train(plan, fiveSteps + a);
    const Outcome sockets = trainOnSockets(ranks, plan, fiveSteps + b);
    INFO(sockets.err);
    REQUIRE(threads.code == 0);
    REQUIRE(sockets.code == 0);
    compareSteps(sockets, threads, 0);
    CHECK(slurp(a) == slurp(b));
    const Json left = threads.lines().back()["summary"],
               right = sockets.lines().back()["summary"];
    CHECK(left["ledger"] == right["ledger"]);
    CHECK(right["backend"] == "sockets");
    CHECK(right["device"] == "host");
  }
}

TEST_CASE("faults over sockets") {
  if (launch.empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  SECTION("a stalled process is named") {
    const Outcome run =
        trainOnSockets(2, "dp=2,fault=stall", "--steps 3 --timeout 1");
    CHECK(run.code == 2);
    CHECK(run.seconds < 8);
    CHECK_THAT(run.err, Contains("expected rank 1 to join"));
  }
  SECTION("a killed process ends the job and is named") {
    // Rank 1 stalls in its second step; then it is killed. On a busy machine
    // the launcher takes its time to start it.
    const Outcome run = shell(
        "sh -c '" + launch + " 2 " + tiny + " dp=2,fault=stall" + data() +
        " --steps 3 --timeout 30 & job=$!; found=; for try in $(seq 100); do "
        "sleep 0.1; for p in $(pgrep -P $job); do if tr \"\\0\" \"\\n\" "
        "</proc/$p/environ 2>/dev/null | grep -q \"^RANK=1$\"; then found=$p; "
        "fi; done; if [ -n \"$found\" ]; then break; fi; done; sleep 1.5; "
        "kill -9 $found; wait $job'");
    CHECK(run.code != 0);
    CHECK(run.seconds < 20); // well before --timeout
    CHECK_THAT(run.err, Contains("expected rank 1 to stay until the end"));
  }
  SECTION("of four processes, of whom each may be the first to notice, one "
          "tells") {
    for (int time = 0; time < 4; ++time) {
      const Outcome run = trainOnSockets(4, "dp=2,tp=2,fault=die",
                                         "--steps 3 --timeout 30");
      INFO(run.err);
      CHECK(run.code == 2);
      CHECK(run.seconds < 25); // sooner than its deadline
      const size_t first = run.err.find("error: ");
      REQUIRE(first != std::string::npos);
      CHECK(run.err.find("error: ", first + 1) == std::string::npos);
      CHECK_THAT(run.err, Contains("expected rank 1 to stay until the end") &&
                              Contains(" waited for all_reduce number "));
    }
  }
  SECTION("ranks that never come are named") {
    const int port = freePort();
    const Outcome run = shell("env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "
                              "MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                              std::to_string(port) + " " + tiny + " dp=2" +
                              data() + " --timeout 1");
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains("expected rank 1 to join rank 0 at "
                                 "'127.0.0.1' port " +
                                 std::to_string(port + 1)));
  }
  SECTION("an environment that contradicts itself is refused") {
    const Outcome few =
        shell("env WORLD_SIZE=2 RANK=2 " + tiny + " dp=2" + data());
    CHECK(few.code == 5);
    CHECK_THAT(few.err, Contains("RANK to be a number from 0 to 1"));
    const Outcome lone =
        shell("env WORLD_SIZE=2 RANK=1 " + tiny + " dp=2" + data());
    CHECK(lone.code == 5);
    CHECK_THAT(lone.err, Contains("LOCAL_RANK beside WORLD_SIZE") &&
                             Contains("[run_launcher]"));
  }
  SECTION("a wrong number of processes is refused before they meet") {
    const std::string wanted =
        "expected the launcher's processes to equal the plan's 2 ranks";
    const Outcome lone = shell("env WORLD_SIZE=3 RANK=1 LOCAL_RANK=1 "
                               "MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                               std::to_string(freePort()) + " " + tiny +
                               " dp=2" + data() + " --timeout 30");
    CHECK(lone.code == 5);
    CHECK(lone.seconds < 10); // waits for nobody
    CHECK_THAT(lone.err, Contains(wanted));
    const Outcome run = trainOnSockets(3, "dp=2", "--steps 1");
    CHECK(run.code == 5);
    CHECK_THAT(run.err,
               Contains("expected the launcher's processes to equal the plan's "
                        "2 ranks (pp=1 x dp=2 x tp=1), but got 3"));
  }
}

/// Runs the tiny program as two processes; rank 1 gets flags of its own.
static Outcome trainApart(const std::string &flags0,
                          const std::string &flags1) {
  const std::string program = tiny + " dp=2 --steps 1 --timeout 30 ";
  return shell(launch + " 2 sh -c 'if [ $RANK = 0 ]; then exec " + program +
               flags0 + "; else exec " + program + flags1 + "; fi'");
}

static int64_t countOf(const std::string &text, const std::string &what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST_CASE("files of one process that the others do not miss") {
  if (launch.empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  const std::string checkpoint = folder() / "apart.ckpt";
  REQUIRE(train("dp=2", "--steps 1 --save " + checkpoint).code == 0);
  const std::string good = data() + " --steps 2 --load " + checkpoint;
  struct Case {
    std::string flags, words;
    int code;
  };
  for (const auto &[flags, words, code] :
       {Case{data() + " --steps 2 --load /nowhere/x.ckpt",
             "expected to read '/nowhere/x.ckpt', but the system refused: No "
             "such file or directory [run_checkpoint]",
             4},
        Case{" --data /nowhere/x.bin --steps 2 --load " + checkpoint,
             "'/nowhere/x.bin' is not: No such file or directory [run_data]",
             4},
        Case{good + " --save /nowhere/y.ckpt", "[run_output]", 5}}) {
    for (bool isSecond : {true, false}) {
      const Outcome run =
          isSecond ? trainApart(good, flags) : trainApart(flags, good);
      INFO(run.err);
      CHECK(run.code == code);
      CHECK(run.seconds < 15);
      CHECK(run.out.empty());
      CHECK(countOf(run.err, "error: ") == 1);
      CHECK_THAT(run.err, Contains(isSecond ? "error: on rank 1: "
                                            : "error: on rank 0: ") &&
                              Contains(words));
    }
    const Outcome both = trainApart(flags, flags);
    CHECK(both.code == code);
    CHECK(countOf(both.err, "error: ") == 1);
    CHECK_THAT(both.err, !Contains("on rank") && Contains(words));
  }
  const Outcome fine = trainApart(good, good);
  INFO(fine.err);
  CHECK(fine.code == 0);
}

// What a machine lacks differs; that it is one line and exit code 3 does not.
TEST_CASE("a program for a device ends in one line where it cannot run") {
  const Outcome run = train("dp=1,device", "--steps 1");
  CHECK(run.code == 3);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, Catch::Matchers::StartsWith("error: expected ") &&
                          Contains("[run_unsupported]"));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

TEST_CASE("the loss falls and clipping bounds the update") {
  const Outcome run = train("dp=2", "--steps 60 --lr 0.01 --json");
  const auto lines = run.lines();
  CHECK(lines.front()["loss"].get<double>() > 3.9);
  CHECK(lines[59]["loss"].get<double>() < lines[0]["loss"].get<double>() - 0.5);
}

// pp=2, dp=2, tp=2, micro 1: 4 microbatches. Stream of a rank: 6 tokens x 8 x
// 8 bytes = 384. A stage has 2 layers.
TEST_CASE("the measured ledger, by hand") {
  const Outcome run = train("pp=2,dp=2,tp=2,zero=1", "--steps 2 --json");
  REQUIRE(run.code == 0);
  const Json ledger = run.lines().back()["summary"]["ledger"];
  REQUIRE(ledger.size() == 2);
  auto find = [&](size_t stage, const char *collective, const char *axis,
                  const char *phase) {
    for (const Json &entry : ledger[stage]["collectives"])
      if (entry["collective"] == collective && entry["axis"] == axis &&
          entry["phase"] == phase)
        return std::pair<int64_t, int64_t>(entry["calls"],
                                           entry["payload_bytes"]);
    return std::pair<int64_t, int64_t>(0, 0);
  };
  using Entry = std::pair<int64_t, int64_t>;
  // Stage 0: one of embed and two of layers per microbatch.
  CHECK(find(0, "all_reduce", "tp", "forward") == Entry(12, 12 * 384));
  CHECK(find(0, "all_reduce", "tp", "data_grad") == Entry(8, 8 * 384));
  CHECK(find(0, "send", "pp", "forward") == Entry(4, 4 * 384));
  CHECK(find(0, "recv", "pp", "data_grad") == Entry(4, 4 * 384));
  CHECK(find(1, "recv", "pp", "forward") == Entry(4, 4 * 384));
  CHECK(find(1, "send", "pp", "data_grad") == Entry(4, 4 * 384));
  // The head: max of 6, sum and target of 12 values.
  CHECK(find(1, "all_reduce", "tp", "forward") ==
        Entry(16, 8 * 384 + 4 * 48 + 4 * 96));
  // Buckets: layer matrices 3 * 6 * 8 = 144 -> 256, scale 8 -> 256 elements.
  CHECK(find(0, "all_reduce", "tp", "reduce") == Entry(2, 2 * 2048));
  // Embed: 20 rows x 8 = 160 -> 256.
  CHECK(find(0, "reduce_scatter", "dp", "reduce") == Entry(5, 5 * 2048));
  CHECK(find(0, "all_gather", "dp", "update") == Entry(5, 5 * 1024));
  CHECK(find(0, "all_reduce", "world", "update") == Entry(1, 16));
  // Forward: three matmuls of 2 * 6 * 8 * 6 flops, 2 layers, 4 microbatches.
  CHECK(ledger[0]["flops"]["forward"] == 3 * 2 * 6 * 8 * 6 * 2 * 4);
  CHECK(ledger[0]["flops"]["data_grad"] == 4 * 2 * 6 * 8 * 6 * 2 * 4);
  // embed 256, layers 2 * 512: 1280 elements; optimizer a half of 3 each.
  CHECK(ledger[0]["memory"]["parameters_bytes"] == 1280 * 8);
  CHECK(ledger[0]["memory"]["optimizer_bytes"] == 3 * 640 * 8);
}

TEST_CASE("a trace is chrome JSON with events of every rank") {
  const std::string path = folder() / "trace.json";
  const Outcome run = train("pp=2,tp=2", "--steps 1 --trace " + path);
  REQUIRE(run.code == 0);
  const Json trace = Json::parse(slurp(path));
  std::map<int, int> perRank;
  std::map<std::string, int> perName;
  for (const Json &event : trace["traceEvents"]) {
    ++perRank[event["pid"].get<int>()];
    ++perName[event["name"].get<std::string>()];
  }
  CHECK(perRank.size() == 4);
  for (const char *name : {"forward", "backward", "send_forward", "matmul",
                           "all_reduce", "layer.none", "step"})
    CHECK(perName[name] > 0);
}

TEST_CASE("--dry-run shows a rank without running it") {
  const Outcome text = shell(tiny + " pp=2,dp=2 --dry-run --rank 3");
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("rank 3 of 4 on pp=2 x dp=2 x tp=1, for the "
                                "host, stage 1"));
  CHECK_THAT(text.out, Contains("recv_forward microbatch 0 slot 0"));
  CHECK_THAT(text.out, Contains("total_bytes"));
  const Outcome json = shell(tiny + " pp=2,dp=2 --dry-run --rank 3 --json");
  const Json object = Json::parse(json.out);
  CHECK(object["coordinates"]["dp"] == 1);
  CHECK(object["target"] == "the host");
  CHECK(object["actions"].back()["action"] == "step");
}

TEST_CASE("refusals have one message and an exit code") {
  auto refuse = [&](const std::string &command, int code, const char *id,
                    const std::string &message) {
    const Outcome run = shell(command);
    INFO(command);
    CHECK(run.code == code);
    CHECK_THAT(run.err, Contains(message) &&
                            Catch::Matchers::EndsWith(" [" + std::string(id) +
                                                      "]\n"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(run.out.empty());
  };
  const std::string two = tiny + " dp=2";
  refuse(two + data() + " --ranks 3", 5, "run_ranks",
         "expected --ranks to equal the plan's 2 ranks (pp=1 x dp=2 x tp=1), "
         "but got 3");
  refuse(two, 5, "run_flag", "expected --data FILE with at least 8 tokens");
  refuse(two + data() + " --stepz 3", 5, "run_flag",
         "expected a flag that --help lists, but got '--stepz'");
  refuse(two + data() + " --steps 0", 5, "run_flag",
         "expected --steps to be a number from 1, but got '0'");
  refuse(two + data() + " --steps", 5, "run_flag", "to be followed by");
  refuse(two + data() + " --lr=fast", 5, "run_flag", "but got 'fast'");
  refuse(two + data() + " --json=1", 5, "run_flag", "to take no value");
  refuse(two + " --data /nowhere/x.bin", 4, "run_data",
         "'/nowhere/x.bin' is not: No such");
  refuse(two + " --data " + tiny, 4, "run_data",
         "expected a .bin of u16 tokens for the "
         "vocabulary of 37");
  refuse(two + data() + " --dump /nowhere/x", 5, "run_output",
         "expected --dump to be a file that can be written");
  refuse(two + data() + " --trace /nowhere/x", 5, "run_output",
         "expected --trace");
  refuse(two + data() + " --trace /dev/full", 5, "run_output",
         "'/dev/full' is not: No space left on device");
  refuse(two + data() + " --other-data", 5, "run_flag",
         "expected --load FILE beside --other-data");
  refuse(two + " --dry-run --rank 2", 5, "run_ranks",
         "expected --rank to be below 2, but got 2");
  refuse(two + data() + " --rank 1", 5, "run_flag",
         "expected --dry-run beside --rank");
  const std::string shortFile = folder() / "short.bin";
  std::ofstream(shortFile, std::ios::binary) << "ababababababab";
  refuse(two + " --data " + shortFile, 4, "run_data",
         "to hold at least 8 tokens (sequence 6 + 2), but got 7");
  const std::string outside = folder() / "outside.bin";
  std::ofstream(outside, std::ios::binary) << std::string(200, 'a');
  refuse(two + " --data " + outside, 4, "run_file",
         "to be below the vocabulary of 37, but got 24929");
}

TEST_CASE("--help lists the flags") {
  const Outcome run = shell(tiny + " dp=2 --help");
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("--link-bandwidth-mbps") &&
                          Contains("on pp=1 x dp=2 x tp=1, for the host."));
  CHECK(run.err.empty());
  // Nothing of a GPU is needed to ask a program for one.
  const Outcome gpu = shell(tiny + " dp=1,device --help");
  CHECK(gpu.code == 0);
  CHECK_THAT(gpu.out, Contains(", for CUDA GPUs (sm_"));
  const Outcome dry = shell(tiny + " dp=1,device --dry-run");
  CHECK(dry.code == 0);
  CHECK_THAT(dry.out, Contains(", for CUDA GPUs (sm_"));
}

TEST_CASE("a stalled rank ends the job in time and is named") {
  const Outcome run = train("dp=2,fault=stall", "--steps 3 --timeout 0.5");
  CHECK(run.code == 2);
  CHECK(run.seconds < 5.5);
  CHECK_THAT(run.err, Contains("expected rank 1 to join") &&
                          Contains("[run_lost_rank]"));
}

TEST_CASE("a damaged canary is a bug of ours, with the part named") {
  const Outcome run = train("dp=2,fault=canary", "--steps 3");
  CHECK(run.code == 1);
  CHECK_THAT(run.err,
             Contains("damaged: comm, workspace") && Contains("[run_defect]"));
}

TEST_CASE("a loss that is not a number ends the run") {
  const Outcome run = train("dp=2,fault=nan", "--steps 3");
  CHECK(run.code == 2);
  CHECK_THAT(run.err, Contains("to be finite") && Contains("[run_not_finite]"));
}

TEST_CASE("ranks that call different collectives end the run") {
  const Outcome run = train("dp=2,fault=mismatch", "--steps 3 --timeout 5");
  CHECK(run.code == 1);
  CHECK_THAT(run.err, Contains("but it called") && Contains("[run_defect]"));
}

TEST_CASE("a slow link slows the steps") {
  const Outcome fast = train("dp=2", "--steps 2 --json");
  const Outcome slow =
      train("dp=2", "--steps 2 --json --link-latency-us 20000");
  // 10 gradient buckets of two steps each and the norm: more than 20 * 20 ms.
  CHECK(slow.lines()[1]["seconds"].get<double>() > 0.4);
  CHECK(fast.lines()[1]["seconds"].get<double>() < 0.4);
  compareSteps(slow, fast, 0);
}

TEST_CASE("faults under MPI") {
  if (mpirun.empty()) {
    WARN("not tested, as there is no mpirun");
    return;
  }
  SECTION("a wrong number of processes is refused once") {
    const Outcome run = trainOnMpi(3, "dp=2", "--steps 1");
    CHECK(run.code == 5);
    CHECK_THAT(run.err, Contains("expected mpirun -n to equal the plan's 2 "
                                 "ranks (pp=1 x dp=2 x tp=1), but got 3"));
  }
  SECTION("a stalled process is named") {
    const Outcome run =
        trainOnMpi(2, "dp=2,fault=stall", "--steps 3 --timeout 1");
    CHECK(run.code == 2);
    CHECK(run.seconds < 12); // start-up, deadline and two seconds of grace
    CHECK_THAT(run.err, Contains("expected rank 1 to join"));
  }
  SECTION("a killed process ends the job and is named") {
    // Rank 1 stalls in its second step; then it is killed.
    const Outcome run = shell(
        "sh -c '" + mpiEnvironment + mpirun + " -n 2 " + tiny +
        " dp=2,fault=stall" + data() +
        " --steps 3 --timeout 30 & job=$!; sleep 2; for p in $(pgrep -P $job); "
        "do if tr \"\\0\" \"\\n\" </proc/$p/environ | grep -q "
        "\"^OMPI_COMM_WORLD_RANK=1$\"; then kill -9 $p; fi; done; wait $job'");
    CHECK(run.code != 0);
    CHECK(run.seconds < 12);
    CHECK_THAT(run.err, Contains("process rank 1"));
  }
}
