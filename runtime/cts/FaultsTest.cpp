//===- FaultsTest.cpp - Deadlines, mismatches and wrong arguments ---------===//
#include "runtime/cts/Harness.h"
#include "runtime/src/train/Diagnostics.h"

#include <catch2/catch.hpp>

#include <thread>

using namespace shardwright::runtime;
using namespace shardwright::runtime::cts;

namespace {

sw_rt_status reduceOne(sw_rt_context &context, uint32_t axes,
                       int64_t count = 4) {
  Buffer<float> data(context,
                     std::vector<float>(static_cast<size_t>(count), 1.0f));
  return sw_rt_all_reduce(&context, axes, SW_RT_F32, SW_RT_SUM, data.data(),
                          data.data(), count);
}

void stall(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

} // namespace

TEST_CASE("a stalled rank is named with the call that waits for it") {
  if (maxRanks() < 3)
    return;
  const auto start = Clock::now();
  const JobResult result =
      failingOnMesh({{"dp", 3}}, 0.3, [&](sw_rt_context &context) {
        context.phase = SW_RT_REDUCE;
        if (sw_rt_status status = reduceOne(context, 1))
          return status;
        if (context.rank() == 1)
          stall(1.0);
        return reduceOne(context, 1);
      });
  CHECK(secondsSince(start) < 3);
  CHECK((result.status == SW_RT_TIMEOUT || result.status == SW_RT_ABORTED ||
         !result.onMesh));
  checkMessage(result, "expected rank 1 to join all_reduce number 1 over axes "
                       "'dp' (f32, 4 elements, phase reduce) within 0.3 s");
  CHECK(result.stuck.empty());
}

TEST_CASE("two stalled ranks are both named") {
  if (maxRanks() < 4)
    return;
  const JobResult result =
      failingOnMesh({{"dp", 4}}, 0.3, [&](sw_rt_context &context) {
        if (context.rank() % 2 == 1)
          stall(1.0);
        return reduceOne(context, 1);
      });
  checkMessage(result, "expected ranks 1, 3 to join");
}

TEST_CASE("a receive without a send is named") {
  const JobResult result =
      failingOnMesh({{"pp", 2}}, 0.3, [&](sw_rt_context &context) {
        float value = 0;
        if (context.rank() == 1) {
          stall(1.0);
          return sw_rt_barrier(&context);
        }
        return sw_rt_recv(&context, 1, SW_RT_F32, &value, 1);
      });
  checkMessage(result, "expected rank 1 to join send number 0");
}

TEST_CASE("the cause of a chain of waits is named") {
  if (onProcesses()) // processes do not see each other's waits
    return;
  // 0 waits for 1, which waits for 2, which does nothing.
  const JobResult result =
      failingOnMesh({{"pp", 3}}, 0.3, [&](sw_rt_context &context) {
        float value = 0;
        if (context.rank() == 2) {
          stall(1.0);
          return SW_RT_OK;
        }
        if (context.rank() == 1)
          stall(0.1); // so that rank 0 is the first to give up
        return sw_rt_recv(&context, context.rank() + 1, SW_RT_F32, &value, 1);
      });
  checkMessage(result, "rank 1 waits for rank 2");
}

TEST_CASE("a thread that never comes back does not hold the job") {
  if (onProcesses())
    return;
  static std::atomic<bool> release{false};
  const auto start = Clock::now();
  const JobResult result = runOnThreads(
      {Mesh({{"dp", 2}}), 0.2, {}},
      [&](sw_rt_context &context) {
        while (context.rank() == 1 && !release)
          stall(0.01);
        return reduceOne(context, 1);
      },
      0.3);
  CHECK(secondsSince(start) < 2);
  CHECK(result.stuck == std::vector<int>{1});
  CHECK(result.status == SW_RT_TIMEOUT);
  release = true;
  stall(0.2);
}

TEST_CASE("members that call different collectives are told so") {
  if (maxRanks() < 3)
    return;
  auto mismatch = [](const std::function<sw_rt_status(sw_rt_context &)> &odd) {
    return failingOnMesh({{"tp", 3}}, 5, [&](sw_rt_context &context) {
      return context.rank() == 2 ? odd(context) : reduceOne(context, 1);
    });
  };
  SECTION("another count") {
    const JobResult result = mismatch(
        [](sw_rt_context &context) { return reduceOne(context, 1, 5); });
    CHECK((result.status == SW_RT_MISMATCH || result.status == SW_RT_ABORTED ||
           !result.onMesh));
    checkMessage(result, "4 elements");
    checkMessage(result, "5 elements");
    checkMessage(result, "but it called");
  }
  SECTION("another collective") {
    const JobResult result = mismatch([](sw_rt_context &context) {
      float in[4] = {}, out[12];
      return sw_rt_all_gather(&context, 1, SW_RT_F32, in, out, 4);
    });
    checkMessage(result, "all_gather");
    checkMessage(result, "all_reduce");
  }
  SECTION("another dtype") {
    const JobResult result = mismatch([](sw_rt_context &context) {
      double data[4] = {};
      return sw_rt_all_reduce(&context, 1, SW_RT_F64, SW_RT_SUM, data, data, 4);
    });
    checkMessage(result, "f64");
    checkMessage(result, "f32");
  }
  SECTION("another operator") {
    const JobResult result = mismatch([](sw_rt_context &context) {
      float data[4] = {};
      return sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_MAX, data, data, 4);
    });
    checkMessage(result, "max");
  }
}

TEST_CASE("wrong arguments end the job with one message") {
  auto failure = [](const std::function<sw_rt_status(sw_rt_context &)> &body) {
    return failingOnMesh({{"tp", 2}}, 5, body);
  };
  float data[8] = {};
  checkMessage(failure([&](sw_rt_context &context) {
                 return sw_rt_reduce_scatter(&context, 1, SW_RT_F32, SW_RT_SUM,
                                             data, data + 4, 3);
               }),
               "to be divisible by its 2 members, but got 3");
  if (onHost())
    checkMessage(failure([&](sw_rt_context &context) {
                   return sw_rt_all_reduce(&context, 1, SW_RT_F16, SW_RT_SUM,
                                           data, data, 1);
                 }),
                 "but got f16");
  checkMessage(failure([&](sw_rt_context &context) {
                 return sw_rt_all_reduce(&context, 8, SW_RT_F32, SW_RT_SUM,
                                         data, data, 1);
               }),
               "to be axes of the mesh tp=2");
  checkMessage(failure([&](sw_rt_context &context) {
                 return sw_rt_send(&context, context.rank(), SW_RT_F32, data,
                                   1);
               }),
               "to be another rank below 2");
  checkMessage(failure([&](sw_rt_context &context) {
                 return sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_SUM,
                                         data, data, -1);
               }),
               "to be 0 or more, but got -1");
  if (!onHost()) // others need no staging
    return;
  checkMessage(failure([&](sw_rt_context &context) {
                 context.staging.grows = false;
                 std::vector<float> large(1000);
                 return sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_SUM,
                                         large.data(), large.data(), 1000);
               }),
               "expected the comm part of the arena to hold 2000 bytes");
}

TEST_CASE("ranks that fail at the same moment agree on one of them") {
  // Processes share no memory: they tell one another afterwards, in a new job.
  constexpr int64_t tick = 20'000'000;
  for (int time = 0; time < 10; ++time) {
    std::atomic<int> reporting{0};
    const JobResult result =
        failingOnMesh({{"dp", maxRanks()}}, 5, [&](sw_rt_context &context) {
          if (sw_rt_status status = sw_rt_barrier(&context))
            return status;
          auto now = [] {
            return std::chrono::system_clock::now().time_since_epoch().count();
          };
          const int64_t moment = (now() / tick + 1) * tick;
          while (now() < moment)
            ;
          const sw_rt_status status =
              context.fail(SW_RT_INVALID_ARGUMENT,
                           "of rank " + std::to_string(context.rank()));
          reporting += status == SW_RT_INVALID_ARGUMENT;
          return status;
        });
    checkMessage(result, "of rank ");
    if (!onProcesses()) {
      CHECK(reporting == 1);
      continue;
    }
    onMesh({{"dp", maxRanks()}}, [&](sw_rt_context &context, Checker &check) {
      Buffer<float> count(context, {static_cast<float>(reporting)});
      check.equal(sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_SUM,
                                   count.data(), count.data(), 1),
                  SW_RT_OK, "status");
      check.equal(static_cast<int64_t>(count.read()[0]), 1, "ranks that report");
    });
  }
}

TEST_CASE("a poisoned context refuses everything") {
  failingOnMesh({{"tp", 2}}, 0.2, [&](sw_rt_context &context) {
    if (context.rank() == 1) {
      stall(0.5);
      return SW_RT_OK;
    }
    CHECK(reduceOne(context, 1) == SW_RT_TIMEOUT); // one thread only checks
    CHECK(reduceOne(context, 1) == SW_RT_ABORTED);
    CHECK(sw_rt_barrier(&context) == SW_RT_ABORTED);
    CHECK(std::string(sw_rt_context_last_error(&context)) != "");
    return SW_RT_TIMEOUT;
  });
}

TEST_CASE("a failure ends in its name, with the exit code of its kind") {
  const struct {
    sw_rt_status status;
    const char *name;
    int code;
  } cases[] = {{SW_RT_TIMEOUT, "run_lost_rank", 2},
               {SW_RT_ABORTED, "run_lost_rank", 2},
               {SW_RT_NOT_FINITE, "run_not_finite", 2},
               {SW_RT_OUT_OF_MEMORY, "run_memory", 2},
               {SW_RT_UNSUPPORTED, "run_unsupported", 3},
               {SW_RT_IO, "run_file", 4},
               {SW_RT_MISMATCH, "run_defect", 1},
               {SW_RT_INVALID_ARGUMENT, "run_defect", 1}};
  for (const auto &c : cases) {
    CHECK(errorLine(diagOf(c.status), "expected x") ==
          "error: expected x [" + std::string(c.name) + "]");
    CHECK(exitCodeOf(diagOf(c.status)) == c.code);
  }
  CHECK(errorLine(Diag::run_no_mpi, "x") == "error: x [run_no_mpi]");
  CHECK(exitCodeOf(Diag::run_no_mpi) == 3);
}
