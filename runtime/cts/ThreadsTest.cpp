//===- ThreadsTest.cpp - Same bits with any number of threads -------------===//
#include "runtime/cts/Harness.h"
#include "runtime/src/Convert.h"
#include "runtime/src/compute/SumOfSquares.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace shardwright::runtime;

namespace {

constexpr int threadCounts[] = {1, 2, 3, 5};

void alone(const std::function<void(sw_rt_context &)> &body) {
  JobOptions options{Mesh({{"tp", 1}}), 60};
  CHECK(runOnThreads(options, [&](sw_rt_context &context) {
          body(context);
          return SW_RT_OK;
        }).status == SW_RT_OK);
}

template <typename T> std::vector<T> values(size_t count, int seed) {
  std::vector<T> result(count);
  uint32_t state = static_cast<uint32_t>(seed);
  for (T &value : result) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<T>(static_cast<int32_t>(state)) / T(1 << 30);
  }
  return result;
}

template <typename T> sw_rt_dtype dtypeOf();
template <> sw_rt_dtype dtypeOf<float>() { return SW_RT_F32; }
template <> sw_rt_dtype dtypeOf<double>() { return SW_RT_F64; }

/// A matmul has the bits that it has on one thread.
template <typename T>
void checkMatmul(sw_rt_context &context, int64_t m, int64_t n, int64_t k) {
  const auto a = values<T>(static_cast<size_t>(m * k), 1),
             b = values<T>(static_cast<size_t>(k * n), 2),
             c = values<T>(static_cast<size_t>(m * n), 3);
  for (int flags = 0; flags < 8; ++flags) {
    std::vector<T> expected;
    for (int threads : threadCounts) {
      context.pool.resize(threads);
      std::vector<T> result = c;
      sw_rt_matmul(&context, dtypeOf<T>(), dtypeOf<T>(), flags & 1,
                   flags >> 1 & 1, m, n, k, a.data(), b.data(), result.data(),
                   flags >> 2);
      if (threads == 1)
        expected = result;
      INFO(m << " x " << n << " x " << k << ", flags " << flags << ", "
             << threads << " threads, " << sizeof(T) << " bytes");
      CHECK(std::memcmp(result.data(), expected.data(),
                        result.size() * sizeof(T)) == 0);
    }
  }
}

} // namespace

TEST_CASE("every piece runs once, whoever takes it") {
  for (int threads : threadCounts) {
    WorkerPool pool;
    pool.resize(threads);
    CHECK(pool.threads() == threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      for (int repeat = 0; repeat < 100; ++repeat) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
        std::atomic<bool> knowsWorkers{true};
        pool.run(count, [&](int64_t index, int worker) {
          ++runs[static_cast<size_t>(index)];
          if (worker < 0 || worker >= threads)
            knowsWorkers = false;
        });
        CHECK(knowsWorkers);
        CHECK(std::all_of(runs.begin(), runs.end(),
                          [](const std::atomic<int> &n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("matmuls have the same bits with any number of threads") {
  alone([](sw_rt_context &context) {
    checkMatmul<float>(context, 300, 200, 700);
    checkMatmul<float>(context, 517, 1031, 129);
    checkMatmul<float>(context, 1031, 130, 517);
    checkMatmul<float>(context, 1, 3000, 2000);
    checkMatmul<double>(context, 300, 200, 700);
    checkMatmul<double>(context, 131, 519, 515);
  });
}

TEST_CASE("sums of squares have the same bits with any number of threads") {
  const auto narrow = values<float>(300001, 4);
  const auto wide = values<double>(300001, 5);
  std::vector<uint16_t> half(narrow.size());
  std::transform(narrow.begin(), narrow.end(), half.begin(), toBf16);
  double expected[3] = {};
  for (int threads : threadCounts) {
    WorkerPool pool;
    pool.resize(threads);
    const double sums[3] = {sumOfSquares(pool, narrow.data(), 300001),
                            sumOfSquares(pool, wide.data(), 300001),
                            sumOfSquares(pool, half.data(), 300001)};
    if (threads == 1) {
      std::memcpy(expected, sums, sizeof(sums));
      const double plain =
          std::inner_product(wide.begin(), wide.end(), wide.begin(), 0.0);
      CHECK(sums[1] == Approx(plain).epsilon(1e-12));
      double ofHalves = 0;
      for (uint16_t value : half)
        ofHalves += static_cast<double>(fromBf16(value)) * fromBf16(value);
      CHECK(sums[2] == Approx(ofHalves).epsilon(1e-12));
    }
    CHECK(std::memcmp(sums, expected, sizeof(sums)) == 0);
    CHECK(sumOfSquares(pool, narrow.data(), 0) == 0);
    CHECK(sumOfSquares(pool, wide.data(), 3) ==
          wide[0] * wide[0] + wide[1] * wide[1] + wide[2] * wide[2]);
  }
}

TEST_CASE("ranges of a generated function cover its extent") {
  alone([](sw_rt_context &context) {
    for (int threads : threadCounts) {
      context.pool.resize(threads);
      for (int64_t extent : {0, 1, 16, 17, 1000}) {
        std::vector<int32_t> runs(static_cast<size_t>(extent));
        void *arguments[] = {runs.data()};
        sw_rt_parallel(
            &context,
            [](void *const *pointers, int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                ++static_cast<int32_t *>(pointers[0])[i];
            },
            arguments, extent, 16);
        CHECK(std::all_of(runs.begin(), runs.end(),
                          [](int32_t n) { return n == 1; }));
      }
    }
  });
}
