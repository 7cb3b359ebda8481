// Context parallelism: what every kind moves, by hand, and that no work is lost.
#include "cost_model/partition/Layout.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// Sequence 16, 4 key/value heads of width 3 with 2 query heads each, 4 layers;
/// 4 microbatches of one sequence, f32.
Plan split(const Program &program, CpKind kind, int64_t cp, int64_t dp = 1,
           int64_t tp = 1, int zero = 0) {
  Plan plan = planFor(program, 1, dp, tp, tp > 1, zero, 1, 4);
  plan.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
  plan.cp = cp;
  plan.cpKind = kind;
  setMesh(plan);
  REQUIRE(checkPlan(program, plan).empty());
  return plan;
}

using Collectives = std::map<LedgerKey, LedgerEntry>;
/// Entries of the ledger on `axis` in the phases of layers.
Collectives on(const Ledger &ledger, const std::string &axis) {
  Collectives found;
  for (const auto &[key, entry] : ledger.collectives)
    if (key.axis == axis && key.phase <= Phase::WeightGrad)
      found.emplace(key, entry);
  return found;
}
LedgerEntry entry(int64_t calls, int64_t payload) {
  return {calls, Bytes(payload)};
}

} // namespace

TEST_CASE("keys and values go round a ring, and their gradients with them") {
  const Program program = smallLlama();
  const Ledger ledger =
      predictLedger(program, split(program, CpKind::P2P, 2), 0);
  // A part: 2 * 8 positions * 4 heads * 3 * 4 bytes = 768; 16 layers and
  // microbatches; backward one call more, and twice the bytes.
  CHECK(on(ledger, "cp") ==
        Collectives{
            {{Collective::Send, "cp", Phase::Forward}, entry(16, 16 * 768)},
            {{Collective::Recv, "cp", Phase::Forward}, entry(16, 16 * 768)},
            {{Collective::Send, "cp", Phase::DataGrad}, entry(32, 32 * 768)},
            {{Collective::Recv, "cp", Phase::DataGrad}, entry(32, 32 * 768)}});
}

TEST_CASE("keys and values are gathered, their gradients scattered") {
  const Program program = smallLlama();
  const Ledger ledger =
      predictLedger(program, split(program, CpKind::AllGather, 2), 0);
  CHECK(
      on(ledger, "cp") ==
      Collectives{
          {{Collective::AllGather, "cp", Phase::Forward}, entry(32, 32 * 384)},
          {{Collective::AllGather, "cp", Phase::DataGrad}, entry(32, 32 * 384)},
          {{Collective::ReduceScatter, "cp", Phase::DataGrad},
           entry(32, 32 * 768)}});
}

TEST_CASE("heads change for positions and back") {
  const Program program = smallLlama();
  const Ledger ledger =
      predictLedger(program, split(program, CpKind::AllToAll, 2), 0);
  // Queries and outputs 768 bytes, keys and values 384 each. What the backward
  // pass reads is saved as attention has it; the output projection's weight
  // gradient has the outputs by position again.
  CHECK(on(ledger, "cp") ==
        Collectives{
            {{Collective::AllToAll, "cp", Phase::Forward},
             entry(64, 16 * (768 + 384 + 384 + 768))},
            {{Collective::AllToAll, "cp", Phase::DataGrad},
             entry(64, 16 * (768 + 768 + 384 + 384))},
            {{Collective::AllToAll, "cp", Phase::WeightGrad},
             entry(16, 16 * 768)}});
}

TEST_CASE("parts do the work of the whole, whatever they exchange") {
  const Program program = smallLlama();
  const Ledger whole =
      predictLedger(program, split(program, CpKind::P2P, 1), 0);
  for (CpKind kind : cpKinds)
    for (int64_t cp : {2, 4})
      for (Recompute policy :
           {Recompute::None, Recompute::Selective, Recompute::Full}) {
        CAPTURE(name(kind), cp, name(policy));
        Plan alone = split(program, kind, 1), parts = split(program, kind, cp);
        alone.stages = parts.stages = evenStages(program, 1, policy);
        const Ledger one = predictLedger(program, alone, 0),
                     part = predictLedger(program, parts, 0);
        for (const auto &[phase, flops] : one.flops)
          CHECK(cp * part.flops.at(phase).count() == flops.count());
        // Nothing but alignment keeps saved bytes from dividing.
        CHECK(part.memory.saved.count() * cp <
              one.memory.saved.count() + cp * 4 * 20 * arenaAlignment);
        CHECK(part.memory.saved.count() * cp >= one.memory.saved.count());
        CHECK(part.memory.parameters == one.memory.parameters);
      }
  CHECK(whole.collectives.empty());
}

TEST_CASE("gradients are summed, and state is sharded, over data and parts") {
  const Program program = smallLlama();
  for (int zero : {0, 1, 2, 3})
    for (CpKind kind : cpKinds) {
      CAPTURE(zero, name(kind));
      const Ledger data =
          predictLedger(program, split(program, kind, 1, 4, 1, zero), 0);
      const Ledger both =
          predictLedger(program, split(program, kind, 2, 2, 1, zero), 0);
      CHECK(both.memory.optimizer == data.memory.optimizer);
      CHECK(both.memory.gradients == data.memory.gradients);
      CHECK(both.memory.parameters == data.memory.parameters);
      const LedgerKey key{zero == 0 ? Collective::AllReduce
                                    : Collective::ReduceScatter,
                          "dp", Phase::Reduce};
      LedgerKey joint = key;
      joint.axis = "dp+cp";
      CHECK(both.collectives.at(joint) == data.collectives.at(key));
    }
  // Copies of shards: over the parts alone.
  Plan copies = split(program, CpKind::P2P, 2, 2, 1, 1);
  copies.zeroRanks = 1;
  REQUIRE(checkPlan(program, copies).empty());
  const Ledger ledger = predictLedger(program, copies, 0);
  CHECK(ledger.collectives.count({Collective::ReduceScatter, "cp",
                                  Phase::Reduce}) == 1);
  CHECK(ledger.collectives.count(
            {Collective::AllReduce, "dp", Phase::Reduce}) == 1);
  CHECK(zeroDegree(copies) == 2);
}

TEST_CASE(
    "parts and sequence parallelism split the stream one inside the other") {
  const Program program = smallLlama();
  const Plan plan = split(program, CpKind::AllToAll, 2, 1, 2);
  CHECK(streamBytes(program, plan) == Bytes(16 / 4 * 24 * 4));
  const Ledger ledger = predictLedger(program, plan, 0);
  // Of each of 4 heads' halves: a tensor rank has 2, a part 1 of them.
  CHECK(ledger.collectives
            .at({Collective::AllToAll, "cp", Phase::Forward})
            .payload == Bytes(16 * (384 + 192 + 192 + 384)));
  CHECK(ledger.collectives.count(
            {Collective::AllGather, "tp", Phase::Forward}) == 1);
}

TEST_CASE("an even share of causal pairs, windowed or not") {
  CHECK(attentionPairs(16, 16, true, 0) == 136);
  CHECK(attentionPairs(4, 16, true, 0) == 34);
  CHECK(attentionPairs(4, 16, false, 0) == 64);
  CHECK(attentionPairs(16, 16, true, 5) == 15 + 11 * 5);
  CHECK(attentionPairs(4, 16, true, 5) == 17); // of 70, rounded down
}
