#include "cost_model/partition/LayerTable.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {
constexpr auto AR = Collective::AllReduce;
constexpr auto AG = Collective::AllGather;
constexpr auto RS = Collective::ReduceScatter;

Plan f32(Plan plan) {
  plan.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
  return plan;
}
LedgerEntry entry(int64_t calls, int64_t bytes) { return {calls, Bytes(bytes)}; }

/// A plan of a chunked schedule, its layers dealt out evenly.
Plan chunked(const Program &program, ScheduleKind kind, int64_t pp,
             int64_t chunks, int64_t microbatches) {
  Plan plan = planFor(program, pp, 1, 1, false, 0, 1, microbatches);
  plan.schedule = kind;
  plan.chunks = chunks;
  plan.stages = evenStages(program, stageCount(plan), Recompute::None);
  return plan;
}
} // namespace

TEST_CASE("ZeRO 2 and 3 reduce and gather every microbatch, by hand") {
  // 256 parameters padded to 4 * 128 = 512: gradients of 2048 B, shards of 512.
  const Program program = twoGemms();
  Plan plan = f32(planFor(program, 1, 4, 1, false, 2, 1, 4));
  Ledger ledger = predictLedger(program, plan, 0);
  CHECK(ledger.collectives.at({RS, "dp", Phase::Reduce}) == entry(4, 8192));
  CHECK(ledger.collectives.at({AG, "dp", Phase::Update}) == entry(1, 512));
  CHECK(ledger.collectives.size() == 3); // and the norm
  CHECK(ledger.memory.parameters == Bytes(2048));
  CHECK(ledger.memory.gradients == Bytes(512));
  CHECK(ledger.memory.optimizer == Bytes(3 * 512));
  // Staging of the reduce-scatter, 512 B, and the whole gradient.
  CHECK(ledger.memory.comm == Bytes(512 + 2048));

  plan.zero = 3;
  ledger = predictLedger(program, plan, 0);
  CHECK(ledger.collectives.at({RS, "dp", Phase::Reduce}) == entry(4, 8192));
  CHECK(ledger.collectives.at({AG, "dp", Phase::Forward}) == entry(4, 2048));
  CHECK(ledger.collectives.at({AG, "dp", Phase::DataGrad}) == entry(4, 2048));
  CHECK(ledger.collectives.count({AG, "dp", Phase::Update}) == 0);
  CHECK(ledger.memory.parameters == Bytes(512));
  CHECK(ledger.memory.comm == Bytes(512 + 2048 + 2048));
}

TEST_CASE("HSDP shards inside groups and sums over their copies") {
  const Program program = twoGemms();
  Plan plan = f32(planFor(program, 1, 4, 1, false, 3, 1, 4));
  plan.zeroRanks = 2;
  setMesh(plan);
  REQUIRE(checkPlan(program, plan).empty());
  CHECK(plan.mesh == std::vector<MeshAxis>{
                         {"pp", 1}, {"dp0", 2}, {"dp1", 2}, {"tp", 1}});
  const Ledger ledger = predictLedger(program, plan, 0);
  CHECK(ledger.collectives.at({RS, "dp1", Phase::Reduce}) == entry(4, 4096));
  // Once, the shard: 256 elements padded to 2 * 128, half of them.
  CHECK(ledger.collectives.at({AR, "dp0", Phase::Reduce}) == entry(1, 512));
  CHECK(ledger.collectives.at({AG, "dp1", Phase::Forward}) == entry(4, 2048));
  CHECK(ledger.memory.optimizer == Bytes(3 * 512));
}

TEST_CASE("7.5 billion parameters on 64 ranks, by hand") {
  // Rajbhandari et al., ZeRO, arXiv 1910.02054, figure 1: 16 bytes a parameter
  // in 16 bits with Adam; 120, 31.4, 16.6 and 1.88 GB.
  const Program program = smallLlama({.sequence = 2048,
                                      .hidden = 4096,
                                      .kvHeads = 32,
                                      .group = 1,
                                      .headDim = 128,
                                      .ffn = 11008,
                                      .vocab = 32000,
                                      .layers = 36});
  const double count = static_cast<double>(parameterCount(program));
  REQUIRE(count == Approx(7.5e9).epsilon(0.01));
  const double published[] = {120e9, 31.4e9, 16.6e9, 1.88e9};
  for (int zero = 0; zero <= 3; ++zero) {
    Plan plan = planFor(program, 1, 64, 1, false, zero, 1, 1);
    plan.dtypes.grad = plan.dtypes.reduce = DType::BF16;
    const MemoryParts memory = memoryOf(program, plan, 0);
    const double state = static_cast<double>(
        (memory.parameters + memory.gradients + memory.optimizer).count());
    INFO("ZeRO " << zero);
    CHECK(state * 7.5e9 / count == Approx(published[zero]).epsilon(0.004));
  }
}

TEST_CASE("a copy of the logits of 8192 tokens is 3.9 GiB") {
  const Program program = smallLlama({.sequence = 8192, .vocab = 128256});
  const Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 1);
  const Value logits{
      {{8192, Role::Seq}, {1, Role::Batch}, {128256, Role::Vocab}},
      Precision::Stat};
  Encoding whole;
  whole.dims.resize(3);
  CHECK(gibibytes(localBytes(plan, logits, whole)) ==
        Approx(3.914).epsilon(0.001));
  // The head works on no less than its logits in 16 bits.
  CHECK(gibibytes(memoryOf(program, plan, 0).workspace) > 1.957);
}

TEST_CASE("saved activations follow the schedule") {
  const Program program = smallLlama({.vocab = 1024, .layers = 24});
  const auto saved = [&](const Plan &plan, int64_t rank) {
    REQUIRE(checkPlan(program, plan).empty());
    return static_cast<double>(memoryOf(program, plan, rank).saved.count());
  };
  // Whole stages of three layers each, without what embedding and head save.
  const LayerFacts layer =
      layerFacts(planFor(program, 8, 1, 1), program.kinds[1],
                 program.kinds[1].variants[0]);
  const double stage = 3 * static_cast<double>(layer.memory.saved.count());
  const double kept = 3 * static_cast<double>(layer.memory.kept.count());
  CHECK(kept > 0);
  Plan plan = chunked(program, ScheduleKind::OneFOneB, 8, 1, 32);
  for (int64_t rank = 1; rank < 7; ++rank)
    CHECK(saved(plan, rank) ==
          stage * static_cast<double>(8 - rank));
  plan = chunked(program, ScheduleKind::Interleaved, 8, 3, 32);
  for (int64_t rank = 1; rank < 7; ++rank) // 24 + 7 - 2 s stages of one layer
    CHECK(saved(plan, rank) ==
          Approx(stage / 3 * static_cast<double>(24 + 7 - 2 * rank)));
  // ZB-H1: all eight, rank of them with what their weight gradients need, and
  // one more while its own is left.
  plan = chunked(program, ScheduleKind::ZbH1, 8, 1, 32);
  for (int64_t rank = 1; rank < 7; ++rank)
    CHECK(saved(plan, rank) ==
          Approx(8 * stage + kept * static_cast<double>(rank + 1)));
}

TEST_CASE("both directions of DualPipe hold a stage, and sum its gradients") {
  const Program program = smallLlama({.vocab = 1024, .layers = 4});
  const Plan plan = chunked(program, ScheduleKind::DualPipe, 4, 2, 8);
  REQUIRE(checkPlan(program, plan).empty());
  const Plan plain = planFor(program, 4, 1, 1, false, 0, 1, 8);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Ledger two = predictLedger(program, plan, rank);
    const Ledger own = predictLedger(program, plain, rank);
    const Ledger other = predictLedger(program, plain, 3 - rank);
    CHECK(two.memory.parameters ==
          own.memory.parameters + other.memory.parameters);
    // Half of the microbatches of either stage.
    CHECK(2 * two.flops.at(Phase::Forward) ==
          own.flops.at(Phase::Forward) + other.flops.at(Phase::Forward));
    const LedgerEntry sum = two.collectives.at({AR, "pp", Phase::Reduce});
    CHECK(sum.payload == two.memory.gradients);
  }
}

TEST_CASE("the turn of a V needs no transfer, and its ends share a rank") {
  const Program program =
      smallLlama({.vocab = 1024, .layers = 6, .tied = true});
  const Plan plan = chunked(program, ScheduleKind::ZbV, 3, 2, 6);
  REQUIRE(checkPlan(program, plan).empty());
  const LedgerKey send{Collective::Send, "pp", Phase::Forward};
  CHECK(predictLedger(program, plan, 0).collectives.at(send).calls == 6);
  CHECK(predictLedger(program, plan, 1).collectives.at(send).calls == 12);
  CHECK(predictLedger(program, plan, 2).collectives.at(send).calls == 6);
  // Embedding and head are one tensor on rank 0: nobody to sum it with.
  CHECK(predictLedger(program, plan, 0)
            .collectives.count({AR, "pp", Phase::Reduce}) == 0);
  CHECK(ownerStages(program, plan, sharedParameters(program)[0].name) ==
        std::vector<int64_t>{0});
}
