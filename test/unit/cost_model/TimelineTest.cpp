#include "cost_model/Timeline.h"

#include <catch2/catch.hpp>

#include <random>

using namespace shardwright::cost;

namespace {

PipelineTimes even(int64_t stages, int64_t chunks, double forward,
                   double backward, double transfer = 0) {
  PipelineTimes times;
  times.stages = stages;
  times.chunks = chunks;
  times.times.assign(
      static_cast<size_t>(stages * chunks),
      {Seconds(forward), Seconds(backward / 2), Seconds(backward / 2)});
  times.sendForward = times.sendBackward = Seconds(transfer);
  return times;
}

} // namespace

TEST_CASE("1F1B of even stages has the bubble of its warm-up") {
  // (M + pp - 1) (F + B): Narayanan et al., SC'21, section 2.2.
  for (int64_t stages : {1, 2, 4, 7})
    for (int64_t microbatches : {1, 3, 8, 40}) {
      const Timeline timeline = runPipeline(
          ScheduleKind::OneFOneB, microbatches, even(stages, 1, 1, 2));
      CHECK(timeline.makespan().count() ==
            Approx(3.0 * static_cast<double>(microbatches + stages - 1)));
      for (const StageTimeline &stage : timeline.stages) {
        CHECK(stage.busy.count() ==
              Approx(3.0 * static_cast<double>(microbatches)));
        CHECK((stage.busy + stage.transfer + stage.idle).count() ==
              Approx(stage.end.count()));
      }
    }
}

TEST_CASE("GPipe of even stages takes as long as 1F1B") {
  CHECK(runPipeline(ScheduleKind::GPipe, 8, even(4, 1, 1, 2))
            .makespan()
            .count() == Approx(33));
}

TEST_CASE("interleaving divides the bubble by the chunks") {
  // M (F + B) + (pp - 1) (F + B) / chunks, with F and B of a whole stage.
  for (int64_t chunks : {2, 3})
    for (int64_t stages : {2, 4, 8}) {
      const double forward = 1.0 / static_cast<double>(chunks);
      const Timeline timeline =
          runPipeline(ScheduleKind::OneFOneB, 4 * stages,
                      even(stages, chunks, forward, 2 * forward));
      CHECK(timeline.makespan().count() ==
            Approx(3.0 * (4.0 * static_cast<double>(stages) +
                          static_cast<double>(stages - 1) /
                              static_cast<double>(chunks))));
    }
}

TEST_CASE("interleaving sends more, and more often") {
  const auto moved = [](int64_t chunks) {
    const double part = 1.0 / static_cast<double>(chunks);
    return runPipeline(ScheduleKind::OneFOneB, 16,
                       even(4, chunks, part, 2 * part, 0.01))
        .stages[1]
        .transfer.count();
  };
  CHECK(moved(2) > moved(1) * 0.99);
  CHECK(moved(4) == Approx(2 * moved(2)));
}

TEST_CASE("transfers that overlap cost less, but not nothing") {
  PipelineTimes times = even(4, 1, 1, 2, 0.25);
  const Seconds held =
      runPipeline(ScheduleKind::OneFOneB, 16, times).makespan();
  times.overlapTransfers = true;
  const Seconds beside =
      runPipeline(ScheduleKind::OneFOneB, 16, times).makespan();
  const Seconds none =
      runPipeline(ScheduleKind::OneFOneB, 16, even(4, 1, 1, 2)).makespan();
  CHECK(beside < held);
  CHECK(beside > none);
}

TEST_CASE("an extrapolated run equals the complete one") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.2, 2);
  for (int round = 0; round < 200; ++round) {
    const int64_t stages = 2 + static_cast<int64_t>(random() % 6);
    const int64_t microbatches = 1 + static_cast<int64_t>(random() % 120);
    PipelineTimes times = even(stages, 1, 1, 2, 0.1 * time(random));
    times.overlapTransfers = random() % 2 == 0;
    if (round % 3 != 0) // even stages repeat at once, uneven ones later
      for (StageTimes &stage : times.times)
        stage = {Seconds(time(random)), Seconds(time(random)),
                 Seconds(time(random))};
    const Timeline quick =
        runPipeline(ScheduleKind::OneFOneB, microbatches, times);
    const Timeline full = runSchedule(
        makeSchedule(ScheduleKind::OneFOneB, stages, microbatches), times);
    for (int64_t stage = 0; stage < stages; ++stage) {
      INFO("round " << round << " stage " << stage << " of " << stages << ", "
                    << microbatches << " microbatches");
      const StageTimeline &a = quick.stages[static_cast<size_t>(stage)];
      const StageTimeline &b = full.stages[static_cast<size_t>(stage)];
      REQUIRE(a.end.count() == Approx(b.end.count()).epsilon(1e-9));
      REQUIRE(a.busy.count() == Approx(b.busy.count()).epsilon(1e-9));
      REQUIRE(a.transfer.count() ==
              Approx(b.transfer.count()).epsilon(1e-9).margin(1e-9));
      REQUIRE(a.idle.count() ==
              Approx(b.idle.count()).epsilon(1e-9).margin(1e-9));
    }
  }
}

TEST_CASE("a slower stage never makes a pipeline faster") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> time(0.2, 2);
  for (int round = 0; round < 50; ++round) {
    PipelineTimes times = even(4, 1, 1, 2, 0.1);
    for (StageTimes &stage : times.times)
      stage.forward = Seconds(time(random));
    const Seconds before =
        runPipeline(ScheduleKind::OneFOneB, 12, times).makespan();
    times.times[random() % 4].backwardData += Seconds(0.1);
    CHECK(runPipeline(ScheduleKind::OneFOneB, 12, times).makespan() >= before);
  }
}
