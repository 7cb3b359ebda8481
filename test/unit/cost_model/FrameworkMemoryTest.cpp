#include "cost_model/estimate/Estimate.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/partition/LayerTable.h"
#include "cost_model/partition/Layout.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Hardware clusterOf(int64_t ranks) {
  Hardware hardware, sized;
  Failure failure;
  REQUIRE(readHardware(shippedHardware("dgx-h100"), "dgx-h100", hardware,
                       failure));
  REQUIRE(resized(hardware, ranks, sized, failure));
  return sized;
}
Program llama() {
  return smallLlama({.sequence = 512,
                     .hidden = 1024,
                     .kvHeads = 8,
                     .group = 1,
                     .headDim = 128,
                     .ffn = 2816,
                     .vocab = 32000,
                     .layers = 6});
}
StageEstimate first(const Program &program, const Profile &profile,
                    const Plan &plan) {
  return estimateMemory(program, clusterOf(plan.ranks()), profile, plan)[0];
}

} // namespace

TEST_CASE(
    "selective recomputation of frameworks keeps the output of attention") {
  const Program program = llama();
  Profile profile = profileOf("megatron-core");
  const Plan plan = planFor(program, 1, 2, 2, true, 1, 1, 4,
                            Recompute::Selective);
  const Bytes kept = first(program, profile, plan).memory.saved;
  profile.selectiveKeepsOutput = false;
  const Bytes redone = first(program, profile, plan).memory.saved;
  // 6 layers of 512 tokens, 8 heads of 128 over 2 ranks, 2 bytes.
  CHECK((kept - redone).count() == 6 * 512 * 8 * 128 / 2 * 2);
}

TEST_CASE("under ZeRO 3 of FSDP parameters are their own masters") {
  const Program program = llama();
  Profile profile = profileOf("fsdp");
  REQUIRE(profile.masterIsParameter);
  const Plan plan = planFor(program, 1, 4, 1, false, 3, 1, 4);
  const StageEstimate own = first(program, profile, plan);
  CHECK(own.memory.parameters.count() == 0);
  profile.masterIsParameter = false;
  const StageEstimate apart = first(program, profile, plan);
  CHECK(apart.memory.parameters.count() * 12 ==
        apart.memory.optimizer.count() * 2);
  Plan whole = plan;
  whole.zero = 1;
  profile.masterIsParameter = true;
  CHECK(first(program, profile, whole).memory.parameters.count() > 0);
}

TEST_CASE("data-parallel buckets and updates cost bytes per parameter") {
  const Program program = llama();
  Profile profile = profileOf("nanotron");
  profile.allocatorSlack = 0;
  profile.gradientCopyBytes = 0;
  const Plan plan = planFor(program, 1, 2, 1, false, 1, 1, 4);
  const StageEstimate with = first(program, profile, plan);
  profile.bucketBytesPerParameter = 0;
  const StageEstimate without = first(program, profile, plan);
  CHECK((with.framework - without.framework).count() ==
        with.memory.gradients.count() / 4 * 2);
  // The state of this rank's half takes 12 bytes, and the update 3 more.
  profile.updateBytesPerParameter = 3;
  CHECK((first(program, profile, plan).framework - without.framework).count() ==
        without.memory.optimizer.count() / 12 * 3);
}

TEST_CASE("gradients in 16 bits grow while activations shrink") {
  const Program program = llama();
  Profile profile = profileOf("nanotron");
  profile.allocatorSlack = profile.gradientCopyBytes = 0;
  const Plan plan = planFor(program, 1, 2, 1, false, 1, 1, 4);
  const StageEstimate plain = first(program, profile, plan);
  profile.gradientCopyBytes = 100;
  const StageEstimate copies = first(program, profile, plan);
  const int64_t elements = plain.memory.gradients.count() / 4;
  CHECK((copies.framework - plain.framework).count() ==
        100 * elements - plain.memory.saved.count());
}

TEST_CASE("products in 8 bits keep their inputs in 8 bits") {
  const Program program = llama();
  Profile profile = profileOf("megatron-core");
  Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 4);
  const Bytes wide = first(program, profile, plan).memory.saved;
  plan.dtypes.products = Narrow::Fp8;
  const Bytes narrow = first(program, profile, plan).memory.saved;
  CHECK(narrow < wide);
  // Norm outputs and the activation are read by products alone; the output of
  // attention by its gradient too: 1024 + 1024 + 2816 - 1024 elements a token,
  // a byte less each.
  CHECK((wide - narrow).count() == 6 * 512 * (1024 + 2816));
}

TEST_CASE("modules that run again are not saved") {
  const Program program = llama();
  Profile profile = profileOf("megatron-core");
  const Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 4);
  const Hardware hardware = clusterOf(1);
  const Estimate plain = estimate(program, hardware, profile, plan);
  profile.redoneLabels = {"mlp_n*"};
  CHECK(profile.redoes("mlp_norm"));
  CHECK_FALSE(profile.redoes("attn_norm"));
  const Estimate again = estimate(program, hardware, profile, plan);
  CHECK(again.stages[0].memory.saved < plain.stages[0].memory.saved);
  CHECK(again.stepTime > plain.stepTime);
}

TEST_CASE("inputs that are gathered and kept outweigh gathering them again") {
  const Program program = llama();
  Profile profile = profileOf("megatron-core");
  const Plan plan = planFor(program, 1, 1, 4, true, 0, 1, 4);
  const Bytes again = first(program, profile, plan).memory.saved;
  profile.keepsGatheredInputs = true;
  // Behind either norm of 6 layers the other 3 ranks' parts of 512 x 1024.
  CHECK((first(program, profile, plan).memory.saved - again).count() ==
        6 * 2 * 3 * (512 / 4) * 1024 * 2);
}

TEST_CASE("chunks of two sizes: blocks are given back, slots lie apart") {
  // Interleaved on two ranks, eight microbatches; the first rank runs one layer
  // and then two. It warms up with 4 forwards, so that 5 are in flight.
  Program program = llama();
  Plan plan = planFor(program, 2, 1, 1, false, 0, 1, 8);
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 2;
  plan.stages = evenStages(program, 4, Recompute::None);
  int64_t layers[] = {1, 1, 2, 2};
  for (size_t stage = 0; stage < 4; ++stage)
    for (StageRun &run : plan.stages[stage].runs)
      if (isLayer(program.kinds[static_cast<size_t>(
              kindIndex(program, run.kind))]))
        run.count = layers[stage];
  REQUIRE(checkPlan(program, plan, ModelCheck::NameOnly).empty());
  const LayerTable table(program, plan);
  const ScheduleFacts facts = scheduleFacts(plan);
  Bytes layer(0);
  forEachRun(plan, 0, [&](const StageRun &run, int64_t chunk) {
    if (chunk == 1)
      layer = table.of(run).memory.saved;
  });
  int64_t atOnce = 0, ofFirst = 0, ofSecond = 0; // layers
  for (const InFlight &moment : facts.inFlight[0]) {
    atOnce = std::max(atOnce, moment.saved[0] + 2 * moment.saved[1]);
    ofFirst = std::max(ofFirst, moment.saved[0]);
    ofSecond = std::max(ofSecond, moment.saved[1]);
  }
  const auto saved = [&](SavedIn where) {
    return memoryOf(program, plan, table, 0, &facts, where).saved;
  };
  CHECK(saved(SavedIn::Blocks) == atOnce * layer);
  CHECK(saved(SavedIn::Slots) == (ofFirst + 2 * ofSecond) * layer);
  CHECK(saved(SavedIn::Blocks) < saved(SavedIn::Slots));
  CHECK(first(program, profileOf("megatron-core"), plan).memory.saved ==
        saved(SavedIn::Blocks));
}

TEST_CASE("reserved memory is allocated memory and fragments") {
  const Program program = llama();
  const StageEstimate stage = first(program, profileOf("megatron-core"),
                                    planFor(program, 1, 2, 2, true, 1, 1, 4));
  CHECK(stage.allocated() < stage.reserved());
  CHECK(stage.reserved() < stage.total());
  CHECK(stage.reserved() - stage.allocated() == stage.fragments);
}

TEST_CASE("the last reduction of sharded gradients is counted once") {
  const Program program = llama();
  const Hardware hardware = clusterOf(8);
  Profile profile = profileOf("fsdp");
  const Plan plan = planFor(program, 1, 8, 1, false, 2, 1, 8);
  const StageClock clock(hardware, profile, plan);
  StageWork work;
  work.reduce = Seconds(6);
  work.largestReduce = Seconds(2);
  work.reduceShards = Seconds(0.5);
  // Nothing to hide behind: all six show with the backward pass already.
  CHECK(clock.shardedBackward(work).count() == Approx(6));
  CHECK(clock.exposedReduce(work).count() == Approx(0.5));
  // All hide but the last layer's.
  work.layers.dataGrad = Seconds(1000);
  const double shown = clock.shardedBackward(work).count();
  CHECK(shown < 2);
  CHECK(clock.exposedReduce(work).count() == Approx(0.5 + 2 - shown));
}

TEST_CASE("a head that goes over parts of a sequence holds logits of one") {
  const Program program = llama();
  Profile profile = profileOf("fsdp");
  profile.allocatorSlack = profile.gradientCopyBytes = 0;
  const Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 4);
  const StageEstimate whole = first(program, profile, plan);
  profile.lossParts = 4;
  const StageEstimate inParts = first(program, profile, plan);
  const int64_t logits = 512 * 32000, output = 512 * 1024 * 2;
  // Copies in f32 and exponentials, of which three quarters are left out.
  CHECK((whole.framework - inParts.framework).count() == 6 * logits * 3 / 4);
  // Saved are 16-bit logits, and the output of the norm with its statistics and
  // those of the loss, 4 bytes a token each.
  const int64_t saved = (whole.memory.saved - inParts.memory.saved).count();
  CHECK(saved >= 2 * logits + output);
  CHECK(saved <= 2 * logits + output + 4 * 4 * 512);
  // Those of a part are temporaries now, beside their gradient.
  CHECK(inParts.memory.workspace < whole.memory.workspace);
  CHECK(inParts.memory.workspace.count() >= 4 * logits / 4);
}

TEST_CASE("logits that are made again cost what is published") {
  // 32,768 tokens of 2,560, 128,256 words, on H100 (marin-community/marin issue
  // 6596): loss and gradients in one pass, and in tiles with logits made again.
  const double onePass = 100.10;
  const std::map<int64_t, double> tiles = {
      {16384, 122.90}, {8192, 123.56}, {2048, 135.08}};
  const Program program = smallLlama({.sequence = 32768,
                                      .hidden = 2560,
                                      .kvHeads = 20,
                                      .group = 1,
                                      .headDim = 128,
                                      .ffn = 6912,
                                      .vocab = 128256,
                                      .layers = 1});
  const Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 1);
  const Kind &head = program.kinds.back();
  const auto milliseconds = [&](int64_t parts) {
    Profile profile = profileOf("native");
    profile.lossParts = parts;
    const LayerProfile layer =
        profileLayer(plan, head, head.variants.front(), clusterOf(1), profile);
    return 1e3 * (layer.forward + layer.dataGrad + layer.weightGrad).count();
  };
  const double own = milliseconds(1);
  CHECK(own == Approx(onePass).epsilon(0.15));
  double last = own;
  for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile) {
    const double time = milliseconds(32768 / tile->first);
    CHECK(time > last); // smaller tiles take longer
    CHECK(time / own == Approx(tile->second / onePass).epsilon(0.12));
    last = time;
  }
}
