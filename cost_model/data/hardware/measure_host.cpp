//===- measure_host.cpp - The figures of host.json ------------------------===//
//
//   g++ -O3 -march=native measure_host.cpp -lopenblas
//   OPENBLAS_NUM_THREADS=1 ./a.out
//
// Best of eight: matrix products by OpenBLAS on one core (GF/s), and the rate
// at which one core streams memory (GB/s, read plus written).
//
//===----------------------------------------------------------------------===//
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

template <typename Body> static double bestSeconds(Body body) {
  double best = 1e30;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const auto end = std::chrono::steady_clock::now();
    best = std::min(best, std::chrono::duration<double>(end - begin).count());
  }
  return best;
}

int main() {
  for (int n : {64, 128, 256, 512, 1024, 2048}) {
    const size_t size = static_cast<size_t>(n) * n;
    std::vector<float> a(size, 1), b(size, 1), c(size);
    std::vector<double> x(size, 1), y(size, 1), z(size);
    const double flops = 2.0 * n * n * n;
    const double single = bestSeconds([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1,
                  a.data(), n, b.data(), n, 0, c.data(), n);
    });
    const double twice = bestSeconds([&] {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1,
                  x.data(), n, y.data(), n, 0, z.data(), n);
    });
    std::printf("gemm n=%-5d f32 %6.1f  f64 %6.1f GF/s\n", n,
                flops / single / 1e9, flops / twice / 1e9);
  }
  const size_t count = size_t(1) << 26;
  std::vector<float> x(count, 1), y(count, 2), z(count);
  const double add = bestSeconds([&] {
    for (size_t i = 0; i < count; ++i)
      z[i] = x[i] + y[i];
  });
  const double copy = bestSeconds(
      [&] { std::memcpy(z.data(), x.data(), count * sizeof(float)); });
  std::printf("add %.1f  copy %.1f GB/s (%g)\n", 12.0 * count / add / 1e9,
              8.0 * count / copy / 1e9, z[count / 2]);
}
