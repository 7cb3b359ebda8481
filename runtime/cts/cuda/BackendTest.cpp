//===- BackendTest.cpp - The CUDA backend on a fake driver ----------------===//
//
// What the backend asks of NVIDIA's libraries and how it ends when they refuse.
// Not a run on a GPU (FakeDriver.cpp).
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/BackendRun.h"

#include <cublasLt.h>

#include <set>
#include <sstream>

using namespace shardwright::runtime::cts;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// One line on stderr, nothing on stdout.
void refuses(const std::string &environment, int code, const std::string &text,
             const std::string &plan = "device") {
  const Outcome run = train(environment, plan, "--steps 1 --timeout 1");
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
          "for CUDA " + std::to_string(CUDA_VERSION / 1000) + ".0 or later");
  refuses("FAKE_DEVICES=-1", 3, "NVIDIA's driver to start");
  refuses("FAKE_DEVICES=0", 3, "at least one GPU, but got none");
  refuses("FAKE_CAPABILITY=70", 3,
          "compute capability 8.0 or later, but got 'Fake GPU' with 7.0");
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
  const std::string trace = " --trace " + (folder() / "trace.json").string();
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

TEST_CASE("streams have queues of their own, unless the user says otherwise") {
  for (const auto &[environment, want] :
       {std::pair{"", "connections 32\n"},
        std::pair{"CUDA_DEVICE_MAX_CONNECTIONS=4", "connections 4\n"}}) {
    const fs::path log = folder() / "connections";
    fs::remove(log);
    const Outcome run = train("FAKE_LOG_CONNECTIONS=1 FAKE_DEVICES=-1 FAKE_LOG=" +
                                  log.string() + " " + environment,
                              "device", "--steps 1");
    CHECK(run.code == 3);
    CHECK(slurp(log) == want);
  }
}

TEST_CASE("products are in full precision, or in tf32 when asked for") {
  auto types = [](const std::string &plan, const std::string &flags) {
    const fs::path log = folder() / "types";
    fs::remove(log);
    const Outcome run =
        train("FAKE_LOG_TYPES=1 FAKE_LOG=" + log.string(), plan,
              "--steps 3 --trace " + (folder() / "t.json").string() + flags);
    INFO(run.err);
    CHECK(run.code == 0);
    std::set<std::string> found;
    std::istringstream lines(slurp(log));
    for (std::string line; std::getline(lines, line);)
      found.insert(line);
    return found;
  };
  auto only = [](cublasComputeType_t type) {
    return std::set<std::string>{"compute_" + std::to_string(type)};
  };
  CHECK(types("f32,device", "") == only(CUBLAS_COMPUTE_32F));
  CHECK(types("f32,device", " --tf32") == only(CUBLAS_COMPUTE_32F_FAST_TF32));
  CHECK(types("device", " --tf32") == only(CUBLAS_COMPUTE_64F));
}

// The tiny program's functions are the host's, so no recording holds them: the
// numbers of recorded steps are the business of test/Execute.
TEST_CASE("the second step is recorded and later ones replay it") {
  const fs::path log = folder() / "log";
  fs::remove(log);
  const Outcome run =
      train("FAKE_LOG=" + log.string(), "device", "--steps 4 --json");
  INFO(run.err);
  CHECK(slurp(log) == "begin_capture\nend_capture\ngraph_launch\n"
                      "graph_launch\ngraph_launch\n");
}

TEST_CASE("the conformance suite passes as far as a fake driver goes") {
  const Outcome run = shell("SHARDWRIGHT_CTS_DEVICE=cuda", SHARDWRIGHT_CTS
                            " 'matmul equals*,embedding*,memory of a device*,"
                            "rows are copied*,squares*,attention survives*,"
                            "a poisoned context*'");
  INFO(run.out);
  CHECK(run.code == 0);
  CHECK_THAT(run.out, Contains("All tests passed"));
  CHECK_THAT(run.out, Contains("in 9 test cases"));
}

TEST_CASE("memory is predicted and checked before anything is taken") {
  // By hand, for dp=2, tp=2: two communicators of two ranks, 32 channels of 12
  // MiB each; 32 MiB of workspace; tokens and labels of 4 microbatches.
  const Outcome plenty = train(
      "FAKE_DEVICES=4", "dp=2,tp=2,device", "--steps 1 --json --trace " +
                                                (folder() / "t.json").string());
  INFO(plenty.err);
  REQUIRE(plenty.code == 0);
  const Json ranks = plenty.lines().back()["summary"]["per_rank"];
  const int64_t predicted =
      ranks[0]["device"]["beside_arena_predicted_bytes"];
  const int64_t nccl = 2 * 32 * (12 << 20), blas = 32 << 20;
  const int64_t inputs = 2 * 4 * 256;
  CHECK(predicted == nccl + blas + inputs +
                         ranks[0]["device"]["scratch_bytes"].get<int64_t>());
  const Json dry = Json::parse(
      shell("", SHARDWRIGHT_TINY " dp=2,tp=2,device --dry-run --json").out);
  CHECK(dry["memory_beside_arena"]["nccl_bytes"] == nccl);
  CHECK(dry["memory_beside_arena"]["matmul_workspace_bytes"] == blas);
  CHECK(dry["memory_beside_arena"]["inputs_bytes"] == inputs);
  const Json one =
      Json::parse(shell("", SHARDWRIGHT_TINY " device --dry-run --json").out);
  int64_t needed = one["memory"]["total_bytes"];
  for (const auto &[name, bytes] : one["memory_beside_arena"].items())
    needed += bytes.get<int64_t>();
  refuses("FAKE_FREE_BYTES=" + std::to_string(needed - 1), 2,
          "nccl_bytes 0), but " + std::to_string(needed - 1) +
              " of 85899345920 are");
}

TEST_CASE("NCCL of the wrong version is refused if there are several ranks") {
  refuses("FAKE_DEVICES=2 FAKE_NCCL_VERSION=21700", 3, "NCCL 2.18 or later",
          "dp=2,device");
  const Outcome one =
      train("FAKE_NCCL_VERSION=21700", "device", "--steps 1");
  CHECK(one.code == 0);
}

TEST_CASE("the conformance suite of collectives passes in every order that "
          "events allow") {
  const std::string suite =
      SHARDWRIGHT_CTS " 'all_*,reduce_scatter*,send and recv*,a group "
                      "restricted*,the ledger books*,lanes*,what was copied*'";
  for (const char *order : {"compute", "communication"}) {
    const std::string environment =
        std::string("SHARDWRIGHT_CTS_DEVICE=cuda FAKE_DEVICES=4 "
                    "SHARDWRIGHT_CTS_LARGEST=103 FAKE_ORDER=") +
        order;
    const Outcome run = shell(environment, suite);
    INFO(order << "\n" << run.out);
    CHECK(run.code == 0);
    CHECK_THAT(run.out, Contains("All tests passed"));
    CHECK_THAT(run.out, Contains("in 10 test cases"));
    // A test that forgotten events pass would say nothing.
    const Outcome without = shell(environment + " FAKE_FORGET_WAITS=1",
                                  SHARDWRIGHT_CTS " 'lanes*'");
    CHECK(without.code != 0);
  }
}

TEST_CASE("ranks with a GPU each train as the host does, over NCCL") {
  const std::string trace = " --trace " + (folder() / "trace.json").string();
  for (const std::string plan :
       {"dp=2", "dp=4,zero=1", "tp=2", "pp=2", "pp=2,1f1b", "pp=2,dp=2,tied",
        "pp=2,dp=2,tp=2,zero=1,1f1b"}) {
    INFO(plan);
    const std::string flags = " --steps 3 --json --lr 0.01" + trace;
    const Outcome host = train("", plan, flags);
    const Outcome device = train("FAKE_PATIENCE=60 FAKE_DEVICES=8",
                                 plan + ",device", flags);
    INFO(device.err);
    REQUIRE(host.code == 0);
    REQUIRE(device.code == 0);
    const auto want = host.lines(), got = device.lines();
    REQUIRE(got.size() == want.size());
    for (size_t step = 0; step < 3; ++step)
      for (const char *key : {"loss", "grad_norm"})
        CHECK(got[step][key].get<double>() ==
              Approx(want[step][key].get<double>()).epsilon(1e-11));
    // The same calls and bytes, though gradients are reduced earlier.
    CHECK(got.back()["summary"]["ledger"] == want.back()["summary"]["ledger"]);
    CHECK(got.back()["summary"]["per_rank"][0]["device"]["nccl_calls"] > 0);
  }
}

TEST_CASE("what NCCL says ends the job with the call and its ranks") {
  SECTION("an error of its own") {
    const Outcome run = train("FAKE_DEVICES=2 FAKE_NCCL_ERROR=3", "dp=2,device",
                              "--steps 2 --timeout 5");
    CHECK(run.code == 2);
    CHECK(run.seconds < 4);
    CHECK_THAT(run.err, Contains("error: expected all_reduce"));
    CHECK_THAT(run.err, Contains("of ranks 0, 1 to work, but NCCL on rank"));
    CHECK_THAT(run.err, Contains("remote process exited: as the test wants"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
  SECTION("a refused call") {
    const Outcome run = train("FAKE_DEVICES=2 FAKE_NCCL_REFUSE=1",
                              "dp=2,device", "--steps 1 --timeout 5");
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains("says ncclAllReduce: fake failure"));
  }
}

TEST_CASE("a rank that stalls is named, and communicators are aborted") {
  const fs::path log = folder() / "abort-log";
  fs::remove(log);
  const Outcome run =
      train("FAKE_DEVICES=2 FAKE_LOG=" + log.string(),
            "tp=2,device,fault=stall", "--steps 3 --timeout 1");
  CHECK(run.code == 2);
  CHECK(run.seconds < 8);
  CHECK_THAT(run.err, Contains("rank 1"));
  CHECK_THAT(slurp(log), Contains("nccl_abort"));
}
