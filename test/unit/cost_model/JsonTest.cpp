#include "cost_model/base/Sha256.h"
#include "cost_model/partition/LedgerJson.h"
#include "cost_model/plan/PlanJson.h"
#include "cost_model/program/ProgramJson.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Plan somePlan() {
  Program program = smallLlama();
  Plan plan = planFor(program, 2, 2, 4, true, 1, 2, 8, Recompute::Full);
  plan.modelSha256 = sha256("model");
  plan.clusterName = "dgx-h100";
  plan.clusterSha256 = sha256("cluster");
  return plan;
}

/// The canonical text with one piece replaced.
std::string edited(const std::string &from, const std::string &to) {
  std::string text = canonicalText(somePlan());
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// All messages of the refusal, one a line.
std::string refusal(const std::string &text) {
  Plan plan;
  plan.dp = 77;
  Failure failure;
  REQUIRE_FALSE(readPlan(text, "p.json", plan, failure));
  CHECK(plan.dp == 77); // untouched
  CHECK(failure.kind == FailureKind::Input);
  std::string all;
  for (const std::string &message : failure.messages)
    all += message + "\n";
  return all;
}

} // namespace

TEST_CASE("the canonical text of a plan") {
  CHECK(canonicalText(somePlan()) == R"({
  "batch": {"global": 32, "micro": 2, "sequence": 16},
  "cluster": {
    "name": "dgx-h100",
    "sha256": ")" + sha256("cluster") +
                                         R"("
  },
  "dtypes": {
    "compute": "bf16",
    "grad": "f32",
    "master": "f32",
    "param": "bf16",
    "reduce": "f32"
  },
  "expert_rows_max": 0,
  "mesh": [
    {"axis": "pp", "size": 2},
    {"axis": "dp", "size": 2},
    {"axis": "tp", "size": 4}
  ],
  "model": {
    "name": "small-llama",
    "sha256": ")" + sha256("model") + R"("
  },
  "parallel": {
    "cp": 1,
    "cp_kind": "none",
    "dp": 2,
    "ep": 1,
    "etp": 1,
    "pp": 2,
    "sp": true,
    "tp": 4,
    "zero": 1,
    "zero_axes": ["dp"]
  },
  "schedule": {"chunks": 1, "kind": "1f1b"},
  "schema": "shardwright.plan/1",
  "stages": [
    {"runs": [["embed", 1, "none"], ["dense", 2, "full"]]},
    {"runs": [["dense", 2, "full"], ["head", 1, "none"]]}
  ]
}
)");
}

TEST_CASE("a plan survives its text") {
  for (ScheduleKind schedule : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    for (int zero : {0, 1}) {
      Plan plan = somePlan(), read;
      plan.schedule = schedule;
      plan.zero = zero;
      plan.dtypes = {DType::F64, DType::F64, DType::F64, DType::F64,
                     DType::F64};
      Failure failure;
      REQUIRE(readPlan(canonicalText(plan), "p.json", read, failure));
      CHECK(read == plan);
      CHECK(canonicalText(read) == canonicalText(plan));
    }
}

TEST_CASE("a group of microbatches is written where it is not pp") {
  Plan plan = somePlan(), read;
  plan.schedule = ScheduleKind::Interleaved;
  Failure failure;
  for (int64_t group : {int64_t(0), plan.pp, plan.pp + 3}) {
    CAPTURE(group);
    plan.group = group;
    const std::string text = canonicalText(plan);
    CHECK((text.find("\"microbatch_group\": 5") != std::string::npos) ==
          (group == 5));
    REQUIRE(readPlan(text, "p.json", read, failure));
    CHECK(groupOf(read) == groupOf(plan));
    CHECK(canonicalText(read) == text);
  }
}

TEST_CASE("keys of a split sequence, of copies and of narrow products") {
  Program program = smallLlama();
  Plan plan = planFor(program, 2, 2, 2, true, 1, 2, 8, Recompute::None);
  Plan read;
  Failure failure;
  const auto roundTrips = [&] {
    setMesh(plan);
    const std::string text = canonicalText(plan);
    INFO(text);
    REQUIRE(readPlan(text, "p.json", read, failure));
    CHECK(read == plan);
    return text;
  };
  const auto has = [](const std::string &text, const char *piece) {
    return text.find(piece) != std::string::npos;
  };
  CHECK(has(roundTrips(), "\"cp_kind\": \"none\""));
  plan.cp = 2;
  for (CpKind kind : cpKinds) {
    plan.cpKind = kind;
    CHECK(has(roundTrips(), ("\"" + std::string(name(kind)) + "\"").c_str()));
  }
  CHECK(has(roundTrips(), "\"zero_axes\": [\"dp\", \"cp\"]"));
  plan.zeroRanks = 1;
  CHECK(has(roundTrips(), "\"zero_axes\": [\"cp\"]"));
  plan.dp = 4;
  plan.zeroRanks = 2;
  CHECK(has(roundTrips(), "\"zero_axes\": [\"dp1\", \"cp\"]"));
  plan.order = MeshOrder::DpPp;
  roundTrips();
  CHECK(read.mesh.front().name == "dp0");
  CHECK_FALSE(has(roundTrips(), "offload"));
  plan.offloadOptimizer = true;
  CHECK(has(roundTrips(), "\"offload\": \"optimizer\""));
  plan.offloadActivations = true;
  CHECK(has(roundTrips(), "\"offload\": \"both\""));
  plan.offloadOptimizer = false;
  CHECK(has(roundTrips(), "\"offload\": \"activations\""));
  for (Narrow narrow : narrows) {
    plan.dtypes.products = narrow;
    CHECK(has(roundTrips(), "products") == (narrow != Narrow::None));
  }
  CHECK_FALSE(has(roundTrips(), "kv_replicas"));
  plan.tp = 4;
  plan.kvReplicas = 2;
  CHECK(has(roundTrips(), "\"kv_replicas\": 2"));
  CHECK(read.mesh.back() == MeshAxis{"tp1", 2});
  CHECK(refusal(edited("\"cp_kind\": \"none\"", "\"cp_kind\": \"p2p\"")) ==
        "p.json#/parallel/cp_kind: expected \"none\", but got \"p2p\"\n");
  CHECK(refusal(edited("\"cp\": 1", "\"cp\": 2")).find(
            "p.json#/parallel/cp_kind: expected one of p2p, all_gather, a2a, "
            "but got \"none\"") == 0);
}

TEST_CASE(
    "readings of a plan differ in what cannot be read, and in that alone") {
  const auto readingsOf = [](const std::string &text) {
    Plan plan;
    Failure failure;
    std::vector<Plan> readings;
    CHECK_FALSE(readPlan(text, "p.json", plan, failure, &readings));
    CHECK_FALSE(failure.messages.empty());
    return readings;
  };
  std::vector<Plan> readings = readingsOf(edited("\"tp\": 4", "\"tp\": \"x\""));
  REQUIRE(readings.size() == 2);
  CHECK(readings[0].tp != readings[1].tp);
  readings[0].tp = readings[1].tp;
  CHECK(readings[0] == readings[1]);
  CHECK(sequenceOfAll(readings) == readings[0].sequence);
  readings[0].sequence += 1;
  CHECK(sequenceOfAll(readings) == 0);
  readings = readingsOf(edited("\"cp\": 1,", "\"cp\": 1, \"colour\": 2,"));
  REQUIRE(readings.size() == 2);
  CHECK(readings[0] == readings[1]);
  CHECK(readingsOf("{").empty());
}

TEST_CASE("unknown, missing and duplicate keys are errors with a pointer") {
  CHECK(refusal(edited("\"cp\": 1,", "\"cp\": 1, \"vp\": 2,")) ==
        "p.json#/parallel/vp: unknown key\n");
  CHECK(refusal(edited("\"tp\": 4,", "")) ==
        "p.json#/parallel/tp: expected a value, but the key is missing\n");
  CHECK(refusal(edited("\"tp\": 4,", "\"tp\": 4, \"tp\": 8,")) ==
        "p.json#/parallel/tp: expected every key once, but got it twice\n");
  CHECK(refusal(edited("\"size\": 4", "\"size\": 4, \"size\": 4")) ==
        "p.json#/mesh/2/size: expected every key once, but got it twice\n");
  CHECK(refusal(edited("\"schedule\": {\"chunks\": 1, \"kind\": \"1f1b\"},",
                       "")) ==
        "p.json#/schedule: expected a value, but the key is missing\n");
}

TEST_CASE("numbers of a plan are integers in range") {
  auto with = [](const char *value) {
    return refusal(
        edited("\"tp\": 4,", "\"tp\": " + std::string(value) + ","));
  };
  const std::string wanted =
      "p.json#/parallel/tp: expected an integer from 1 to 32768, but got ";
  for (const char *value : {"0", "-3", "2.5", "4.0", "\"4\"", "null", "true",
                            "32769", "99999999999999999999",
                            "18446744073709551615", "[4]"}) {
    INFO(value);
    CHECK(with(value).starts_with(wanted));
  }
  CHECK(with("-3") == wanted + "-3\n");
}

TEST_CASE("a mesh has no more axes than degrees can need") {
  std::string axes;
  for (int i = 0; i < 300; ++i)
    axes += "{\"axis\": \"tp" + std::to_string(i) + "\", \"size\": 2}, ";
  const std::string text = edited("\"mesh\": [", "\"mesh\": [" + axes);
  CHECK(refusal(text) ==
        "p.json#/mesh: expected at most 15 axes, but got 303\n");
  Plan plan;
  Failure failure;
  std::vector<Plan> readings; // which rules are asked about
  CHECK_FALSE(readPlan(text, "p.json", plan, failure, &readings));
  for (const Plan &reading : readings)
    CHECK(reading.mesh.size() <= maxAxes);
}

TEST_CASE("words of a plan are of closed sets") {
  CHECK(refusal(edited("\"1f1b\"", "\"1F1B\"")) ==
        "p.json#/schedule/kind: expected one of gpipe, 1f1b, interleaved, "
        "zb-h1, zb-2p, zb-v, dualpipe, dualpipe-v, but got "
        "\"1F1B\"\n");
  CHECK(refusal(edited("\"full\"]]", "\"some\"]]")) ==
        "p.json#/stages/0/runs/1/2: expected one of none, selective, full, but "
        "got \"some\"\n");
  CHECK(refusal(edited("[\"embed\", 1, \"none\"]", "[\"embed\", 1]")) ==
        "p.json#/stages/0/runs/0: expected [kind, count, recompute], but got "
        "[\"embed\",1]\n");
  CHECK(refusal(edited("[\"embed\", 1,", "[\"embed\", 0,")) ==
        "p.json#/stages/0/runs/0/1: expected an integer from 1 to 1048576, but "
        "got 0\n");
  CHECK(refusal(edited("plan/1", "plan/2")) ==
        "p.json#/schema: expected \"shardwright.plan/1\", but got "
        "\"shardwright.plan/2\"\n");
  CHECK(refusal(edited("[\"dp\"]", "[]")) ==
        "p.json#/parallel/zero_axes: expected [\"dp\"], but got []\n");
}

TEST_CASE("all errors of a plan are reported at once") {
  std::string all = refusal(R"({"schema": "shardwright.plan/1", "model": 3,
      "parallel": {"dp": -1}, "stages": {}, "extra": 0})");
  for (const char *message :
       {"#/model: expected an object, but got 3",
        "#/parallel/dp: expected an integer from 1 to 131072, but got -1",
        "#/parallel/tp: expected a value, but the key is missing",
        "#/stages: expected an array, but got {}", "#/extra: unknown key",
        "#/batch: expected a value, but the key is missing"}) {
    INFO(all);
    CHECK(all.find(message) != std::string::npos);
  }
}

TEST_CASE("what is no JSON is said to be none") {
  for (const char *text : {"", "{", "{\"a\": nan}", "[1,]", "{} {}", "\xff"})
    CHECK(refusal(text).starts_with("p.json: not JSON: "));
  CHECK(refusal(std::string("{}\0 more", 8)) ==
        "p.json: not JSON: a NUL byte at offset 2\n");
  CHECK(refusal("[]").starts_with("p.json#: expected an object, but got []"));
}

TEST_CASE("a program survives its text") {
  for (const Program &program :
       {twoGemms(), smallLlama(), smallLlama({.tied = true})}) {
    const std::string text = programJson(program);
    Program read;
    Failure failure;
    bool good = readProgram(text, "program.json", read, failure);
    INFO((failure.messages.empty() ? "" : failure.messages[0].text));
    REQUIRE(good);
    CHECK(read == program);
    CHECK(programJson(read) == text);
  }
  CHECK(programJson(smallLlama()) != programJson(smallLlama({.ffn = 44})));
}

TEST_CASE("a program that refers to what is not there is refused") {
  const std::string good = programJson(twoGemms());
  auto message = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    Program program;
    Failure failure;
    REQUIRE_FALSE(readProgram(text, "m.json", program, failure));
    return failure.messages.at(0).text;
  };
  CHECK(message("[[\"mlp\", 1]]", "[[\"moe\", 1]]") ==
        "m.json#/stack/0: expected [kind, count], but got [\"moe\",1]");
  CHECK(message("[\"stream_in\", 0, 0]", "[\"stream_in\", 0, 99]")
            .find("expected [kind, index, value]") != std::string::npos);
  CHECK(message("[\"parameter\", 1, ", "[\"parameter\", 7, ")
            .find("expected a parameter of the kind") != std::string::npos);
  CHECK(message("\"kernel\": \"gemm\"", "\"kernel\": \"conv\"")
            .find("expected one of gemm, attention") != std::string::npos);
  CHECK(message("\"hidden\": 8", "\"hidden\": -8") ==
        "m.json#/hidden: expected an integer from 0 to 1099511627776, but got "
        "-8");
}

TEST_CASE("a ledger as JSON") {
  Ledger ledger = predictLedger(twoGemms(), planFor(twoGemms(), 1, 1, 2), 0);
  CHECK(ledgerJson(ledger) == R"({
  "collectives": [
    {
      "axis": "tp",
      "calls": 4,
      "collective": "all_reduce",
      "payload_bytes": 384,
      "phase": "forward"
    },
    {
      "axis": "tp",
      "calls": 4,
      "collective": "all_reduce",
      "payload_bytes": 384,
      "phase": "data_grad"
    },
    {
      "axis": "world",
      "calls": 1,
      "collective": "all_reduce",
      "payload_bytes": 16,
      "phase": "update"
    }
  ],
  "flops": {"data_grad": 6144, "forward": 6144, "weight_grad": 6144},
  "memory": {
    "comm_bytes": 256,
    "gradients_bytes": 512,
    "optimizer_bytes": 1536,
    "p2p_bytes": 0,
    "parameters_bytes": 256,
    "saved_bytes": 512,
    "total_bytes": 3840,
    "workspace_bytes": 768
  }
}
)");
}

TEST_CASE("nesting that would end the stack of a printer is refused") {
  const std::string nested = "{\"schema\": " + std::string(100000, '[') +
                             std::string(100000, ']') + "}";
  Plan plan;
  Failure failure;
  REQUIRE_FALSE(readPlan(nested, "deep.json", plan, failure));
  REQUIRE(failure.messages.size() == 1);
  CHECK(failure.messages[0].text == "deep.json: not JSON: expected at most 64 levels "
                               "of nesting, but got more");
}

TEST_CASE("a long value is cut in the middle of its message, with how much") {
  CHECK(cut("short") == "short");
  CHECK(cut(std::string(longestLine, 'x')).size() == longestLine);
  const std::string text =
      "f.json#/key: expected a b, but got '" + std::string(30000, 'x') + "' here";
  const std::string shown = cut(text);
  CHECK(shown.size() < longestLine + 50);
  CHECK(shown.starts_with("f.json#/key: expected a b, but got 'xxx"));
  CHECK(shown.ends_with("xxx' here"));
  CHECK(shown.find(" ... (" + std::to_string(text.size() - 950) +
                   " bytes left out) ... ") != std::string::npos);
  // Never inside of a character: 2 bytes each, from an odd place on.
  std::string wide = "x";
  for (int i = 0; i < 1000; ++i)
    wide += "\u00e4";
  const std::string cutWide = cut(wide);
  const size_t begin = cutWide.find(" ... ("), end = cutWide.find(") ... ");
  CHECK(begin % 2 == 1);
  CHECK((cutWide.size() - end - 6) % 2 == 0);
  Failure failure;
  refuse(failure, Diag::wrong_value, text);
  CHECK(lines(failure) ==
        std::vector<std::string>{"error: " + shown + " [wrong_value]"});
  // What a linker says of our bugs is for who mends them.
  failure = {};
  refuse(failure, Diag::internal_error, text);
  CHECK(lines(failure).front().size() > 30000);
}
