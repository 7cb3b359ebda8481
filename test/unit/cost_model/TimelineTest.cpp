#include "cost_model/schedule/Timeline.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
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
      {Seconds(forward), Seconds(backward / 2), Seconds(backward / 2),
       Seconds(0)});
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

TEST_CASE("groups of microbatches leave the bubble of interleaving as it is") {
  // With transfers a larger group waits less: between two turns of a rank lie
  // the microbatches of the group that are more than pp.
  for (int64_t group : {4, 5, 10}) {
    PipelineTimes times = even(4, 2, 0.5, 1);
    times.group = group;
    CHECK(runPipeline(ScheduleKind::Interleaved, 20, times).makespan().count() ==
          Approx(20 * 3 + 3 * 3 / 2.0));
    times = even(4, 2, 0.5, 1, 0.05);
    times.overlapTransfers = true;
    const auto span = [&](int64_t size) {
      times.group = size;
      return runPipeline(ScheduleKind::Interleaved, 20, times).makespan();
    };
    CHECK(span(group) <= span(0));
    if (group > 4)
      CHECK(span(group) < span(0));
  }
  PipelineTimes times = even(6, 2, 0.5, 1);
  times.group = 9;
  CHECK(runPipeline(ScheduleKind::Interleaved, 9, times).makespan().count() ==
        Approx(9 * 3 + 5 * 3 / 2.0));
}

TEST_CASE("interleaving divides the bubble by the chunks") {
  // M (F + B) + (pp - 1) (F + B) / chunks, with F and B of a whole stage.
  for (int64_t chunks : {2, 3})
    for (int64_t stages : {2, 4, 8}) {
      const double forward = 1.0 / static_cast<double>(chunks);
      const Timeline timeline =
          runPipeline(ScheduleKind::Interleaved, 4 * stages,
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
    return runPipeline(chunks > 1 ? ScheduleKind::Interleaved
                                  : ScheduleKind::OneFOneB,
                       16, even(4, chunks, part, 2 * part, 0.01))
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

namespace {

Seconds makespan(ScheduleKind kind, int64_t stages, int64_t microbatches,
                 double f, double b, double w, double hidden = 0) {
  PipelineTimes times;
  times.stages = stages;
  times.chunks = chunksOf(kind).least;
  times.times.assign(static_cast<size_t>(times.stages * times.chunks),
                     {Seconds(f), Seconds(b), Seconds(w), Seconds(hidden)});
  return runPipeline(kind, microbatches, times).makespan();
}

} // namespace

TEST_CASE("zero-bubble schedules have the bubbles that were published") {
  // Per rank, B and W being the two parts of a backward: ZB-H1 (p - 1)(F + B - W)
  // and ZB-2p (p - 1)(F + B - 2 W), arXiv 2401.10241, table 1. The makespan of
  // ZB-2p has (p - 1) F more, as each rank starts F after the one before it and
  // ends as much later. Wants W <= B <= F + W, as the paper does.
  for (int64_t p : {2, 4, 8})
    for (auto [f, b, w] : {std::array{1.0, 1.0, 1.0}, {1.0, 1.2, 0.7},
                           {2.0, 2.5, 2.0}, {1.0, 0.9, 0.5}}) {
      INFO(p << " stages, " << f << " " << b << " " << w);
      const double m = static_cast<double>(5 * p), q = static_cast<double>(p);
      const double busy = m * (f + b + w);
      CHECK(makespan(ScheduleKind::OneFOneB, p, 5 * p, f, b, w).count() ==
            Approx(busy + (q - 1) * (f + b + w)));
      CHECK(makespan(ScheduleKind::ZbH1, p, 5 * p, f, b, w).count() ==
            Approx(busy + (q - 1) * (f + b - w)));
      PipelineTimes times;
      times.stages = p;
      times.times.assign(static_cast<size_t>(p),
                         {Seconds(f), Seconds(b), Seconds(w), Seconds(0)});
      CHECK(runPipeline(ScheduleKind::Zb2p, 5 * p, times)
                .stages[0]
                .idle.count() ==
            Approx((q - 1) * std::max(0.0, f + b - 2 * w)).margin(1e-9));
    }
}

TEST_CASE("two chunks in a V leave no bubble but the start") {
  // arXiv 2405.15362: with F = B = W a rank of ZB-V never waits once it began.
  for (int64_t p : {2, 4, 8}) {
    PipelineTimes times;
    times.stages = p;
    times.chunks = 2;
    times.times.assign(static_cast<size_t>(2 * p),
                       {Seconds(1), Seconds(1), Seconds(1), Seconds(0)});
    const Timeline timeline = runPipeline(ScheduleKind::ZbV, 5 * p, times);
    for (int64_t rank = 0; rank < p; ++rank)
      CHECK(timeline.stages[static_cast<size_t>(rank)].idle.count() ==
            Approx(static_cast<double>(rank)).margin(1e-9));
  }
}

TEST_CASE("DualPipe has the bubble that was published") {
  // (p / 2 - 1)(F&B + B - 3 W), B being both parts of a backward and F&B a
  // forward and a backward beside one another: DualPipe's README. DualPipeV has
  // 2 p stages on p ranks. Exact where F, B and W are equal, which its orders
  // are drawn for.
  for (int64_t p : {2, 4, 8}) {
    const double m = static_cast<double>(6 * p), q = static_cast<double>(p);
    CHECK(makespan(ScheduleKind::DualPipe, p, 6 * p, 1, 1, 1).count() - 3 * m ==
          Approx((q / 2 - 1) * (3 + 2 - 3)).margin(1e-9));
    CHECK(makespan(ScheduleKind::DualPipeV, p, 6 * p, 1, 1, 1).count() -
              6 * m ==
          Approx((q - 1) * (3 + 2 - 3)).margin(1e-9));
    // What pairs hide shortens the run by that much for each, at least.
    for (ScheduleKind kind : {ScheduleKind::DualPipe, ScheduleKind::DualPipeV}) {
      double pairs = 0;
      for (const Action &action : computationsOf(kind, p, 6 * p, 2, 0))
        pairs += action.kind == ActionKind::Forward && action.joined;
      CHECK(pairs > 0);
      CHECK(makespan(kind, p, 6 * p, 1, 1, 1, 0.5).count() <=
            makespan(kind, p, 6 * p, 1, 1, 1).count() - 0.5 * pairs + 1e-9);
    }
  }
}

TEST_CASE("an extrapolated run of any schedule equals the complete one") {
  std::mt19937 random(23);
  std::uniform_real_distribution<double> time(0.2, 2);
  int extrapolated = 0;
  for (ScheduleKind kind : scheduleKinds)
    for (int round = 0; round < 40; ++round) {
      const int64_t stages = 2 + 2 * static_cast<int64_t>(random() % 3);
      const int64_t chunks = kind == ScheduleKind::Interleaved
                                 ? 2 + static_cast<int64_t>(random() % 2)
                                 : chunksOf(kind).least;
      int64_t microbatches =
          stages * (2 + static_cast<int64_t>(random() % 40));
      PipelineTimes times;
      if (kind == ScheduleKind::Interleaved && round % 2 == 1) {
        microbatches += static_cast<int64_t>(random() % 8);
        times.group = leastGroup(stages, microbatches,
                                 stages + static_cast<int64_t>(random() % 5));
      }
      times.stages = stages;
      times.chunks = chunks;
      times.sendForward = times.sendBackward = Seconds(0.1 * time(random));
      times.overlapTransfers = random() % 2 == 0;
      times.times.assign(static_cast<size_t>(stages * chunks),
                         {Seconds(1), Seconds(1), Seconds(1), Seconds(0.25)});
      if (round % 3 != 0)
        for (StageTimes &stage : times.times)
          stage = {Seconds(time(random)), Seconds(time(random)),
                   Seconds(time(random)), Seconds(0.1)};
      ScheduleCache cache;
      const Timeline quick = runPipeline(kind, microbatches, times, &cache);
      const Timeline full = runSchedule(
          cache.get(kind, stages, chunks, microbatches, times.group), times);
      extrapolated += microbatches > 8 * stages;
      for (size_t stage = 0; stage < full.stages.size(); ++stage) {
        INFO(name(kind) << " round " << round << " stage " << stage << " of "
                        << stages << ", " << microbatches << " microbatches");
        const StageTimeline &a = quick.stages[stage], &b = full.stages[stage];
        REQUIRE(a.end.count() == Approx(b.end.count()).epsilon(1e-9));
        REQUIRE(a.busy.count() == Approx(b.busy.count()).epsilon(1e-9));
        REQUIRE(a.transfer.count() ==
                Approx(b.transfer.count()).epsilon(1e-9).margin(1e-9));
        REQUIRE(a.idle.count() ==
                Approx(b.idle.count()).epsilon(1e-9).margin(1e-8));
      }
    }
  CHECK(extrapolated > 100);
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
                 Seconds(time(random)), Seconds(0)};
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

TEST_CASE("spans are what the timeline of any schedule is made of") {
  std::mt19937 random(5);
  const auto draw = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  for (ScheduleKind kind : scheduleKinds)
    for (bool overlap : {false, true})
      for (double transfer : {0.0, 0.3}) {
        const int64_t stages = 4, microbatches = 12;
        const int64_t chunks = chunksOf(kind).least;
        PipelineTimes times = even(stages, chunks, 1, 2, transfer);
        for (StageTimes &own : times.times)
          own.forward = Seconds(draw(0.5, 2));
        times.overlapTransfers = overlap;
        ScheduleCache schedules;
        std::vector<Span> spans;
        const Schedule &schedule =
            schedules.get(kind, stages, chunks, microbatches);
        const Timeline timeline = runSchedule(schedule, times, &spans);
        CAPTURE(name(kind), overlap, transfer);
        for (int64_t stage = 0; stage < stages; ++stage) {
          const StageTimeline &line = timeline.stages[stage];
          std::vector<Span> own; // what the stage itself is at
          Seconds computing(0);
          for (const Span &span : spans) {
            if (span.stage != stage)
              continue;
            const bool computes = span.kind == ActionKind::Forward ||
                                  span.kind == ActionKind::BackwardData ||
                                  span.kind == ActionKind::BackwardWeight;
            if (computes)
              computing += span.end - span.begin;
            if (computes || !overlap)
              own.push_back(span);
          }
          CHECK(computing.count() == Approx(line.busy.count()));
          std::sort(own.begin(), own.end(), [](const Span &a, const Span &b) {
            return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
          });
          Seconds held(0);
          for (size_t i = 0; i < own.size(); ++i) {
            held += own[i].end - own[i].begin;
            // One thing at a time.
            if (i > 0)
              CHECK(own[i].begin.count() >=
                    own[i - 1].end.count() - 1e-12 * line.end.count());
          }
          CHECK(held.count() == Approx((line.busy + line.transfer).count()));
          CHECK(own.back().end.count() == Approx(line.end.count()));
        }
      }
}
