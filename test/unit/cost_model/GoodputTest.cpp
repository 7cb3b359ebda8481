#include "cost_model/estimate/Goodput.h"
#include "cost_model/hardware/Hardware.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

TEST_CASE("failures a day, by hand") {
  GoodputQuestion question;
  question.devices = 10000;
  question.nodes = 1250;
  question.step = Seconds(10);
  question.operations.storageWrite = BytesPerSecond(1e12);
  question.operations.failuresPerDeviceDay =
      failurePreset("one-in-a-thousand")->perDeviceDay;
  const Goodput result = goodput(question);
  CHECK(result.failuresPerDay == Approx(10));
  CHECK(result.meanTimeBetween.count() == Approx(8640));
  // 419 / (54 * 16384) a device and day.
  CHECK(failurePreset("llama-3")->perDeviceDay * 16384 * 54 == Approx(419));
  CHECK(failurePreset("none-such") == nullptr);
}

TEST_CASE("the best interval between checkpoints, by hand") {
  // Ten failures a day: M = 8640 s. sqrt(2 * 5 * 8640) = 294 s = 4.9 min, lost
  // sqrt(2 * 5 / 8640) = 3.4 %; sqrt(2 * 30 * 8640) = 720 s, lost 8.3 %.
  const Seconds between(8640);
  const CheckpointInterval five = bestInterval(Seconds(5), between);
  CHECK(five.interval.count() / 60 == Approx(4.9).epsilon(0.005));
  CHECK(five.checkpointing + five.repeating == Approx(0.034).epsilon(0.005));
  CHECK(five.checkpointing == Approx(five.repeating));
  const CheckpointInterval thirty = bestInterval(Seconds(30), between);
  CHECK(thirty.interval.count() == Approx(720));
  CHECK(thirty.checkpointing + thirty.repeating ==
        Approx(0.083).epsilon(0.005));
  for (double other : {100.0, 600.0, 800.0, 5000.0}) {
    const CheckpointInterval at = atInterval(Seconds(other), Seconds(30), between);
    CHECK(at.checkpointing + at.repeating >
          thirty.checkpointing + thirty.repeating);
  }
}

TEST_CASE("a checkpoint of 70e9 parameters is 980 GB") {
  // bf16 parameters, f32 state: 2 + 3 * 4 = 14 B each.
  CHECK(checkpointBytes(70e9, DTypes()) == Approx(980e9));
}

TEST_CASE("a thousand ranks wait three deviations for the slowest") {
  CHECK(0.01 * expectedLargestNormal(1024) == Approx(0.032).epsilon(0.02));
  CHECK(expectedLargestNormal(1) == 0);
  // 1 / sqrt(pi), exactly, of two.
  CHECK(expectedLargestNormal(2) == Approx(0.5642).epsilon(0.05));
  for (int64_t n = 1; n < 100000; n *= 3)
    CHECK(expectedLargestNormal(3 * n) > expectedLargestNormal(n));
}

namespace {
GoodputQuestion run() {
  GoodputQuestion question;
  question.devices = 10000;
  question.nodes = 1250;
  question.step = Seconds(10);
  question.tokensPerStep = 16e6;
  question.checkpoint = 980e9;
  question.operations.storageWrite = BytesPerSecond(200e9);
  question.operations.failuresPerDeviceDay = 1e-3;
  question.operations.restart = Seconds(600);
  question.operations.pricePerDeviceHour = 2;
  question.hostCopy = BytesPerSecond(25e9);
  question.tokens = 15e12;
  return question;
}
} // namespace

TEST_CASE("tokens a day, device hours and money, by hand") {
  const Goodput result = goodput(run());
  // 980 / 200 = 4.9 s to write; M = 8640 s; lost sqrt(2 * 4.9 / 8640) = 3.368 %
  // and (600 + 4.9) / 8640 = 7.001 %.
  CHECK(result.write.count() == Approx(4.9));
  CHECK(result.restarting == Approx(604.9 / 8640));
  CHECK(result.useful == Approx(1 - 0.033679 - 0.070012).epsilon(1e-4));
  CHECK(result.tokensPerDay == Approx(1.6e6 * 86400 * result.useful));
  CHECK(result.days == Approx(15e12 / result.tokensPerDay));
  CHECK(result.deviceHours == Approx(result.days * 24 * 10000));
  CHECK(result.money == Approx(2 * result.deviceHours));
  // 1.6 million tokens a second of 4 B; half a GB a second for each of 10,000
  // devices would be 5 TB/s.
  CHECK(result.dataBytesPerSecond == Approx(6.4e6));
}

TEST_CASE("asynchronous checkpoints stall for the copy, and wait for the disk") {
  GoodputQuestion question = run();
  const Goodput before = goodput(question);
  question.asynchronous = true;
  const Goodput after = goodput(question);
  CHECK(after.stall.count() == Approx(980e9 / 10000 / 25e9));
  CHECK(after.useful > before.useful);
  question.operations.storageWrite = BytesPerSecond(1e9); // 980 s to write
  CHECK(goodput(question).shared.interval.count() == Approx(980));
}

TEST_CASE("a tier on the nodes takes what does not lose a node") {
  GoodputQuestion question = run();
  question.operations.storageWrite = BytesPerSecond(20e9); // 49 s
  const Goodput one = goodput(question);
  question.operations.nodeWrite = BytesPerSecond(5e9); // 980 / 1250 / 5 s
  question.operations.nodeLossShare = 0.1;
  const Goodput two = goodput(question);
  CHECK(two.twoTiers);
  CHECK(two.nodeStall.count() == Approx(0.1568));
  CHECK(two.shared.interval.count() ==
        Approx(std::sqrt(2 * 49 * 8640 / 0.1)));
  CHECK(two.node.interval.count() ==
        Approx(std::sqrt(2 * 0.1568 * 8640 / 0.9)));
  CHECK(two.useful > one.useful);
}

TEST_CASE("more failures, slower disks and longer restarts are never better") {
  const double base = goodput(run()).useful;
  GoodputQuestion worse = run();
  worse.operations.failuresPerDeviceDay *= 2;
  CHECK(goodput(worse).useful < base);
  worse = run();
  worse.operations.storageWrite = BytesPerSecond(100e9);
  CHECK(goodput(worse).useful < base);
  worse = run();
  worse.operations.restart = Seconds(1200);
  CHECK(goodput(worse).useful < base);
  worse.operations.failuresPerDeviceDay = 0;
  CHECK(goodput(worse).useful == 1);
  worse.operations.failuresPerDeviceDay = 1; // nothing gets done
  CHECK(goodput(worse).useful == 0);
  CHECK(goodput(worse).days == 0);
}
