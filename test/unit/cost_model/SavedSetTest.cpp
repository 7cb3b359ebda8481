#include "cost_model/program/SavedSet.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// x -> a ("norm") -> b (no label) -> c, d ("core_attention") -> e ("out").
struct Chain {
  FunctionBuilder f{{{'s', 2}, {'h', 3}}};
  ValueId x = f.argument(ArgKind::StreamIn, 0, "sh");
  ValueId a = one("norm", x), b = one("", a);
  std::vector<ValueId> core =
      f.op("two", Segment::Attention, "sh,sh->sh,sh", {a, b},
           {.label = "core_attention"});
  ValueId e = one("out", core[0]);

  ValueId one(const std::string &label, ValueId operand) {
    return f.op("map", Segment::Stream, "sh->sh", {operand},
                {.label = label})[0];
  }
};

} // namespace

TEST_CASE("policy none saves needed values of labelled ops only") {
  Chain c;
  SavedSet set = savedSet(c.f.function, {c.x, c.core[1], c.a, c.a},
                          Recompute::None);
  CHECK(set.saved == std::vector<ValueId>{c.a, c.core[1]});
  CHECK(set.recomputed.empty());
}

TEST_CASE("an unlabelled value is recomputed from what is saved") {
  Chain c;
  SavedSet set = savedSet(c.f.function, {c.b}, Recompute::None);
  CHECK(set.saved == std::vector<ValueId>{c.a});
  CHECK(set.recomputed == std::vector<int>{1});
}

TEST_CASE("policy selective redoes the attention core alone") {
  Chain c;
  SavedSet set = savedSet(c.f.function, {c.core[0], c.e}, Recompute::Selective);
  CHECK(set.saved == std::vector<ValueId>{c.a, c.e});
  CHECK(set.recomputed == std::vector<int>{1, 2});
}

TEST_CASE("policy full saves nothing and redoes only what is needed") {
  Chain c;
  SavedSet set = savedSet(c.f.function, {c.core[1]}, Recompute::Full);
  CHECK(set.saved.empty());
  CHECK(set.recomputed == std::vector<int>{0, 1, 2}); // not "out"
  CHECK(savedSet(c.f.function, {c.x}, Recompute::Full).recomputed.empty());
}

TEST_CASE("variants of a transformer layer save what the policies say") {
  Program program = smallLlama();
  auto saved = [&](Recompute policy) {
    int count = 0;
    for (const Result &result :
         program.kinds[1].variant(policy).forward.results)
      count += result.kind == ResultKind::Saved;
    return count;
  };
  // attn_norm (2), q_rope, k_rope, v, core (2), x2, mlp_norm (2), gate, up,
  // act: 13 values; selective drops the core's 2.
  CHECK(saved(Recompute::None) == 13);
  CHECK(saved(Recompute::Selective) == 11);
  CHECK(saved(Recompute::Full) == 0);
}
