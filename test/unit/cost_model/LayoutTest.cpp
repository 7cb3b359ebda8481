#include "cost_model/partition/StateLayout.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

#include <numeric>
#include <random>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

bool overlap(const Interval &a, const Interval &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Most bytes alive at once: no packing can be smaller.
int64_t liveBytes(const std::vector<Interval> &intervals) {
  int64_t most = 0;
  for (const Interval &at : intervals) { // peaks begin where something begins
    int64_t alive = 0;
    for (const Interval &other : intervals)
      if (other.first <= at.first && at.first <= other.last)
        alive += roundUp(other.bytes, arenaAlignment);
    most = std::max(most, alive);
  }
  return most;
}

void checkPacking(const std::vector<Interval> &intervals,
                  const std::vector<int64_t> &offsets, int64_t total) {
  REQUIRE(offsets.size() == intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    CHECK(offsets[i] % arenaAlignment == 0);
    CHECK(offsets[i] + intervals[i].bytes <= total);
    for (size_t j = 0; j < i; ++j)
      if (overlap(intervals[i], intervals[j]) && intervals[i].bytes > 0 &&
          intervals[j].bytes > 0)
        CHECK((offsets[i] + intervals[i].bytes <= offsets[j] ||
               offsets[j] + intervals[j].bytes <= offsets[i]));
  }
  CHECK(total >= liveBytes(intervals));
}

Plan f32(Plan plan) {
  plan.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
  return plan;
}

} // namespace

TEST_CASE("packing of nothing and of one") {
  std::vector<int64_t> offsets;
  CHECK(pack({}, offsets) == 0);
  CHECK(pack({{0, 3, 1}}, offsets) == 256);
  CHECK(pack({{0, 3, 0}}, offsets) == 0);
}

TEST_CASE("packing shares memory in time and picks the smallest gap") {
  std::vector<int64_t> offsets;
  // Two that never meet share.
  CHECK(pack({{0, 1, 1000}, {2, 3, 900}}, offsets) == 1024);
  CHECK(offsets == std::vector<int64_t>{0, 0});
  // 1024 | 768 | 512 stacked by size at times 0..1; then at time 1 the one of
  // 512 B that follows the 768 one (alive at 0 only) takes its place.
  CHECK(pack({{0, 9, 1024}, {0, 0, 768}, {0, 9, 512}, {1, 9, 512}}, offsets) ==
        1024 + 768 + 512);
  CHECK(offsets[3] == 1024);
}

TEST_CASE("random packings overlap nowhere and stay near the lower bound") {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Interval> intervals;
    int count = 1 + static_cast<int>(random() % 24);
    for (int i = 0; i < count; ++i) {
      int first = static_cast<int>(random() % 30);
      intervals.push_back({first, first + static_cast<int>(random() % 10),
                           static_cast<int64_t>(random() % 5000)});
    }
    std::vector<int64_t> offsets, again;
    int64_t total = pack(intervals, offsets);
    checkPacking(intervals, offsets, total);
    CHECK(total <= 2 * liveBytes(intervals));
    CHECK(pack(intervals, again) == total);
    CHECK(again == offsets);
  }
}

TEST_CASE("small packings against every order of placing") {
  // First fit over every permutation finds the optimum of these sizes; best fit
  // by size may be worse, but never below it and seldom above.
  std::mt19937 random(5);
  int optimal = 0;
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Interval> intervals;
    for (int i = 0; i < 5; ++i) {
      int first = static_cast<int>(random() % 6);
      intervals.push_back({first, first + static_cast<int>(random() % 4),
                           256 * static_cast<int64_t>(1 + random() % 6)});
    }
    std::vector<size_t> order{0, 1, 2, 3, 4};
    int64_t best = INT64_MAX;
    do {
      std::vector<int64_t> offset(5, 0);
      int64_t total = 0;
      for (size_t k = 0; k < 5; ++k) {
        const Interval &mine = intervals[order[k]];
        int64_t at = 0;
        for (bool moved = true; moved;) {
          moved = false;
          for (size_t l = 0; l < k; ++l) {
            const Interval &other = intervals[order[l]];
            int64_t from = offset[order[l]];
            if (overlap(mine, other) && at < from + other.bytes &&
                from < at + mine.bytes) {
              at = from + other.bytes;
              moved = true;
            }
          }
        }
        offset[order[k]] = at;
        total = std::max(total, at + mine.bytes);
      }
      best = std::min(best, total);
    } while (std::next_permutation(order.begin(), order.end()));
    std::vector<int64_t> offsets;
    int64_t total = pack(intervals, offsets);
    checkPacking(intervals, offsets, total);
    CHECK(total >= best);
    optimal += total == best;
  }
  CHECK(optimal >= 50);
}

TEST_CASE("buckets by extra axes and decay, padded to shards * 128") {
  Program program = smallLlama();
  const Kind &dense = program.kinds[1];
  // tp 4: q and o 24*24/4 = 144 each, k and v 72 each, mlp 3 * 24*10 = 720.
  Plan plan = planFor(program, 1, 2, 4, false, 1);
  ParameterBlock block = parameterBlock(plan, dense);
  REQUIRE(block.buckets.size() == 2);
  CHECK(block.buckets[0].decay);
  CHECK(block.buckets[0].parameters == std::vector<int>{1, 2, 3, 4, 6, 7, 8});
  CHECK(block.buckets[0].offsets ==
        std::vector<int64_t>{0, 144, 216, 288, 432, 672, 912});
  CHECK(block.buckets[0].elements == 1280); // 1152 up to 2 * 128
  CHECK_FALSE(block.buckets[1].decay);
  CHECK(block.buckets[1].parameters == std::vector<int>{0, 5});
  CHECK(block.buckets[1].elements == 256);
  CHECK(block.buckets[1].offset == 1280);
  CHECK(block.elements == 1536);
  CHECK(block.buckets[1].extraReduceAxes.empty());

  // Without ZeRO the unit is 128: 1152 = 9 * 128 as it is.
  plan.zero = 0;
  block = parameterBlock(plan, dense);
  CHECK(block.buckets[0].elements == 1152);
  CHECK(block.buckets[1].elements == 128);

  // Under sp the norms see part of the tokens: all-reduced over tp first.
  plan.sp = true;
  block = parameterBlock(plan, dense);
  REQUIRE(block.buckets.size() == 2);
  CHECK(block.buckets[1].extraReduceAxes == Axes{2});
  CHECK(block.buckets[1].parameters == std::vector<int>{0, 5});
}

TEST_CASE("a tied embedding is a block of its own on its owners") {
  Program program = smallLlama({.tied = true});
  Plan plan = planFor(program, 3, 1, 2);
  CHECK(sharedParameters(program).size() == 1);
  CHECK(ownerStages(program, plan, "model.embed_tokens.weight") ==
        std::vector<int64_t>{0, 2});
  ParameterBlock block = sharedBlock(plan, program, 0);
  REQUIRE(block.buckets.size() == 1);
  CHECK(block.elements == 1024 / 2 * 24); // 1000 padded to 4 * 256
  CHECK(sharedBlock(plan, program, 1).buckets.empty());
  CHECK(sharedBlock(plan, program, 2).elements == block.elements);
  CHECK(parameterBlock(plan, program.kinds[0]).buckets.empty());
  // On one stage it is one tensor.
  plan = planFor(program, 1, 1, 2);
  CHECK(sharedBlock(plan, program, 0).elements == block.elements);
}

TEST_CASE("staging of collectives") {
  CHECK(stagingBytes(Collective::AllReduce, 10, 4, 3) == Bytes(16));
  CHECK(stagingBytes(Collective::ReduceScatter, 12, 8, 4) == Bytes(24));
  CHECK(stagingBytes(Collective::AllGather, 12, 8, 4) == Bytes(0));
  CHECK(stagingBytes(Collective::Send, 12, 8, 2) == Bytes(0));
}

TEST_CASE("temporaries of two gemms, by hand") {
  Program program = twoGemms();
  Plan plan = f32(planFor(program, 1, 1, 2));
  const Kind &kind = program.kinds[0];
  PlannedVariant planned;
  std::string why;
  REQUIRE(planVariant(plan, kind, kind.variants[0], planned, why));
  Temporaries t = temporariesOf(plan, kind.variants[0], planned);
  // Forward: y1 is saved; y is made where it leaves, and all-reduced there.
  CHECK(t.forward.empty());
  // Backward: dy1 [6, 1, 8] is kept; dx leaves. Events: dy1 0, dx 1,
  // all-reduce 2, dw1 3, dw2 4. dy1 is read last by dw1.
  REQUIRE(t.backward.size() == 1);
  CHECK(t.backward[0].interval.first == 0);
  CHECK(t.backward[0].interval.last == 3);
  CHECK(t.backward[0].interval.bytes == 6 * 8 * 4);
  CHECK(workspaceBytes(t) == Bytes(256));

  // Under sp the partial stays in the workspace and its scattered part leaves.
  plan.sp = true;
  REQUIRE(planVariant(plan, kind, kind.variants[0], planned, why));
  t = temporariesOf(plan, kind.variants[0], planned);
  // x gathered 0, y1 1, y 2, reduce-scatter 3.
  REQUIRE(t.forward.size() == 2);
  CHECK(t.forward[0].version == 1); // gathered x
  CHECK(t.forward[0].interval.first == 0);
  CHECK(t.forward[0].interval.last == 1);
  CHECK(t.forward[0].interval.bytes == 6 * 8 * 4);
  CHECK(t.forward[1].interval.first == 2);
  CHECK(t.forward[1].interval.last == 3);
}

TEST_CASE("the workspace holds every temporary that is alive") {
  Program program = smallLlama();
  for (bool sp : {false, true})
    for (const KindVariant &variant : program.kinds[1].variants) {
      Plan plan = planFor(program, 1, 2, 4, sp, 1, 2);
      PlannedVariant planned;
      std::string why;
      REQUIRE(planVariant(plan, program.kinds[1], variant, planned, why));
      Temporaries t = temporariesOf(plan, variant, planned);
      int64_t largest = 0;
      for (const auto *list : {&t.forward, &t.backward}) {
        std::vector<Interval> intervals;
        for (const Temporary &temporary : *list) {
          CHECK(temporary.interval.first <= temporary.interval.last);
          CHECK(temporary.interval.first >= 0);
          intervals.push_back(temporary.interval);
        }
        std::vector<int64_t> offsets;
        int64_t total = pack(intervals, offsets);
        checkPacking(intervals, offsets, total);
        largest = std::max(largest, total);
      }
      CHECK(workspaceBytes(t) == Bytes(largest));
    }
}

TEST_CASE("saved bytes of a transformer layer, by hand") {
  Program program = smallLlama();
  const Kind &dense = program.kinds[1];
  // f32, s 16, micro batch 2, tp 4: 32 tokens.
  Plan plan = f32(planFor(program, 1, 2, 4, false, 0, 2));
  auto saved = [&](Recompute policy) {
    PlannedVariant planned;
    std::string why;
    REQUIRE(planVariant(plan, dense, dense.variant(policy), planned, why));
    return savedBytesPerLayer(plan, dense, dense.variant(policy), planned)
        .count();
  };
  const int64_t stream = 32 * 24 * 4, stat = 256; // 32 * 4 = 128 B, aligned
  CHECK(saved(Recompute::Full) == stream);
  // attn_norm, x2, mlp_norm outputs are streams; two row statistics; q and
  // core output 32*2*3 each, k and v 32*3 each; lse 32*2; gate, up, act 32*10.
  const int64_t q = 32 * 2 * 3 * 4, k = roundUp(32 * 3 * 4, 256),
                lse = 32 * 2 * 4, ffn = 32 * 10 * 4;
  CHECK(saved(Recompute::None) ==
        stream + 3 * stream + 2 * stat + 2 * q + 2 * k + lse + 3 * ffn);
  CHECK(saved(Recompute::Selective) ==
        saved(Recompute::None) - q - lse);
  // sp shards the streams and the statistics, too.
  plan.sp = true;
  CHECK(saved(Recompute::None) == stream + 2 * 256 + 2 * q + 2 * k + lse +
                                      3 * ffn);
}

TEST_CASE("memory of a rank, by hand") {
  Program program = twoGemms();
  program.stack = {{0, 4}};
  program.layers = 4;
  Plan plan = f32(planFor(program, 2, 2, 2, false, 1, 1, 3));
  MemoryParts memory = memoryOf(program, plan, 0);
  // A layer: two weights of 16*8/2 = 64: 128 up to 2 * 128; two layers.
  CHECK(memory.parameters == Bytes(2 * 256 * 4));
  CHECK(memory.gradients == Bytes(2 * 256 * 4));
  CHECK(memory.optimizer == Bytes(3 * 2 * 128 * 4));
  // Two slots of two layers: stream 6*8*4 = 192 and y1 6*8*4 = 192, aligned.
  CHECK(memory.saved == Bytes(2 * 2 * (256 + 256)));
  CHECK(memory.p2p == Bytes(2 * 256)); // first stage: out, gradient in
  // Staging: stream of 48 elements over 2: 96 B; bucket of 256 over 2: 512 B.
  CHECK(memory.comm == Bytes(512));
  CHECK(memory.workspace == Bytes(256 + 2 * 256));
  CHECK(memory.total() ==
        Bytes(2048 + 2048 + 3072 + 2048 + 512 + 512 + 768));

  memory = memoryOf(program, plan, 1);
  CHECK(memory.saved == Bytes(2 * (256 + 256)));
  CHECK(memory.p2p == Bytes(256)); // last stage: gradient out
  CHECK(memoryOfStages(program, plan)[1] == memory);

  // One rank needs neither borders nor staging.
  plan = f32(planFor(program, 1, 1, 1));
  memory = memoryOf(program, plan, 0);
  CHECK(memory.p2p == Bytes(0));
  CHECK(memory.comm == Bytes(0));
}

TEST_CASE("chunks whose slots are of one size share them") {
  Program program = twoGemms();
  const auto memory = [&](const std::vector<int64_t> &layers, int64_t stage) {
    program.layers = std::accumulate(layers.begin(), layers.end(), int64_t(0));
    program.stack = {{0, program.layers}};
    Plan plan = f32(planFor(program, 2, 1, 1, false, 0, 1, 4));
    plan.schedule = ScheduleKind::Interleaved;
    plan.chunks = 2;
    plan.stages.clear();
    for (int64_t count : layers)
      plan.stages.push_back(
          {{{program.kinds[0].name, count, Recompute::None}}});
    return memoryOf(program, plan, stage);
  };
  const int64_t layer = memory({1, 1, 1, 1}, 0).saved.count() / 5;
  CHECK(layer > 0);
  // The first stage goes forward twice through both chunks, and is then up to
  // two microbatches ahead in the first: 4 and 2 at most, 5 together.
  CHECK(memory({2, 1, 2, 1}, 0).saved == Bytes(5 * 2 * layer));
  CHECK(memory({2, 1, 1, 1}, 0).saved == Bytes((4 * 2 + 2) * layer));
  CHECK(memory({1, 1, 2, 1}, 0).saved == Bytes((4 + 2 * 2) * layer));
  // The last goes back at once through its second chunk: 3 and 1, 3 together.
  CHECK(memory({1, 2, 1, 2}, 1).saved == Bytes(3 * 2 * layer));
  CHECK(memory({1, 2, 1, 1}, 1).saved == Bytes((3 * 2 + 1) * layer));
}

TEST_CASE("ZeRO 1 divides the optimizer state by the data ranks") {
  Program program = smallLlama({.hidden = 1024});
  for (int64_t dp : {2, 4, 8}) {
    Bytes whole =
        memoryOf(program, planFor(program, 1, dp, 1, false, 0), 0).optimizer;
    Bytes sharded =
        memoryOf(program, planFor(program, 1, dp, 1, false, 1), 0).optimizer;
    CHECK(sharded.count() >= whole.count() / dp);
    CHECK(static_cast<double>(sharded.count()) <
          1.05 * static_cast<double>(whole.count()) / static_cast<double>(dp));
  }
}

TEST_CASE("what ranks hold of tensors fills the buckets") {
  const Program program = smallLlama({.tied = true});
  for (int64_t tp : {1, 2, 4})
    for (int zero : {0, 1, 3}) {
      const Plan plan = planFor(program, 2, 2, tp, tp > 1, zero);
      for (const KindLayout &kind : stateLayout(program, plan))
        for (const TensorLayout &tensor : kind.tensors) {
          int64_t elements = 1;
          for (const CutDim &dim : tensor.dims)
            elements *= dim.cut.size / dim.cut.ranks;
          CHECK(tensor.offset + elements <= tensor.bucket.size);
          CHECK(tensor.bucket.ranks == (zero > 0 ? 2 : 1));
          CHECK(tensor.bucket.axis == (zero > 0 ? "dp" : ""));
          CHECK(tensor.flat == (zero == 3));
          for (const TensorLayout &other : kind.tensors)
            if (other.bucket == tensor.bucket && other.offset > tensor.offset)
              CHECK(tensor.offset + elements <= other.offset);
        }
    }
}

TEST_CASE("layers are counted over the chunks of a rank") {
  const Program program = smallLlama({.layers = 8});
  Plan plan = planFor(program, 2, 1, 1);
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 2;
  plan.stages = evenStages(program, 4, Recompute::None);
  const std::vector<KindLayout> kinds = stateLayout(program, plan);
  REQUIRE(kinds.size() == 3);
  using Layers = std::vector<std::vector<int64_t>>;
  CHECK(kinds[0].layersOfStages == Layers{{0}, {}});
  CHECK(kinds[1].layersOfStages == Layers{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(kinds[2].layersOfStages == Layers{{}, {0}});
}
