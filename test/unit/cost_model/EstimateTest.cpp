#include "cost_model/estimate/Estimate.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/search/Candidate.h"
#include "SmallPrograms.h"
#include "Shipped.h"

#include <catch2/catch.hpp>


using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Hardware clusterOf(std::string_view name, int64_t ranks) {
  Hardware hardware, sized;
  Failure failure;
  REQUIRE(readHardware(shippedHardware(name), name, hardware, failure));
  REQUIRE(resized(hardware, ranks, sized, failure));
  return sized;
}
/// Big enough for arithmetic to matter.
Program llama(int64_t layers = 8) {
  return smallLlama({.sequence = 2048,
                     .hidden = 2048,
                     .kvHeads = 8,
                     .group = 2,
                     .headDim = 128,
                     .ffn = 5632,
                     .vocab = 32000,
                     .layers = layers});
}
double term(const Estimate &estimate, std::string_view name) {
  for (const Term &entry : estimate.terms)
    if (entry.name == name)
      return entry.time.count();
  FAIL("no term " << name);
  return 0;
}

} // namespace

TEST_CASE("terms sum to the step time") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-h100", 16);
  for (const std::string &name : shippedProfileNames()) {
    const Profile profile = profileOf(name);
    for (bool sp : {false, true}) {
      const Plan plan = planFor(program, 2, 2, 4, sp, 1, 1, 8, Recompute::Full);
      const Estimate result = estimate(program, hardware, profile, plan);
      double sum = 0;
      for (const Term &entry : result.terms) {
        CHECK(entry.time.count() >= 0);
        sum += entry.time.count();
      }
      CHECK(result.stepTime.count() == Approx(sum));
      CHECK(result.modelFlopsUtilization > 0);
      CHECK(result.modelFlopsUtilization < 1);
      REQUIRE(result.stages.size() == 2);
    }
  }
}

TEST_CASE("one rank communicates nothing") {
  const Program program = llama();
  const Estimate result =
      estimate(program, clusterOf("dgx-h100", 1), profileOf("native"),
               planFor(program, 1, 1, 1));
  for (const char *name : {"tp_communication", "pp_communication", "pp_bubble",
                           "dp_communication", "embedding_communication",
                           "parameter_gather", "synchronization", "recompute"})
    CHECK(term(result, name) == 0);
  CHECK(term(result, "compute_forward") > 0);
  CHECK(term(result, "optimizer") > 0);
}

TEST_CASE("recomputation costs time and saves memory") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-h100", 8);
  const Profile profile = profileOf("megatron-core");
  const auto with = [&](Recompute policy) {
    return estimate(program, hardware, profile,
                    planFor(program, 1, 1, 8, true, 0, 1, 8, policy));
  };
  const Estimate none = with(Recompute::None),
                 selective = with(Recompute::Selective),
                 full = with(Recompute::Full);
  CHECK(term(none, "recompute") == 0);
  CHECK(term(selective, "recompute") > 0);
  CHECK(term(full, "recompute") > term(selective, "recompute"));
  CHECK(none.stepTime < selective.stepTime);
  CHECK(selective.stepTime < full.stepTime);
  CHECK(full.stages[0].total() < none.stages[0].total());
}

TEST_CASE("backward costs about twice forward") {
  const Program program = llama();
  const Estimate result =
      estimate(program, clusterOf("dgx-a100", 1), profileOf("megatron-core"),
               planFor(program, 1, 1, 1, false, 0, 4, 1));
  CHECK(term(result, "compute_backward") ==
        Approx(2 * term(result, "compute_forward")).epsilon(0.15));
}

TEST_CASE("the slowest of n devices sets the pace") {
  // Expected largest of 8 standard normals: 1.4236 (tables of order
  // statistics), of 1024: 3.24.
  const Program program = llama();
  for (const auto &[ranks, largest] :
       {std::pair<int64_t, double>{8, 1.4236}, {1024, 3.24}}) {
    Hardware hardware = clusterOf("dgx-a100", ranks);
    const Estimate result =
        estimate(program, hardware, profileOf("megatron-core"),
                 planFor(program, 1, ranks, 1, false, 0, 1, ranks));
    CHECK(term(result, "stragglers") ==
          Approx(hardware.device.speedDeviation * largest *
                 (term(result, "compute_forward") +
                  term(result, "compute_backward")))
              .epsilon(0.02));
  }
}

TEST_CASE("small layers wait for the host") {
  // However much faster the device, a layer takes as long as it is issued.
  const Program program = llama();
  Hardware hardware = clusterOf("dgx-a100", 8);
  const Plan plan = planFor(program, 1, 1, 8, true, 0, 1, 4);
  const Profile eager = profileOf("megatron-2022");
  Profile graphs = eager;
  graphs.launch = Seconds(0);
  const Estimate slow = estimate(program, hardware, eager, plan);
  CHECK(term(slow, "host") > 0);
  CHECK(term(estimate(program, hardware, graphs, plan), "host") == 0);
  for (FlopsPerSecond &peak : hardware.device.peak)
    peak = FlopsPerSecond(peak.count() * 100);
  const Estimate faster = estimate(program, hardware, eager, plan);
  CHECK(term(faster, "compute_forward") < term(slow, "compute_forward"));
  CHECK(term(faster, "host") > term(slow, "host"));
  const auto layers = [](const Estimate &result) {
    return term(result, "compute_forward") + term(result, "compute_backward") +
           term(result, "tp_communication") + term(result, "host");
  };
  CHECK(layers(faster) == Approx(layers(slow)).epsilon(0.1));
}

TEST_CASE("overlap hides, but never makes slower") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-h100", 16);
  const Plan plan = planFor(program, 1, 2, 8, true, 1, 1, 8);
  const Estimate on =
      estimate(program, hardware, profileOf("megatron-core"), plan);
  const Estimate off =
      estimate(program, hardware, profileOf("megatron-core-no-overlap"), plan);
  CHECK(term(on, "tp_communication") < term(off, "tp_communication"));
  CHECK(term(on, "dp_communication") <= term(off, "dp_communication"));
  CHECK(on.stepTime < off.stepTime);
}

TEST_CASE("exposed time is between what sticks out and all of it") {
  const Hardware hardware = clusterOf("dgx-a100", 8);
  CHECK(exposedTime(hardware, Seconds(2), Seconds(0)).count() == Approx(2));
  // 24 channels on 108 units displace 24 / 108 of the compute they run beside.
  CHECK(exposedTime(hardware, Seconds(2), Seconds(1)).count() ==
        Approx(1 + 24.0 / 108));
  CHECK(exposedTime(hardware, Seconds(2), Seconds(9)).count() ==
        Approx(2 * 24.0 / 108));
}

TEST_CASE("full recomputation may stop before the product that ends a layer") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-a100", 8);
  const Profile early = profileOf("fsdp");
  REQUIRE_FALSE(early.recomputeWholeLayer);
  Profile whole = early;
  whole.recomputeWholeLayer = true;
  const Plan plan =
      planFor(program, 1, 8, 1, false, 3, 1, 8, Recompute::Full);
  const Estimate stops = estimate(program, hardware, early, plan),
                 all = estimate(program, hardware, whole, plan);
  CHECK(term(stops, "compute_forward") == term(all, "compute_forward"));
  // The last product is 5,632 of 23,040 columns of 2,048: 24 % of the products.
  const double spared = term(all, "recompute") - term(stops, "recompute");
  CHECK(spared > 0.15 * term(all, "recompute"));
  CHECK(spared < 0.30 * term(all, "recompute"));
}

TEST_CASE("Megatron gathers what shares key/value heads, by hand") {
  // 16 query heads and 2 key/value heads on 4 ranks, 2,048 tokens in 16 bits.
  const Program program = smallLlama({.sequence = 2048,
                                      .hidden = 2048,
                                      .kvHeads = 2,
                                      .group = 8,
                                      .headDim = 128,
                                      .ffn = 5632,
                                      .layers = 8});
  const Bytes heads(2048 * (16 + 2 * 2) * 128 * 2);
  const Hardware hardware = clusterOf("dgx-h100", 4);
  const Placement node = placeGroup(4, 1, 8);
  const Seconds gather = collectiveTime(hardware, Collective::AllGather,
                                        Bytes(heads.count() / 4), node),
                scatter = collectiveTime(hardware, Collective::ReduceScatter,
                                         heads, node);
  Profile megatron = profileOf("megatron-core-no-overlap");
  megatron.graphs = GraphCapture::Whole; // no host
  Profile other = megatron;
  REQUIRE(megatron.framework == Framework::MegatronCore);
  other.framework = Framework::Native;
  const auto added = [&](int64_t tp, Recompute policy) {
    const Plan plan = planFor(program, 1, 1, tp, true, 0, 1, 3, policy);
    double more = 0;
    for (const char *name : {"tp_communication", "recompute"})
      more += term(estimate(program, hardware, megatron, plan), name) -
              term(estimate(program, hardware, other, plan), name);
    return more / (8 * 3);
  };
  CHECK(added(4, Recompute::None) == Approx((gather + scatter).count()));
  // The core of attention is behind the gather, all of the layer is not.
  CHECK(added(4, Recompute::Selective) == Approx((gather + scatter).count()));
  CHECK(added(4, Recompute::Full) == Approx((2 * gather + scatter).count()));
  CHECK(added(2, Recompute::None) == 0); // a head each
}

TEST_CASE("exchanges beside another microbatch, by hand") {
  const Hardware hardware = clusterOf("dgx-a100", 8);
  const auto shown = [&](int64_t microbatches, int64_t stages) {
    StageWork own;
    own.layers.forward = Seconds(4);
    own.layers.dataGrad = Seconds(5);
    own.layers.weightGrad = Seconds(1);
    own.layers.forwardExchange = Seconds(3);
    own.layers.backwardExchange = Seconds(9);
    exchangeBesideOther(own, hardware, microbatches, stages);
    return std::pair(own.layers.forwardExchange.count(),
                     own.layers.backwardExchange.count());
  };
  // 3 s hide behind 6 of the other's backward, 4 of 9 behind its forward; what
  // hides takes 24 of 108 units. One of 8 microbatches has no other beside it.
  const double taken = 24.0 / 108;
  CHECK(shown(8, 1).first == Approx(3.0 / 8 + 7.0 / 8 * (3 * taken)));
  CHECK(shown(8, 1).second == Approx(9.0 / 8 + 7.0 / 8 * (5 + 4 * taken)));
  CHECK(shown(1, 1) == std::pair(3.0, 9.0)); // nothing beside it
  CHECK(shown(2, 4) == std::pair(3.0, 9.0)); // nor while a pipeline fills
}

TEST_CASE("activations on the host, by hand") {
  const Program program = llama();
  const Hardware real = clusterOf("dgx-h100", 16);
  const Profile profile = profileOf("megatron-core");
  for (int64_t pp : {1, 2}) {
    const Plan device = planFor(program, pp, 4 / pp, 4, true, 1, 2, 64);
    Plan host = device;
    host.offloadActivations = true;
    const auto savedOf = [&](const Plan &plan, const Hardware &hardware,
                             size_t stage) {
      return static_cast<double>(estimate(program, hardware, profile, plan)
                                     .stages[stage]
                                     .memory.saved.count());
    };
    const std::vector<double> saved = savedByChunks(program, real, profile, host);
    REQUIRE(saved.size() == static_cast<size_t>(pp));
    for (size_t stage = 0; stage < saved.size(); ++stage) {
      // 1F1B holds pp - stage microbatches; two of its layers' stay.
      const double inFlight = static_cast<double>(pp) - static_cast<double>(stage);
      const double stays = 2 * static_cast<double>(pp) / 8;
      CHECK(savedOf(device, real, stage) - savedOf(host, real, stage) ==
            Approx(saved[stage] * (inFlight - stays)).epsilon(1e-6));
    }
    // Copies take the link's time, forward and backward, unless compute hides it.
    Hardware other = real;
    other.host.link = BytesPerSecond(1e6);
    CHECK(term(estimate(program, other, profile, host), "offload") ==
          Approx(2 * static_cast<double>(host.microbatches()) * saved[0] /
                 (1e6 * kHostLinkFraction))
              .epsilon(0.01));
    other.host.link = BytesPerSecond(1e15);
    CHECK(estimate(program, other, profile, host).stepTime ==
          estimate(program, other, profile, device).stepTime);
    // A host without room: all stays.
    other.host.capacity = Bytes(0);
    CHECK(savedOf(host, other, 0) == savedOf(device, other, 0));
  }
}

TEST_CASE("memory is the arena and what the framework adds") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-h100", 16);
  const Plan plan = planFor(program, 2, 2, 4, true, 1, 1, 8);
  const Estimate native =
      estimate(program, hardware, profileOf("native"), plan);
  const std::vector<MemoryParts> parts = memoryOfStages(program, plan);
  for (size_t stage = 0; stage < 2; ++stage) {
    CHECK(native.stages[stage].memory == parts[stage]);
    CHECK(native.stages[stage].framework == Bytes(1536 << 20));
  }
  CHECK(native.fits);
  // A device that its fullest rank would fill to the last byte is too small.
  Hardware filled = hardware;
  filled.device.usable =
      std::max(native.stages[0].total(), native.stages[1].total());
  CHECK_FALSE(estimate(program, filled, profileOf("native"), plan).fits);
  filled.device.usable += Bytes(1);
  CHECK(estimate(program, filled, profileOf("native"), plan).fits);
  // Unfused attention saves scores.
  Profile unfused = profileOf("megatron-2022");
  CHECK(estimate(program, hardware, unfused, plan).stages[0].framework >
        Bytes(1024 << 20));
}

TEST_CASE("terms say what the timeline says") {
  const Program program = llama(16);
  const Hardware hardware = clusterOf("dgx-h100", 64);
  struct {
    ScheduleKind kind;
    int64_t chunks;
  } schedules[] = {{ScheduleKind::OneFOneB, 1},
                   {ScheduleKind::Interleaved, 2},
                   {ScheduleKind::Interleaved, 4},
                   {ScheduleKind::ZbV, 2},
                   {ScheduleKind::DualPipeV, 2}};
  for (const std::string &name : shippedProfileNames()) {
    const Profile profile = profileOf(name);
    for (const auto &[kind, chunks] : schedules)
      for (int zero = 0; zero <= 3; ++zero)
        for (bool offload : {false, true}) {
          Plan plan = planFor(program, 4, 16, 1, false, zero, 1, 8);
          plan.schedule = kind;
          plan.chunks = chunks;
          plan.offloadActivations = offload;
          plan.stages = evenStages(program, 4 * chunks, Recompute::None);
          Breakdown breakdown;
          const Estimate estimate = estimateTime(program, hardware, profile,
                                                 plan, nullptr, &breakdown);
          const StageBreakdown &stage = breakdown.stages[breakdown.last];
          double sum = 0;
          for (const char *part :
               {"compute_forward", "compute_backward", "recompute",
                "tp_communication", "cp_communication", "ep_communication",
                "host", "offload", "dp_communication", "pp_communication",
                "pp_bubble"})
            sum += term(estimate, part);
          CAPTURE(name, static_cast<int>(kind), chunks, zero, offload);
          CHECK(sum ==
                Approx((stage.line.end + stage.exposedReduce).count()));
        }
  }
}

TEST_CASE("a cache changes nothing but the speed") {
  const Program program = llama();
  const Hardware hardware = clusterOf("dgx-h100", 16);
  const Profile profile = profileOf("megatron-core");
  EstimateCache cache;
  for (int64_t tp : {1, 2, 4, 8})
    for (bool sp : {false, true})
      for (int zero : {0, 1}) {
        const Plan plan = planFor(program, 2, 8 / tp, tp, sp && tp > 1, zero, 1,
                                  4, Recompute::Selective);
        const Seconds cold =
            estimateTime(program, hardware, profile, plan).stepTime;
        for (int repeat = 0; repeat < 2; ++repeat)
          CHECK(
              estimateTime(program, hardware, profile, plan, &cache).stepTime ==
              cold);
      }
}

TEST_CASE("interleaving shrinks the bubble") {
  const Program program = llama(16);
  const Hardware hardware = clusterOf("dgx-a100", 32);
  const Profile profile = profileOf("megatron-2022");
  Plan plan = planFor(program, 4, 1, 8, true, 0, 1, 8);
  const Estimate plain = estimate(program, hardware, profile, plan);
  plan.schedule = ScheduleKind::Interleaved;
  plan.chunks = 4;
  plan.stages = evenStages(program, 16, Recompute::None);
  const Estimate interleaved = estimate(program, hardware, profile, plan);
  CHECK(term(interleaved, "pp_bubble") < term(plain, "pp_bubble"));
  CHECK(term(interleaved, "pp_communication") >
        term(plain, "pp_communication"));
  CHECK(interleaved.stages[0].memory.saved > plain.stages[0].memory.saved);
}
