#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

// h 24, kv heads 4, group 2, d 3, f 40, v 1000, 4 layers:
//   layer: norms 2*24, q and o 2*24*24, k and v 2*24*12, mlp 3*24*40
constexpr int64_t layerParameters = 48 + 1152 + 576 + 2880;

TEST_CASE("parameters of a small llama, by hand") {
  Program program = smallLlama();
  CHECK(parameterCount(program) == 4 * layerParameters + 24 + 2 * 24000);
}

TEST_CASE("a tied embedding counts once") {
  Program program = smallLlama({.tied = true});
  CHECK(parameterCount(program) == 4 * layerParameters + 24 + 24000);
}

TEST_CASE("model flops per token, by hand, under each convention") {
  Program program = smallLlama();
  const double s = 16;
  // Gemms: 2 flops per weight that is multiplied, logits among them.
  const double gemms = 2.0 * (4 * (1152 + 576 + 2880) + 24000);
  // Attention per layer: 4 * heads * d * (s + 1) / 2 a token.
  const double causal = 4 * 4.0 * 8 * 3 * (s + 1) / 2;
  const double everyPair = 4 * 4.0 * 8 * 3 * s;
  CHECK(modelFlopsPerToken(program, FlopsConvention::CausalHalved) ==
        Approx(3 * (gemms + causal)));
  CHECK(modelFlopsPerToken(program, FlopsConvention::FullAttention) ==
        Approx(3 * (gemms + everyPair)));
  // Norm weights count among N, the lookup table does not.
  CHECK(modelFlopsPerToken(program, FlopsConvention::SixN) ==
        Approx(6.0 * (4 * layerParameters + 24 + 24000)));
}

TEST_CASE("a tied table counts in 6N for its use as the output matrix") {
  Program program = smallLlama({.tied = true});
  CHECK(modelFlopsPerToken(program, FlopsConvention::SixN) ==
        Approx(6.0 * (4 * layerParameters + 24 + 24000)));
}

TEST_CASE("kinds are told apart by the streams they take and give") {
  Program program = smallLlama();
  CHECK(kindIndex(program, "dense") == 1);
  CHECK(kindIndex(program, "moe") == -1);
  CHECK_FALSE(takesStream(program.kinds[0]));
  CHECK(givesStream(program.kinds[0]));
  CHECK(takesStream(program.kinds[1]));
  CHECK(givesStream(program.kinds[1]));
  CHECK(takesStream(program.kinds[2]));
  CHECK_FALSE(givesStream(program.kinds[2]));
  CHECK(program.kinds[0].variant(Recompute::Full).policy == Recompute::None);
}

// By hand, 8 queries: the first w see 1, 2, ..., w keys, each later one w.
TEST_CASE("windowed attention counts the pairs inside the window") {
  CHECK(attentionPairs(8, 8, true, 0) == 36);
  CHECK(attentionPairs(8, 8, true, 3) == 1 + 2 + 6 * 3);
  CHECK(attentionPairs(8, 8, true, 1) == 8);
  CHECK(attentionPairs(8, 8, true, 8) == 36);
  CHECK(attentionPairs(8, 8, true, 100) == 36);
  CHECK(attentionPairs(8, 8, false, 0) == 64);
  CHECK(attentionPairs(8, 8, false, 3) == 24);
  // Chunks of 3, 3 and 2, each a triangle (a square) of its own.
  CHECK(attentionPairs(8, 8, true, 0, 3) == 6 + 6 + 3);
  CHECK(attentionPairs(8, 8, false, 0, 3) == 9 + 9 + 4);
  CHECK(attentionPairs(8, 8, true, 0, 4) == 10 + 10);
  CHECK(attentionPairs(8, 8, true, 0, 8) == 36);
  CHECK(attentionPairs(8, 8, true, 0, 100) == 36);

  IterationSpace space;
  space.kernel = KernelClass::Attention;
  space.causal = true;
  space.window = 3;
  space.factors = {{'s', Role::Seq, FactorKind::Parallel, 8},
                   {'b', Role::Batch, FactorKind::Parallel, 2},
                   {'n', Role::Heads, FactorKind::Parallel, 3},
                   {'g', Role::Group, FactorKind::Parallel, 5},
                   {'d', Role::HeadDim, FactorKind::Full, 4},
                   {'t', Role::KvSeq, FactorKind::Full, 8}};
  CHECK(flopsOf(space) == Flops(4 * 2 * 3 * 5 * 4 * 21));
  space.kernel = KernelClass::AttentionGrad;
  CHECK(flopsOf(space) == Flops(10 * 2 * 3 * 5 * 4 * 21));
}
