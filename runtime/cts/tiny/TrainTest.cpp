//===- TrainTest.cpp - Results of whole runs ------------------------------===//
//
// Every plan must give the losses, gradients and parameters of one rank.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/tiny/TinyRun.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>

using namespace shardwright::runtime::cts;
using Catch::Matchers::Contains;

namespace {

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
          "pp=2,1f1b", "pp=2,vp=2", "pp=2,vp=2,dp=2,tp=2,zero=1",
          "dp=2,tp=2,zero=1", "pp=2,dp=2,micro=2", "pp=2,dp=2,tp=2,zero=1",
          "pp=2,dp=2,tp=2,1f1b", "dp=8,zero=1"}) {
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
        std::pair(3, "pp=3"), std::pair(4, "pp=2,vp=2,dp=2,tied")}) {
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
       {std::pair(4, "dp=2,tp=2,zero=1"), std::pair(4, "pp=2,dp=2,tied,f32"),
        std::pair(2, "pp=2,vp=2,tied")}) {
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

TEST_CASE("a slow link slows the steps") {
  const Outcome fast = train("dp=2", "--steps 2 --json");
  const Outcome slow =
      train("dp=2", "--steps 2 --json --link-latency-us 20000");
  // 10 gradient buckets of two steps each and the norm: more than 20 * 20 ms.
  CHECK(slow.lines()[1]["seconds"].get<double>() > 0.4);
  CHECK(fast.lines()[1]["seconds"].get<double>() < 0.4);
  compareSteps(slow, fast, 0);
}
