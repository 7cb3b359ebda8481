//===- RowUpdateTest.cpp - The AdamW update against its formula -----------===//
#include "RowCompare.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::codegen;

TEST_CASE("the AdamW update, with and without decay") {
  const UpdateTypes all[] = {
      {Element::F64, Element::F64, Element::F64},
      {Element::F32, Element::F32, Element::F32},
      {Element::F32, Element::F32, Element::BF16},
      {Element::F32, Element::BF16, Element::BF16}};
  for (const UpdateTypes &types : all)
    for (int64_t count : {0, 1, 5, 67, 1024})
      for (double decay : {0.0, 0.1}) {
        Buffers buffers;
        for (unsigned i = 0; i < 5; ++i)
          buffers.push_back(randoms(count, i + 1));
        buffers[2] = randoms(count, 3, 0, 2); // v is a mean of squares
        if (types.gradient == Element::BF16)
          for (double &value : buffers[3])
            value = toBf16(value);
        const std::vector<double> s{0.01, 0.9, 0.95, 1e-8, decay,
                                    0.5,  0.1, 0.05};
        const double tolerance = types.master == Element::F64 ? 1e-13 : 1e-5;
        const std::vector<RowResult> results = runUpdates(types, buffers, s);
        for (int64_t i = 0; i < count; ++i) {
          const double g = buffers[3][i] * s[5];
          const double m = s[1] * buffers[1][i] + (1 - s[1]) * g;
          const double v = s[2] * buffers[2][i] + (1 - s[2]) * g * g;
          const double master =
              buffers[0][i] -
              s[0] * ((m / s[6]) / (std::sqrt(v / s[7]) + s[3]) +
                      s[4] * buffers[0][i]);
          for (const auto &[how, actual] : results) {
            INFO(how);
            CHECK(actual[1][i] == Approx(m).margin(tolerance));
            CHECK(actual[2][i] == Approx(v).margin(tolerance));
            CHECK(actual[0][i] == Approx(master).margin(tolerance));
            CHECK(actual[4][i] == (types.parameter == Element::BF16
                                       ? toBf16(actual[0][i])
                                       : actual[0][i]));
            CHECK(actual[3][i] == buffers[3][i]);
          }
        }
      }
}
