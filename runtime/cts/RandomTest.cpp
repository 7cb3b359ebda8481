//===- RandomTest.cpp - Known answers of the random numbers ---------------===//
#include "runtime/src/train/Philox.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::runtime;
using Words = std::array<uint32_t, 4>;

// Vectors of Random123's kat_vectors, philox4x32 10.
TEST_CASE("Philox4x32-10 known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox({f, f, f, f}, {f, f}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
               {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// Published test values of FNV-1a 64: "" and "a" and "foobar".
TEST_CASE("FNV-1a known answers") {
  CHECK(fnv1a("") == 0xcbf29ce484222325u);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8cu);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8u);
}

// Values that AS 241 gives for its own check: PPND16(0.25), (0.001), (1e-20).
TEST_CASE("inverse of the normal distribution") {
  CHECK(inverseNormal(0.5) == 0);
  CHECK(inverseNormal(0.25) == Approx(-0.6744897501960817).epsilon(1e-15));
  CHECK(inverseNormal(0.001) == Approx(-3.090232306167814).epsilon(1e-15));
  CHECK(inverseNormal(1e-20) == Approx(-9.262340089798408).epsilon(1e-15));
  for (double p : {1e-9, 0.01, 0.07, 0.3, 0.5, 0.9, 0.99999})
    CHECK(0.5 * std::erfc(-inverseNormal(p) / std::sqrt(2.0)) ==
          Approx(p).epsilon(1e-13));
}

TEST_CASE("draws depend on seed, name and index only") {
  const NamedRandom a(1, "w"), b(1, "v"), c(2, "w"), again(1, "w");
  CHECK(a.bits(5) == again.bits(5));
  CHECK(a.bits(5) != b.bits(5));
  CHECK(a.bits(5) != c.bits(5));
  CHECK(a.bits(5) != a.bits(uint64_t(5) << 32));
  double sum = 0, squares = 0;
  const int count = 100000;
  for (int i = 0; i < count; ++i) {
    const double u = a.uniform(static_cast<uint64_t>(i));
    CHECK((u > 0 && u < 1));
    const double x = a.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  CHECK(std::fabs(sum / count) < 0.015); // 4.7 standard errors
  CHECK(std::fabs(squares / count - 1) < 0.02);
}
