//===- DeviceTest.cpp - What a device does beside compute -----------------===//
//
// Runs on every device, in bf16 too.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/Harness.h"
#include "runtime/src/Convert.h"
#include "runtime/src/train/Philox.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace shardwright::runtime;
using namespace shardwright::runtime::cts;

namespace {

void alone(const std::function<void(sw_rt_context &)> &body) {
  JobOptions options{Mesh({{"tp", 1}}), 60};
  options.openDevice = testDevice();
  const JobResult result = runOnThreads(options, [&](sw_rt_context &context) {
    body(context);
    return context.status;
  });
  CHECK(result.message == "");
}

/// Normal numbers that bf16 holds exactly.
std::vector<double> normals(size_t count, const char *name) {
  const NamedRandom random(11, name);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = fromBf16(toBf16(static_cast<float>(random.normal(i))));
  return values;
}

std::vector<uint16_t> bf16(const std::vector<double> &values) {
  std::vector<uint16_t> result(values.size());
  CHECK(convert(SW_RT_F64, values.data(), SW_RT_BF16, result.data(),
                static_cast<int64_t>(values.size())));
  return result;
}

std::vector<double> wide(const std::vector<uint16_t> &values) {
  std::vector<double> result;
  for (uint16_t value : values)
    result.push_back(fromBf16(value));
  return result;
}

template <typename T>
double distance(const std::vector<T> &got, const std::vector<double> &want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

} // namespace

TEST_CASE("what was copied to a device may change at once") {
  alone([](sw_rt_context &context) {
    Device &device = *context.device;
    DeviceMemory memory;
    std::string why;
    REQUIRE(memory.create(device, 8, why));
    int64_t source = 1, got = 0;
    REQUIRE(device.fill(memory.at(), 0, 8) == SW_RT_OK);
    REQUIRE(device.toDevice(memory.at(), &source, 8) == SW_RT_OK);
    source = 2;
    REQUIRE(device.toHost(&got, memory.at(), 8) == SW_RT_OK);
    CHECK(got == 1);
  });
}

TEST_CASE("conversion to bf16 rounds once, to nearest even") {
  CHECK(toBf16(1.0f) == 0x3f80);
  CHECK(toBf16(1.0f + 0x1p-8f) == 0x3f80);           // a tie, to even
  CHECK(toBf16(1.0f + 0x1p-7f + 0x1p-8f) == 0x3f82); // the other tie
  CHECK(toBf16(INFINITY) == 0x7f80);
  CHECK(std::isnan(fromBf16(toBf16(NAN))));
  // Past the tie by less than f32 shows: rounding twice would give 1.
  const double values[] = {1 + 0x1p-8 + 0x1p-40, -(1 + 0x1p-8 + 0x1p-40), 0.0};
  uint16_t got[3];
  CHECK(convert(SW_RT_F64, values, SW_RT_BF16, got, 3));
  CHECK(got[0] == 0x3f81);
  CHECK(got[1] == 0xbf81);
  CHECK(got[2] == 0);
  CHECK_FALSE(convert(SW_RT_F64, values, SW_RT_I32, got, 3));
}

TEST_CASE("memory of a device is filled, copied and read") {
  alone([](sw_rt_context &context) {
    std::vector<int32_t> start(1000);
    std::iota(start.begin(), start.end(), 0);
    Buffer<int32_t> buffer(context, start);
    CHECK(buffer.read() == start);
    CHECK(context.device->fill(buffer.data() + 1, 0xff, 8) == SW_RT_OK);
    start[1] = start[2] = -1;
    CHECK(buffer.read() == start);
  });
}

TEST_CASE("rows are copied with strides") {
  alone([](sw_rt_context &context) {
    std::vector<int32_t> start(60);
    std::iota(start.begin(), start.end(), 0);
    Buffer<int32_t> input(context, start),
        output(context, std::vector<int32_t>(20, 77));
    // Columns 3 and 4 of 6 rows of 10, to rows of 3.
    CHECK(sw_rt_copy_rows(&context, input.data() + 3, 40, output.data(), 12, 8,
                          6) == SW_RT_OK);
    std::vector<int32_t> want(20, 77);
    for (int row = 0; row < 6; ++row)
      for (int column = 0; column < 2; ++column)
        want[static_cast<size_t>(row * 3 + column)] = row * 10 + 3 + column;
    CHECK(output.read() == want);
  });
}

TEST_CASE("squares are summed over ranges of any length") {
  alone([](sw_rt_context &context) {
    // Small integers: exact in every order.
    std::vector<float> start(200003);
    for (size_t i = 0; i < start.size(); ++i)
      start[i] = static_cast<float>(static_cast<int>(i % 17) - 8);
    Buffer<float> buffer(context, start);
    const std::vector<std::pair<int64_t, int64_t>> ranges = {
        {0, 1}, {5, 0}, {7, 32768}, {40000, 32769}, {80000, 120003}};
    std::vector<DeviceRange> list;
    double want = 0;
    for (const auto &[first, count] : ranges) {
      list.push_back({buffer.data() + first, count});
      for (int64_t i = first; i < first + count; ++i)
        want += start[static_cast<size_t>(i)] * start[static_cast<size_t>(i)];
    }
    double sum = -1;
    CHECK(context.device->sumOfSquares(SW_RT_F32, list, sum) == SW_RT_OK);
    CHECK(sum == want);

    std::vector<uint16_t> halves(start.size());
    std::transform(start.begin(), start.end(), halves.begin(), toBf16);
    Buffer<uint16_t> half(context, halves);
    for (size_t i = 0; i < ranges.size(); ++i)
      list[i].at = half.data() + ranges[i].first;
    CHECK(context.device->sumOfSquares(SW_RT_BF16, list, sum) == SW_RT_OK);
    CHECK(sum == want);
  });
}

// A sum that is made beside compute, then one that uses it, then a copy by
// compute once the lane is awaited. Ranks start from other numbers.
TEST_CASE("lanes run in order, and compute waits for them when told") {
  for (const std::vector<Mesh::Axis> &axes :
       {std::vector<Mesh::Axis>{{"tp", 1}},
        std::vector<Mesh::Axis>{{"dp", 2}, {"tp", 2}}})
    onMesh(axes, [](sw_rt_context &context, Checker &checker) {
      const int64_t count = 1000, ranks = context.mesh.ranks();
      const uint32_t inner = ranks == 1 ? 1 : 2, outer = 1;
      std::vector<float> start(count), zeros(count);
      for (int64_t i = 0; i < count; ++i)
        start[static_cast<size_t>(i)] = pattern<float>(context.rank(), i);
      Buffer<float> source(context, start), value(context, zeros),
          copied(context, zeros);
      Device &device = *context.device;
      auto sum = [&](uint32_t axes) {
        return device.collective({Call::AllReduce, &context.group(axes), -1,
                                  SW_RT_F32, SW_RT_SUM, value.data(),
                                  value.data(), count, Lane::Gradients});
      };
      bool good = true;
      auto want = [&](sw_rt_status status) {
        good = good && status == SW_RT_OK;
      };
      for (int round = 0; round < 3; ++round) {
        want(device.copyRows(source.data(), 4 * count, value.data(), 4 * count,
                             4 * count, 1));
        want(sum(inner));
        want(sum(outer));
        // Compute that has nothing to do with it.
        want(device.fill(copied.data(), 0xff, 4 * count));
        want(device.await(Lane::Gradients));
        want(device.copyRows(value.data(), 4 * count, copied.data(), 4 * count,
                             4 * count, 1));
      }
      checker.that(good, context.error);
      const std::vector<float> &got = copied.read();
      for (int64_t i = 0; i < count; ++i) {
        float all = 0;
        for (int rank = 0; rank < ranks; ++rank)
          all += pattern<float>(rank, i);
        checker.that(got[static_cast<size_t>(i)] == all,
                     "element " + std::to_string(i));
      }
    });
}

TEST_CASE("embedding gradients add repeated tokens in order") {
  alone([](sw_rt_context &context) {
    // 600 tokens of 5 ids: more than a block of threads, long chains.
    const int64_t tokens = 600, rows = 3, width = 33;
    std::vector<int32_t> ids(tokens);
    for (int64_t i = 0; i < tokens; ++i)
      ids[static_cast<size_t>(i)] = static_cast<int32_t>(i * i % 5);
    std::vector<float> gradient(static_cast<size_t>(tokens * width));
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>(static_cast<int>(i * 7 % 41) - 20);
    std::vector<float> want(static_cast<size_t>(rows * width), 5);
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t row = ids[static_cast<size_t>(i)] - 1; // rows 1, 2, 3
      for (int64_t j = 0; row >= 0 && row < rows && j < width; ++j)
        want[static_cast<size_t>(row * width + j)] +=
            gradient[static_cast<size_t>(i * width + j)];
    }
    Buffer<int32_t> bids(context, ids);
    Buffer<float> bgradient(context, gradient),
        table(context, std::vector<float>(want.size(), 5));
    sw_rt_embedding_bwd(&context, SW_RT_F32, SW_RT_F32, bids.data(), tokens,
                        bgradient.data(), 1, rows, width, table.data());
    CHECK(table.read() == want);
  });
}

// Rounded after every token, a sum of many small numbers would stand still.
TEST_CASE("embedding gradients to bf16 are summed in f32 and rounded once") {
  alone([](sw_rt_context &context) {
    const int64_t tokens = 700, rows = 2, width = 3;
    std::vector<int32_t> ids(tokens, 8);
    ids[5] = 7;  // another rank's
    ids[9] = 9;  // the second row
    ids[20] = 10; // another rank's
    std::vector<uint16_t> gradient(static_cast<size_t>(tokens * width));
    std::vector<float> sums(static_cast<size_t>(rows * width), 3);
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<size_t>(i * width + j);
        gradient[at] = toBf16(static_cast<float>(j + 1) / 1024);
        const int64_t row = ids[static_cast<size_t>(i)] - 8;
        if (row == 0 || row == 1)
          sums[static_cast<size_t>(row * width + j)] += fromBf16(gradient[at]);
      }
    std::vector<uint16_t> want(sums.size());
    std::transform(sums.begin(), sums.end(), want.begin(), toBf16);
    Buffer<int32_t> bids(context, ids);
    Buffer<uint16_t> bgradient(context, gradient),
        table(context, std::vector<uint16_t>(sums.size(), toBf16(3)));
    sw_rt_embedding_bwd(&context, SW_RT_BF16, SW_RT_BF16, bids.data(), tokens,
                        bgradient.data(), 8, rows, width, table.data());
    CHECK(table.read() == want);
    CHECK(fromBf16(want[0]) > 3.6); // 3 + 697 / 1024
  });
}

TEST_CASE("products of bf16 sum in f32") {
  for (int64_t m : {8, 64, 200})
    for (int flags = 0; flags < 8; ++flags) {
      const int64_t n = 72, k = 328;
      const bool ta = flags & 1, tb = flags & 2, accumulate = flags & 4;
      const auto a = normals(static_cast<size_t>(m * k), "a"),
                 b = normals(static_cast<size_t>(k * n), "b"),
                 c = normals(static_cast<size_t>(m * n), "c");
      std::vector<double> want(c.size());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = accumulate ? c[static_cast<size_t>(i * n + j)] : 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a[static_cast<size_t>(ta ? l * m + i : i * k + l)] *
                   b[static_cast<size_t>(tb ? j * k + l : l * n + j)];
          want[static_cast<size_t>(i * n + j)] = sum;
        }
      alone([&](sw_rt_context &context) {
        Buffer<uint16_t> ba(context, bf16(a)), bb(context, bf16(b)),
            bc(context, bf16(c));
        Buffer<float> fc(context, std::vector<float>(c.begin(), c.end()));
        sw_rt_matmul(&context, SW_RT_BF16, SW_RT_BF16, ta, tb, m, n, k,
                     ba.data(), bb.data(), bc.data(), accumulate);
        sw_rt_matmul(&context, SW_RT_BF16, SW_RT_F32, ta, tb, m, n, k,
                     ba.data(), bb.data(), fc.data(), accumulate);
        // One rounding to 8 bits; 328 roundings of sums to 24.
        CHECK(distance(wide(bc.read()), want) < 0x1p-8);
        CHECK(distance(fc.read(), want) < 1e-5);
      });
    }
}

TEST_CASE("attention in bf16 is near that in f64") {
  struct Case {
    int64_t s, t, b, n, g, d, window;
    int causal;
  };
  for (const Case &x :
       {Case{128, 128, 2, 2, 1, 64, 0, 1}, Case{256, 256, 1, 2, 4, 128, 0, 1},
        Case{192, 192, 1, 3, 1, 64, 0, 0}, Case{256, 256, 1, 2, 2, 64, 100, 1},
        Case{96, 160, 1, 2, 2, 64, 0, 1}, Case{130, 130, 1, 1, 3, 40, 0, 1}}) {
    sw_rt_attention_shape shape{};
    shape.s = x.s;
    shape.t = x.t;
    shape.b = x.b;
    shape.n = x.n;
    shape.g = x.g;
    shape.d = x.d;
    shape.scale = 1 / std::sqrt(double(x.d));
    shape.causal = x.causal;
    shape.window = x.window;
    const size_t queries = static_cast<size_t>(x.s * x.b * x.n * x.g * x.d),
                 keys = static_cast<size_t>(x.t * x.b * x.n * x.d),
                 stats = queries / static_cast<size_t>(x.d);
    const auto q = normals(queries, "q"), k = normals(keys, "k"),
               v = normals(keys, "v"), gradO = normals(queries, "do");
    // The same device in f64, whose kernel is tested against the definition.
    std::vector<double> want[5], got[5];
    alone([&](sw_rt_context &context) {
      Buffer<double> bq(context, q), bk(context, k), bv(context, v),
          bdo(context, gradO), o(context, q),
          lse(context, std::vector<double>(stats)), dq(context, q),
          dk(context, k), dv(context, v);
      sw_rt_attention_fwd(&context, SW_RT_F64, &shape, bq.data(), bk.data(),
                          bv.data(), o.data(), lse.data());
      sw_rt_attention_bwd(&context, SW_RT_F64, &shape, bdo.data(), bq.data(),
                          bk.data(), bv.data(), o.data(), lse.data(), dq.data(),
                          dk.data(), dv.data());
      want[0] = o.read();
      want[1] = lse.read();
      want[2] = dq.read();
      want[3] = dk.read();
      want[4] = dv.read();
    });
    alone([&](sw_rt_context &context) {
      Buffer<uint16_t> bq(context, bf16(q)), bk(context, bf16(k)),
          bv(context, bf16(v)), bdo(context, bf16(gradO)), o(context, bf16(q)),
          dq(context, bf16(q)), dk(context, bf16(k)), dv(context, bf16(v));
      Buffer<float> lse(context, std::vector<float>(stats));
      sw_rt_attention_fwd(&context, SW_RT_BF16, &shape, bq.data(), bk.data(),
                          bv.data(), o.data(), lse.data());
      sw_rt_attention_bwd(&context, SW_RT_BF16, &shape, bdo.data(), bq.data(),
                          bk.data(), bv.data(), o.data(), lse.data(), dq.data(),
                          dk.data(), dv.data());
      got[0] = wide(o.read());
      got[1].assign(lse.read().begin(), lse.read().end());
      got[2] = wide(dq.read());
      got[3] = wide(dk.read());
      got[4] = wide(dv.read());
    });
    INFO("s " << x.s << " t " << x.t << " n " << x.n << " g " << x.g << " d "
              << x.d << " window " << x.window << " causal " << x.causal);
    // Weights and results are rounded to 8 bits.
    for (int i : {0, 2, 3, 4}) {
      INFO("result " << i);
      CHECK(distance(got[i], want[i]) < 0.02);
    }
    CHECK(distance(got[1], want[1]) < 1e-3);
  }
}
