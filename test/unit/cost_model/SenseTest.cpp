// What every machine and every plan must satisfy, whatever the constants.
#include "cost_model/estimate/Estimate.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"

#include <catch2/catch.hpp>

#include <random>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

Hardware cluster(const char *name, int64_t ranks) {
  Hardware shipped, hardware;
  Failure failure;
  REQUIRE(readHardware(shippedHardware(name), name, shipped, failure));
  REQUIRE(resized(shipped, ranks, hardware, failure));
  return hardware;
}
Profile habits(const char *name) {
  Profile profile;
  Failure failure;
  REQUIRE(readProfile(shippedProfile(name), name, profile, failure));
  return profile;
}

/// Sizes of a real layer, so that kernels are more than their launch.
Program model() {
  return smallLlama({.sequence = 2048,
                     .hidden = 4096,
                     .kvHeads = 8,
                     .group = 4,
                     .headDim = 128,
                     .ffn = 14336,
                     .vocab = 32000,
                     .layers = 16});
}

struct Case {
  const char *profile;
  Plan plan;
};
/// Plans on 64 ranks of every schedule, ZeRO stage and habit.
std::vector<Case> cases(const Program &program) {
  std::vector<Case> all;
  for (const char *profile : {"native", "megatron-core", "fsdp"})
    for (int64_t tp : {1, 8, 16})
      for (int zero : {0, 1, 3})
        for (ScheduleKind kind : scheduleKinds) {
          Plan plan = planFor(program, 4, 64 / 4 / tp, tp, tp > 1, zero, 1, 16);
          plan.schedule = kind;
          plan.chunks = chunksOf(kind).least;
          plan.stages =
              evenStages(program, stageCount(plan), Recompute::None);
          if (checkPlan(program, plan).empty())
            all.push_back({profile, plan});
        }
  return all;
}

double step(const Program &program, const Hardware &hardware,
            const Case &question) {
  return estimateTime(program, hardware, habits(question.profile),
                      question.plan)
      .stepTime.count();
}

} // namespace

TEST_CASE("more bandwidth is never slower") {
  const Program program = model();
  const Hardware base = cluster("dgx-h100", 64);
  const std::vector<Case> questions = cases(program);
  REQUIRE(questions.size() > 60);
  for (const Case &question : questions) {
    INFO(question.profile << " " << name(question.plan.schedule) << " tp "
                          << question.plan.tp << " zero "
                          << question.plan.zero);
    const double before = step(program, base, question);
    Hardware faster = base;
    faster.levels[1].bandwidth = BytesPerSecond(2e11);
    CHECK(step(program, faster, question) <= before * (1 + 1e-12));
    // Under ZeRO 3 a rank that waits for its gathers, and for tensor collectives
    // too, gains nothing from faster memory and has less to hide them behind: up
    // to 0.2 % are lost.
    faster = base;
    faster.device.memoryBandwidth = BytesPerSecond(8e12);
    CHECK(step(program, faster, question) <=
          before * (question.plan.zero == 3 ? 1.002 : 1 + 1e-12));
    // With tensor parallelism faster products have less to hide collectives
    // behind, and a schedule that is made for B and W of equal length may lose.
    if (question.plan.tp == 1) {
      faster = base;
      for (FlopsPerSecond &peak : faster.device.peak)
        peak = FlopsPerSecond(2 * peak.count());
      CHECK(step(program, faster, question) <= before * (1 + 1e-12));
    }
    Hardware slower = base;
    slower.levels[1].oversubscription = 4;
    CHECK(step(program, slower, question) >= before * (1 - 1e-12));
  }
}

TEST_CASE("more bytes are never faster") {
  const Hardware hardware = cluster("dgx-h100", 64);
  for (Collective collective :
       {Collective::AllReduce, Collective::AllGather,
        Collective::ReduceScatter, Collective::AllToAll})
    for (int64_t ranks : {2, 8, 64})
      for (int64_t stride : {1, 8}) {
        if (ranks * stride > 64)
          continue;
        double last = 0;
        for (int64_t bytes = 1024; bytes <= int64_t(1) << 32; bytes *= 4) {
          const double time =
              collectiveTime(hardware, collective, Bytes(bytes),
                             placeGroup(ranks, stride, 8))
                  .count();
          INFO(name(collective) << " of " << bytes << " B over " << ranks);
          CHECK(time >= last * 0.98); // NCCL changes its algorithm by tables
          last = time;
        }
      }
}

TEST_CASE("a slow rank slows the step, by its share at most") {
  const Program program = model();
  Hardware hardware = cluster("dgx-h100", 64);
  for (const Case &question : cases(program)) {
    INFO(question.profile << " " << name(question.plan.schedule) << " tp "
                          << question.plan.tp);
    hardware.slowRanks.clear();
    const double before = step(program, hardware, question);
    hardware.slowRanks = {{17, 0.9}};
    const double after = step(program, hardware, question);
    // Longer compute of a stage that had time to spare hides more of its
    // gradient reduction: a few parts in ten thousand.
    CHECK(after >= before * (1 - 1e-3));
    CHECK(after <= before / 0.9 * (1 + 1e-12));
  }
}

TEST_CASE("one rank has no communication") {
  const Program program = model();
  const Plan plan = planFor(program, 1, 1, 1, false, 0, 1, 4);
  const Estimate estimate = estimateTime(
      program, cluster("dgx-h100", 1), habits("native"), plan);
  for (const Term &term : estimate.terms)
    if (term.name.find("communication") != std::string::npos ||
        term.name == "pp_bubble" || term.name == "parameter_gather" ||
        term.name == "synchronization" || term.name == "stragglers")
      CHECK(term.time == Seconds(0));
}

TEST_CASE("an infinite network leaves compute and NCCL's own latencies") {
  const Program program = model();
  Hardware hardware = cluster("dgx-h100", 64);
  const Plan plan = planFor(program, 1, 64, 1, false, 0, 1, 4);
  const auto of = [&](const char *wanted) {
    double sum = 0;
    for (const Term &term :
         estimateTime(program, hardware, habits("native"), plan).terms)
      if (term.name == wanted)
        sum += term.time.count();
    return sum;
  };
  const double before = of("dp_communication");
  const double compute = of("compute_forward");
  hardware.fabric.channelBandwidth = BytesPerSecond(1e18);
  hardware.fabric.nvlsIntra = hardware.fabric.nvlsInter = BytesPerSecond(1e18);
  for (Level &level : hardware.levels) {
    level.bandwidth = BytesPerSecond(1e18);
    level.latency = Seconds(0);
  }
  hardware.fabric.rampBytes = 0;
  CHECK(of("dp_communication") < 0.25 * before);
  CHECK(of("compute_forward") == compute);
}

TEST_CASE("tensor parallelism across nodes is slower than inside") {
  const Program program = model();
  Hardware inside = cluster("dgx-h100", 16);
  const Plan plan = planFor(program, 1, 2, 8, true, 0, 1, 4);
  Hardware across = inside;
  across.levels.front().size = 4; // the same ranks on twice as many nodes
  across.nodes = 4;
  across.levels[1].nics = 4;
  const auto exposed = [&](const Hardware &hardware) {
    for (const Term &term :
         estimateTime(program, hardware, habits("native"), plan).terms)
      if (term.name == "tp_communication")
        return term.time.count();
    return 0.0;
  };
  CHECK(exposed(across) > 1.2 * exposed(inside));
}
