#include "cost_model/partition/Layout.h"
#include "cost_model/partition/Ledger.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

#include <sstream>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Plan f32(Plan plan) {
  plan.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
  return plan;
}

LedgerEntry entry(int64_t calls, int64_t payload) {
  return {calls, Bytes(payload)};
}
using Collectives = std::map<LedgerKey, LedgerEntry>;

constexpr Collective AR = Collective::AllReduce, AG = Collective::AllGather,
                     RS = Collective::ReduceScatter, SEND = Collective::Send,
                     RECV = Collective::Recv;
constexpr Phase FWD = Phase::Forward, DGRAD = Phase::DataGrad,
                WGRAD = Phase::WeightGrad, REDUCE = Phase::Reduce,
                UPDATE = Phase::Update;

/// Flops of a whole step summed over all ranks of the job.
double jobFlops(const Program &program, const Plan &plan) {
  double total = 0;
  for (const Ledger &ledger : predictLedgers(program, plan))
    for (const auto &[phase, flops] : ledger.flops)
      total += static_cast<double>(flops.count()) * plan.dp * plan.tp;
  return total;
}

} // namespace

TEST_CASE("one rank: no collective, flops by hand") {
  Program program = twoGemms();
  Ledger ledger = predictLedger(program, f32(planFor(program, 1, 1, 1)), 0);
  CHECK(ledger.collectives.empty());
  // Two gemms of 2*6*8*16, four microbatches; backward twice.
  const Flops gemms(2 * 2 * 6 * 8 * 16 * 4);
  CHECK(ledger.flops == std::map<Phase, Flops>{
                            {FWD, gemms}, {DGRAD, gemms}, {WGRAD, gemms}});
}

TEST_CASE("tp 2: the collectives of two gemms, by hand") {
  Program program = twoGemms();
  program.stack = {{0, 3}};
  program.layers = 3;
  Plan plan = f32(planFor(program, 1, 1, 2, false, 0, 1, 5));
  Ledger ledger = predictLedger(program, plan, 0);
  // [6, 1, 8] f32 = 192 B, 3 layers * 5 microbatches.
  CHECK(ledger.collectives ==
        Collectives{{{AR, "tp", FWD}, entry(15, 15 * 192)},
                    {{AR, "tp", DGRAD}, entry(15, 15 * 192)},
                    {{AR, "world", UPDATE}, entry(1, 16)}});
  CHECK(ledger.flops.at(FWD) == Flops(15 * 2 * 6 * 8 * 16));
}

TEST_CASE("tp 2 with sp: gathers and scatters, by hand") {
  Program program = twoGemms();
  Plan plan = f32(planFor(program, 1, 1, 2, true, 0, 1, 5));
  Ledger ledger = predictLedger(program, plan, 0);
  // A gather takes the half [3, 1, 8] = 96 B, a scatter the whole 192 B. The
  // weight gradients gather x (for dw1) and dy (for dw2) again.
  CHECK(ledger.collectives ==
        Collectives{{{AG, "tp", FWD}, entry(5, 5 * 96)},
                    {{RS, "tp", FWD}, entry(5, 5 * 192)},
                    {{AG, "tp", DGRAD}, entry(5, 5 * 96)},
                    {{RS, "tp", DGRAD}, entry(5, 5 * 192)},
                    {{AG, "tp", WGRAD}, entry(10, 10 * 96)},
                    {{AR, "world", UPDATE}, entry(1, 16)}});
}

TEST_CASE("pp and dp, with and without ZeRO, by hand") {
  Program program = twoGemms();
  program.stack = {{0, 4}};
  program.layers = 4;
  Plan plan = f32(planFor(program, 2, 2, 1, false, 0, 3, 5));
  // Stream of 3 sequences: 6*3*8*4 = 576 B. Bucket: 256 elements, two layers.
  Ledger ledger = predictLedger(program, plan, 0);
  CHECK(ledger.collectives ==
        Collectives{{{AR, "dp", REDUCE}, entry(2, 2 * 1024)},
                    {{AR, "world", UPDATE}, entry(1, 16)},
                    {{SEND, "pp", FWD}, entry(5, 5 * 576)},
                    {{RECV, "pp", DGRAD}, entry(5, 5 * 576)}});
  plan.zero = 1;
  ledger = predictLedger(program, plan, 1);
  CHECK(ledger.collectives ==
        Collectives{{{RS, "dp", REDUCE}, entry(2, 2 * 1024)},
                    {{AG, "dp", UPDATE}, entry(2, 2 * 512)},
                    {{AR, "world", UPDATE}, entry(1, 16)},
                    {{RECV, "pp", FWD}, entry(5, 5 * 576)},
                    {{SEND, "pp", DGRAD}, entry(5, 5 * 576)}});
}

TEST_CASE("a small llama on tp 4 with sp: all stages of the reduction") {
  Program program = smallLlama();
  Plan plan = f32(planFor(program, 1, 2, 4, true, 1));
  Ledger ledger = predictLedger(program, plan, 0);
  auto at = [&](Collective collective, const char *axis, Phase phase) {
    auto it = ledger.collectives.find({collective, axis, phase});
    return it == ledger.collectives.end() ? LedgerEntry{} : it->second;
  };
  // Norm buckets, 48 or 24 elements up to 256: 4 layers and the head.
  CHECK(at(AR, "tp", REDUCE) == entry(5, 5 * 1024));
  // Every bucket: embed 1, layers 2 each, head 2. Table 1024/4*24 = 6144.
  CHECK(at(RS, "dp", REDUCE) ==
        entry(11, 4 * (6144 + 4 * (1280 + 256) + 256 + 6144)));
  CHECK(at(AG, "dp", UPDATE) ==
        entry(11, 4 * (6144 + 4 * (1280 + 256) + 256 + 6144) / 2));
  // Forward: per layer 2 gathers, head 1; 4 microbatches. Local stream
  // [4, 1, 24] f32 = 384 B.
  CHECK(at(AG, "tp", FWD) == entry(4 * 9, 4 * 9 * 384));
  CHECK(at(RS, "tp", FWD) == entry(4 * 9, 4 * 9 * 1536));
  CHECK(at(AR, "tp", FWD) == entry(4 * 3, 4 * 3 * 16 * 4)); // cross entropy
  // Per layer the two norm outputs, embed its gradient, head its norm output.
  CHECK(at(AG, "tp", WGRAD) == entry(4 * 10, 4 * 10 * 384));
}

TEST_CASE("a tied embedding is summed between the stages that own it") {
  Program program = smallLlama({.tied = true});
  Plan plan = f32(planFor(program, 2, 1, 1));
  Ledger ledger = predictLedger(program, plan, 0);
  CHECK(ledger.collectives.at({AR, "pp", REDUCE}) ==
        entry(1, 1024 * 24 * 4));
  CHECK(predictLedger(program, plan, 1).collectives.at({AR, "pp", REDUCE}) ==
        entry(1, 1024 * 24 * 4));
  plan = f32(planFor(program, 3, 1, 1));
  CHECK(predictLedger(program, plan, 1).collectives.count(
            {AR, "pp", REDUCE}) == 0);
  plan = f32(planFor(program, 1, 1, 1));
  CHECK(predictLedger(program, plan, 0).collectives.empty());
}

TEST_CASE("no plan changes the flops of the job, but for padding") {
  Program program = smallLlama({.vocab = 1024}); // no padding up to tp 8
  const double sequences = 16;
  const double expected = jobFlops(program, planFor(program, 1, 1, 1, false, 0,
                                                    1, 16)) /
                          sequences;
  // 3 * forward counts attention backward as 8 a pair; the kernel recomputes
  // the scores and does 10.
  const double pairs = 4.0 * 4 * 2 * 3 * (16 * 17 / 2);
  CHECK(expected == Approx(modelFlopsPerToken(program,
                                              FlopsConvention::CausalHalved) *
                               16 +
                           2 * pairs));
  for (int64_t pp : {1, 2, 4})
    for (int64_t dp : {1, 2})
      for (int64_t tp : {1, 2, 4})
        for (bool sp : {false, true})
          for (int64_t microBatch : {1, 2}) {
            Plan plan = planFor(program, pp, dp, tp, sp && tp > 1, 1,
                                microBatch, 4);
            CHECK(jobFlops(program, plan) ==
                  Approx(expected * plan.globalBatch));
          }
}

TEST_CASE("recomputation adds flops to the data gradient only") {
  Program program = smallLlama();
  auto flops = [&](Recompute policy) {
    return predictLedger(
               program, planFor(program, 1, 1, 2, false, 0, 1, 4, policy), 0)
        .flops;
  };
  auto none = flops(Recompute::None), selective = flops(Recompute::Selective),
       full = flops(Recompute::Full);
  CHECK(none.at(FWD) == full.at(FWD));
  CHECK(none.at(WGRAD) == full.at(WGRAD));
  // 4 layers * 4 microbatches; core attention of 2 kv heads on a rank.
  const int64_t core = 4 * 2 * 2 * 3 * (16 * 17 / 2);
  CHECK(selective.at(DGRAD).count() - none.at(DGRAD).count() == 16 * core);
  // Full: everything but the last product of the layer.
  const int64_t gemms = 2 * 16 * (288 + 288 + 288 + 2 * 480);
  CHECK(full.at(DGRAD).count() - none.at(DGRAD).count() ==
        16 * (core + gemms));
}

TEST_CASE("sp moves the same wire bytes as tp alone") {
  // A ring all-reduce of n bytes moves 2 n (r-1)/r, a scatter and a gather of
  // the same value n (r-1)/r each: forward wire bytes are equal.
  Program program = smallLlama({.vocab = 1024});
  auto wire = [&](bool sp) {
    Plan plan = planFor(program, 1, 1, 4, sp);
    double bytes = 0;
    for (const auto &[key, e] :
         layerFacts(plan, program.kinds[1], program.kinds[1].variants[0])
             .collectives) {
      if (key.phase != FWD)
        continue;
      double payload = static_cast<double>(e.payload.count());
      bytes += key.collective == AR   ? payload * 2 * 3 / 4
               : key.collective == RS ? payload * 3 / 4
                                      : payload * 3;
    }
    return bytes;
  };
  CHECK(wire(true) == Approx(wire(false)));
}

TEST_CASE("text of a ledger is sorted and complete") {
  Program program = twoGemms();
  std::string lines =
      text(predictLedger(program, f32(planFor(program, 1, 1, 2)), 0));
  CHECK(lines ==
        "collective all_reduce tp forward calls 4 payload_bytes 768\n"
        "collective all_reduce tp data_grad calls 4 payload_bytes 768\n"
        "collective all_reduce world update calls 1 payload_bytes 16\n"
        "flops forward 6144\nflops data_grad 6144\nflops weight_grad 6144\n"
        "memory comm 256\nmemory gradients 512\nmemory optimizer 1536\n"
        "memory p2p 0\nmemory parameters 512\nmemory saved 512\n"
        "memory workspace 768\n");
}
