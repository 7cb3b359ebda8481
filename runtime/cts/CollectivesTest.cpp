//===- CollectivesTest.cpp - Collectives against sums done by hand --------===//
#include "runtime/cts/Harness.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

using namespace shardwright::runtime;
using namespace shardwright::runtime::cts;

namespace {

// ThreadSanitizer makes an element some ten times slower.
#ifdef __SANITIZE_THREAD__
constexpr int64_t large = 10007;
#else
constexpr int64_t large = 1000003;
#endif
/// A fake device takes long for many: SHARDWRIGHT_CTS_LARGEST makes it fewer.
const std::vector<int64_t> counts = [] {
  const char *largest = std::getenv("SHARDWRIGHT_CTS_LARGEST");
  return std::vector<int64_t>{
      0, 1, 2, 3, 7, 63, 1000, largest ? std::atoll(largest) : large};
}();

struct Groups {
  std::vector<Mesh::Axis> axes;
  std::vector<uint32_t> masks;
};
// One axis, several axes, all, and sub-meshes of unequal sizes.
const std::vector<Groups> groups = {
    {{{"tp", 1}}, {1}},
    {{{"tp", 2}}, {1}},
    {{{"tp", 3}}, {1}},
    {{{"pp", 2}, {"dp", 1}, {"tp", 2}}, {1, 4, 5, 7}},
    {{{"pp", 2}, {"dp", 2}, {"tp", 2}}, {2, 4, 5, 6, 7}},
    {{{"dp", 2}, {"tp", 3}}, {1, 2, 3}},
};

std::string where(const sw_rt_context &context, uint32_t mask, int64_t count) {
  return "rank " + std::to_string(context.rank()) + " axes '" +
         context.mesh.name(mask) + "' count " + std::to_string(count);
}

template <typename T> sw_rt_dtype dtypeOf();
template <> sw_rt_dtype dtypeOf<double>() { return SW_RT_F64; }
template <> sw_rt_dtype dtypeOf<float>() { return SW_RT_F32; }
template <> sw_rt_dtype dtypeOf<int32_t>() { return SW_RT_I32; }

template <typename T> std::vector<T> inputOf(int rank, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = pattern<T>(rank, i);
  return values;
}

template <typename T>
T reduced(const std::vector<int> &members, int64_t i, sw_rt_op op) {
  T result = pattern<T>(members[0], i);
  for (size_t m = 1; m < members.size(); ++m) {
    const T value = pattern<T>(members[m], i);
    result = op == SW_RT_SUM ? result + value : std::max(result, value);
  }
  return result;
}

/// Every group of every mesh with every count.
void everywhere(const std::function<void(sw_rt_context &, Checker &, uint32_t,
                                         int64_t)> &body) {
  for (const Groups &group : groups)
    onMesh(group.axes, [&](sw_rt_context &context, Checker &checker) {
      for (uint32_t mask : group.masks)
        for (int64_t count : counts)
          body(context, checker, mask, count);
    });
}

template <typename T> void testAllReduce(sw_rt_op op) {
  everywhere([&](sw_rt_context &context, Checker &checker, uint32_t mask,
                 int64_t count) {
    const auto members = context.mesh.members(context.rank(), mask);
    Buffer<T> input(context, inputOf<T>(context.rank(), count));
    Buffer<T> output(context,
                     std::vector<T>(static_cast<size_t>(count) + 1, T(77)));
    for (bool inPlace : {false, true}) {
      Buffer<T> &result = inPlace ? input : output;
      checker.equal(sw_rt_all_reduce(&context, mask, dtypeOf<T>(), op,
                                     input.data(), result.data(), count),
                    SW_RT_OK, "status");
      const std::vector<T> target = result.read();
      bool right = true;
      for (int64_t i = 0; i < count; ++i)
        right = right &&
                target[static_cast<size_t>(i)] == reduced<T>(members, i, op);
      checker.that(right, where(context, mask, count) +
                              (inPlace ? " in place" : "") + " wrong");
    }
    checker.that(output.read().back() == T(77), "wrote past the end");
  });
}

template <typename T> void testReduceScatter(sw_rt_op op) {
  everywhere([&](sw_rt_context &context, Checker &checker, uint32_t mask,
                 int64_t part) {
    part = std::min<int64_t>(part, 100003);
    const auto members = context.mesh.members(context.rank(), mask);
    const int64_t n = static_cast<int64_t>(members.size()), count = n * part;
    const int64_t me = sw_rt_coordinate(&context, mask);
    Buffer<T> input(context, inputOf<T>(context.rank(), count));
    Buffer<T> output(context,
                     std::vector<T>(static_cast<size_t>(part) + 1, T(77)));
    for (bool inPlace : {false, true}) {
      T *target = inPlace ? input.data() + me * part : output.data();
      checker.equal(sw_rt_reduce_scatter(&context, mask, dtypeOf<T>(), op,
                                         input.data(), target, count),
                    SW_RT_OK, "status");
      const std::vector<T> left = input.read(), apart = output.read();
      bool right = true;
      for (int64_t i = 0; i < part; ++i)
        right = right && (inPlace ? left[static_cast<size_t>(me * part + i)]
                                  : apart[static_cast<size_t>(i)]) ==
                             reduced<T>(members, me * part + i, op);
      // In place leaves the other parts as they were.
      for (int64_t i = 0; i < count; ++i)
        if (i < me * part || i >= (me + 1) * part)
          right = right &&
                  left[static_cast<size_t>(i)] == pattern<T>(context.rank(), i);
      checker.that(right, where(context, mask, count) +
                              (inPlace ? " in place" : "") + " wrong");
    }
    checker.that(output.read().back() == T(77), "wrote past the end");
  });
}

} // namespace

TEST_CASE("all_reduce equals the sum done by hand") {
  testAllReduce<float>(SW_RT_SUM);
  testAllReduce<double>(SW_RT_SUM);
}
TEST_CASE("all_reduce of i32 and of maxima") {
  testAllReduce<int32_t>(SW_RT_SUM);
  testAllReduce<float>(SW_RT_MAX);
}
TEST_CASE("reduce_scatter equals the sum done by hand") {
  testReduceScatter<float>(SW_RT_SUM);
  testReduceScatter<double>(SW_RT_SUM);
  testReduceScatter<int32_t>(SW_RT_MAX);
}

TEST_CASE("all_gather joins the inputs in member order") {
  everywhere([&](sw_rt_context &context, Checker &checker, uint32_t mask,
                 int64_t count) {
    const auto members = context.mesh.members(context.rank(), mask);
    const size_t n = members.size();
    const int64_t me = sw_rt_coordinate(&context, mask);
    const std::vector<float> own = inputOf<float>(context.rank(), count);
    Buffer<float> input(context, own);
    for (bool inPlace : {false, true}) {
      std::vector<float> start(n * static_cast<size_t>(count) + 1, 77.0f);
      if (inPlace)
        std::copy(own.begin(), own.end(), start.begin() + me * count);
      Buffer<float> result(context, start);
      checker.equal(
          sw_rt_all_gather(&context, mask, SW_RT_F32,
                           inPlace ? result.data() + me * count : input.data(),
                           result.data(), count),
          SW_RT_OK, "status");
      const std::vector<float> output = result.read();
      bool right = output.back() == 77.0f;
      for (size_t m = 0; m < n; ++m)
        for (int64_t i = 0; i < count; ++i)
          right =
              right &&
              output[m * static_cast<size_t>(count) + static_cast<size_t>(i)] ==
                  pattern<float>(members[m], i);
      checker.that(right, where(context, mask, count) + " wrong");
    }
  });
}

TEST_CASE("all_to_all is a transposition of parts") {
  everywhere([&](sw_rt_context &context, Checker &checker, uint32_t mask,
                 int64_t part) {
    part = std::min<int64_t>(part, 100003);
    const auto members = context.mesh.members(context.rank(), mask);
    const int64_t count = static_cast<int64_t>(members.size()) * part;
    const int64_t me = sw_rt_coordinate(&context, mask);
    Buffer<double> input(context, inputOf<double>(context.rank(), count));
    Buffer<double> result(
        context, std::vector<double>(static_cast<size_t>(count) + 1, 77.0));
    checker.equal(sw_rt_all_to_all(&context, mask, SW_RT_F64, input.data(),
                                   result.data(), count),
                  SW_RT_OK, "status");
    const std::vector<double> output = result.read();
    bool right = output.back() == 77.0;
    for (size_t m = 0; m < members.size(); ++m)
      for (int64_t i = 0; i < part; ++i)
        right =
            right &&
            output[m * static_cast<size_t>(part) + static_cast<size_t>(i)] ==
                pattern<double>(members[m], me * part + i);
    checker.that(right, where(context, mask, count) + " wrong");
  });
}

// (1e16 + 1) + -1e16 is 0 in rank order and 1 in any order that pairs the large
// values first; 0.1 + 0.2 + 0.3 likewise differs in its last bit.
TEST_CASE("sums are made in rank order, with equal bits everywhere") {
  if (!onHost()) // no other backend promises it
    return;
  for (int n : {3, 4})
    onMesh({{"tp", n}}, [&](sw_rt_context &context, Checker &checker) {
      const double values[] = {1e16, 1.0, -1e16, 0.3};
      double want = values[0];
      for (int i = 1; i < n; ++i)
        want += values[i];
      const size_t count = 1000;
      std::vector<double> data(count, values[context.rank()]);
      sw_rt_all_reduce(&context, 1, SW_RT_F64, SW_RT_SUM, data.data(),
                       data.data(), static_cast<int64_t>(count));
      checker.that(std::all_of(data.begin(), data.end(),
                               [&](double x) { return x == want; }),
                   "not the rank-ordered sum");
    });
}

TEST_CASE("bf16 sums round to nearest even once a step") {
  if (!onHost()) // no other backend promises it
    return;
  onMesh({{"tp", 2}}, [&](sw_rt_context &context, Checker &checker) {
    // 1 + 2^-8 lies between bf16 1 and 1 + 2^-7: the tie goes to even, 1.
    // 1 + 2^-7 + 2^-8 is a tie too and goes to 1 + 2^-6.
    const uint16_t one = 0x3f80, up = 0x3f81, half = 0x3b80;
    std::vector<uint16_t> data = context.rank() == 0
                                     ? std::vector<uint16_t>{one, up}
                                     : std::vector<uint16_t>{half, half};
    sw_rt_all_reduce(&context, 1, SW_RT_BF16, SW_RT_SUM, data.data(),
                     data.data(), 2);
    checker.equal(data[0], 0x3f80, "tie to even below");
    checker.equal(data[1], 0x3f82, "tie to even above");
  });
}

TEST_CASE("a NaN survives a maximum from either side") {
  if (!onHost()) // no other backend promises it
    return;
  onMesh({{"tp", 2}}, [&](sw_rt_context &context, Checker &checker) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> data = context.rank() == 0
                                  ? std::vector<float>{nan, 1.0f}
                                  : std::vector<float>{1.0f, nan};
    sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_MAX, data.data(),
                     data.data(), 2);
    checker.that(data[0] != data[0] && data[1] != data[1], "NaN was lost");
  });
}

TEST_CASE("a group restricted to owner stages leaves the others out") {
  onMesh({{"pp", 3}}, [&](sw_rt_context &context, Checker &checker) {
    double value = context.rank() + 1;
    if (context.rank() != 1)
      allReduce(context, context.group(1, 0b101), SW_RT_F64, SW_RT_SUM, &value,
                &value, 1);
    checker.that(value == (context.rank() == 1 ? 2 : 4), "wrong sum");
  });
}

TEST_CASE("send and recv keep their order and cross the ring") {
  for (int n : {2, 3, 4})
    onMesh({{"pp", n}}, [&](sw_rt_context &context, Checker &checker) {
      const int me = context.rank(), next = (me + 1) % n,
                previous = (me + n - 1) % n;
      for (int64_t count : {int64_t(0), int64_t(1), int64_t(300000)})
        for (int repeat = 0; repeat < 3; ++repeat) {
          Buffer<float> out(context, std::vector<float>(
                                         static_cast<size_t>(count),
                                         static_cast<float>(me * 10 + repeat)));
          Buffer<float> arriving(
              context,
              std::vector<float>(static_cast<size_t>(count) + 1, 77.0f));
          auto send = [&] {
            return sw_rt_send(&context, next, SW_RT_F32, out.data(), count);
          };
          auto receive = [&] {
            return sw_rt_recv(&context, previous, SW_RT_F32, arriving.data(),
                              count);
          };
          // Rendezvous: rank 0 receives last.
          if (me == 0) {
            checker.equal(send(), SW_RT_OK, "send");
            checker.equal(receive(), SW_RT_OK, "recv");
          } else {
            checker.equal(receive(), SW_RT_OK, "recv");
            checker.equal(send(), SW_RT_OK, "send");
          }
          const std::vector<float> in = arriving.read();
          bool right = in.back() == 77.0f;
          for (int64_t i = 0; i < count; ++i)
            right = right && in[static_cast<size_t>(i)] ==
                                 static_cast<float>(previous * 10 + repeat);
          checker.that(right, "wrong data");
        }
    });
}

TEST_CASE("the ledger books this rank's input once per call") {
  onMesh({{"dp", 2}, {"tp", 2}}, [&](sw_rt_context &context, Checker &checker) {
    Buffer<float> data(context, std::vector<float>(12)),
        more(context, std::vector<float>(48));
    context.phase = SW_RT_DATA_GRAD;
    sw_rt_all_reduce(&context, 2, SW_RT_F32, SW_RT_SUM, data.data(),
                     data.data(), 12);
    sw_rt_all_gather(&context, 2, SW_RT_F32, data.data(), more.data(), 12);
    sw_rt_all_gather(&context, 2, SW_RT_F32, data.data(), more.data(), 12);
    context.phase = SW_RT_REDUCE;
    sw_rt_reduce_scatter(&context, 3, SW_RT_F32, SW_RT_SUM, more.data(),
                         data.data(), 48);
    if (context.rank() == 0)
      sw_rt_send(&context, 2, SW_RT_F32, data.data(), 5);
    if (context.rank() == 2)
      sw_rt_recv(&context, 0, SW_RT_F32, data.data(), 5);
    sw_rt_barrier(&context);
    std::map<Ledger::Key, Ledger::Entry> want = {
        {{Call::AllReduce, "tp", SW_RT_DATA_GRAD}, {1, 48}},
        {{Call::AllGather, "tp", SW_RT_DATA_GRAD}, {2, 96}},
        {{Call::ReduceScatter, "dp+tp", SW_RT_REDUCE}, {1, 192}},
    };
    if (context.rank() == 0)
      want[{Call::Send, "dp", SW_RT_REDUCE}] = {1, 20};
    if (context.rank() == 2)
      want[{Call::Recv, "dp", SW_RT_REDUCE}] = {1, 20};
    checker.that(context.ledger.collectives == want, "ledger differs");
  });
}

TEST_CASE("emulated links cost latency and bandwidth") {
  if (!onHost()) // no other backend promises it
    return;
  // All-reduce of 2 ranks: two steps of 50,000 floats = 200 kB each way. At
  // 1e7 bytes/s and 5 ms: 2 * (20 + 5) = 50 ms.
  onMesh(
      {{"tp", 2}},
      [&](sw_rt_context &context, Checker &checker) {
        std::vector<float> data(100000, 1.0f);
        sw_rt_barrier(&context);
        const auto start = Clock::now();
        sw_rt_all_reduce(&context, 1, SW_RT_F32, SW_RT_SUM, data.data(),
                         data.data(), 100000);
        const double seconds = secondsSince(start);
        checker.that(data[0] == 2.0f, "wrong sum");
        checker.that(seconds >= 0.049 && seconds < 2,
                     "expected 50 ms, but got " + std::to_string(seconds) +
                         " s");
      },
      LinkModel{5e-3, 1e7});
}
