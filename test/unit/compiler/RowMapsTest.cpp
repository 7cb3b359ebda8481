//===- RowMapsTest.cpp - Elementwise row ops against plain loops ----------===//
#include "RowCompare.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::codegen;

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("add adds, and accumulates when told") {
  forSizes([](Element element, Size size, int64_t rows) {
    for (bool accumulate : {false, true}) {
      const int64_t all = rows * size.width;
      RowOp op{RowOpKind::Add, {0, 1}, {2}};
      op.accumulate = accumulate;
      compare(oneOp(element, size, op, {all, all, all}), [&](Buffers &b) {
        for (int64_t i = 0; i < all; ++i)
          b[2][i] = (accumulate ? b[2][i] : 0) + b[0][i] + b[1][i];
      });
    }
  });
}

// By hand: 1 + 2^-8 lies half-way between 1 and 1 + 2^-7 and goes to the even
// 1; 1 + 3 * 2^-8 half-way between 1 + 2^-7 and 1 + 2^-6, and goes to 1 + 2^-6.
TEST_CASE("results are rounded to bf16 once, to nearest, ties to even") {
  RowRun run = oneOp(Element::F32, {1, 1, 6}, {RowOpKind::Add, {0, 1}, {2}},
                     {6, 6, 6});
  run.program.storage = {Element::F32, Element::BF16, Element::BF16};
  run.buffers[0] = {0x1p-8, 0x3p-8, 0x1.0002p-8, 3e38, NAN, -INFINITY};
  run.buffers[1] = {1, 1, 1, 0x1.fep127, 1, 1};
  for (const RowResult &result : runAll(run)) {
    INFO(result.how);
    const std::vector<double> &sum = result.buffers[2];
    CHECK(sum[0] == 1);
    CHECK(sum[1] == 1 + 0x1p-6);
    CHECK(sum[2] == 1 + 0x1p-7);
    CHECK(sum[3] == INFINITY);
    CHECK(std::isnan(sum[4]));
    CHECK(sum[5] == -INFINITY);
  }
}

TEST_CASE("bias_add adds one vector to every row") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width;
    compare(oneOp(element, size, {RowOpKind::BiasAdd, {0, 1}, {2}},
                  {all, size.width, all}),
            [&](Buffers &b) {
              for (int64_t i = 0; i < all; ++i)
                b[2][i] = b[0][i] + b[1][i % size.width];
            });
  });
}

TEST_CASE("swiglu and its gradient") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width;
    compare(oneOp(element, size, {RowOpKind::Swiglu, {0, 1}, {2}},
                  {all, all, all}),
            [&](Buffers &b) {
              for (int64_t i = 0; i < all; ++i)
                b[2][i] = b[0][i] * sigmoid(b[0][i]) * b[1][i];
            });
    compare(oneOp(element, size, {RowOpKind::SwigluGrad, {0, 1, 2}, {3, 4}},
                  {all, all, all, all, all}),
            [&](Buffers &b) {
              for (int64_t i = 0; i < all; ++i) {
                const double s = sigmoid(b[1][i]);
                b[3][i] = b[0][i] * b[2][i] * s * (1 + b[1][i] * (1 - s));
                b[4][i] = b[0][i] * b[1][i] * s;
              }
            });
  });
}

TEST_CASE("swiglu of huge gates has no NaN") {
  for (Element element : kElements) {
    RowRun run = oneOp(element, {1, 1, 4},
                       {RowOpKind::SwigluGrad, {0, 1, 2}, {3, 4}},
                       {4, 4, 4, 4, 4});
    run.buffers[0] = {1, 1, 1, 1};
    run.buffers[1] = {-1e4, 1e4, -100, 100};
    run.buffers[2] = {2, 2, 2, 2};
    compare(run, [](Buffers &b) {
      b[3] = {0, 2, 0, 2};
      b[4] = {0, 1e4, 0, 100};
    });
  }
}

TEST_CASE("gelu and its gradient, both forms") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width;
    const double root = std::sqrt(2 / M_PI);
    for (bool approximate : {false, true}) {
      RowOp op{RowOpKind::Gelu, {0}, {1}};
      op.approximate = approximate;
      compare(oneOp(element, size, op, {all, all}), [&](Buffers &b) {
        for (int64_t i = 0; i < all; ++i) {
          const double x = b[0][i];
          b[1][i] = approximate
                        ? x / 2 * (1 + std::tanh(root * (x + 0.044715 * x * x * x)))
                        : x / 2 * (1 + std::erf(x / std::sqrt(2)));
        }
      });
      RowOp grad{RowOpKind::GeluGrad, {0, 1}, {2}};
      grad.approximate = approximate;
      compare(oneOp(element, size, grad, {all, all, all}), [&](Buffers &b) {
        for (int64_t i = 0; i < all; ++i) {
          const double x = b[1][i];
          const double t = std::tanh(root * (x + 0.044715 * x * x * x));
          const double slope =
              approximate
                  ? (1 + t) / 2 + x / 2 * (1 - t * t) * root *
                                      (1 + 3 * 0.044715 * x * x)
                  : (1 + std::erf(x / std::sqrt(2))) / 2 +
                        x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
          b[2][i] = b[0][i] * slope;
        }
      });
    }
  });
}

TEST_CASE("relu, scale, softcap and their gradients; fill") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width;
    auto check = [&](RowOpKind kind, int operands,
                     const std::function<double(double, double)> &f) {
      RowOp op{kind, {}, {operands}};
      for (int i = 0; i < operands; ++i)
        op.operands.push_back(i);
      op.scale = 1.5;
      compare(oneOp(element, size, op,
                    std::vector<int64_t>(operands + 1, all)),
              [&](Buffers &b) {
                for (int64_t i = 0; i < all; ++i)
                  b[operands][i] = f(operands > 0 ? b[0][i] : 0,
                                     operands > 1 ? b[1][i] : 0);
              });
    };
    check(RowOpKind::Relu, 1, [](double x, double) { return x > 0 ? x : 0; });
    check(RowOpKind::ReluGrad, 2,
          [](double dy, double y) { return y > 0 ? dy : 0; });
    check(RowOpKind::Scale, 1, [](double x, double) { return 1.5 * x; });
    check(RowOpKind::Softcap, 1,
          [](double x, double) { return 1.5 * std::tanh(x / 1.5); });
    check(RowOpKind::SoftcapGrad, 2, [](double dy, double y) {
      return dy * (1 - (y / 1.5) * (y / 1.5));
    });
    check(RowOpKind::Fill, 0, [](double, double) { return 1.5; });
  });
}

TEST_CASE("rope of a part of a head, in pairs of neighbours") {
  for (Element element : kElements) {
    const Size size{5, 2, 3 * 10};
    const int64_t all = 10 * size.width;
    RowOp op{RowOpKind::Rope, {0}, {1}};
    op.headDim = 10;
    op.interleaved = true;
    op.inverseFrequencies = ropeInverseFrequencies(10000, 4, {});
    compare(oneOp(element, size, op, {all, all}), [&](Buffers &b) {
      b[1] = b[0];
      for (int64_t head = 0; head < all / 10; ++head)
        for (int64_t i = 0; i < 2; ++i) {
          const double angle = static_cast<double>(head / 6) *
                               std::pow(10000, -2.0 * i / 4);
          const int64_t low = head * 10 + 2 * i;
          b[1][low] = b[0][low] * std::cos(angle) -
                      b[0][low + 1] * std::sin(angle);
          b[1][low + 1] = b[0][low + 1] * std::cos(angle) +
                          b[0][low] * std::sin(angle);
        }
    });
  }
}

TEST_CASE("add_positions reads the table at origin + s, its gradient adds there") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width, table = (size.outer + 5) * size.width;
    RowRun run = oneOp(element, size, {RowOpKind::AddPositions, {0, 1}, {2}},
                       {all, table, all});
    run.positionOrigin = 3;
    compare(run, [&](Buffers &b) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < size.width; ++c)
          b[2][r * size.width + c] =
              b[0][r * size.width + c] +
              b[1][(3 + r / size.inner) * size.width + c];
    });
    for (bool accumulate : {false, true}) {
      RowOp op{RowOpKind::AddPositionsGrad, {0}, {1}};
      op.accumulate = accumulate;
      op.tableRows = size.outer + 5;
      RowRun grad = oneOp(element, size, op, {all, table});
      grad.positionOrigin = 3;
      compare(grad, [&](Buffers &b) {
        if (!accumulate)
          b[1].assign(b[1].size(), 0);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < size.width; ++c)
            b[1][(3 + r / size.inner) * size.width + c] +=
                b[0][r * size.width + c];
      });
    }
  });
}

TEST_CASE("rope rotates column i with column i + d/2, and back") {
  for (Element element : kElements)
    for (int64_t headDim : {2, 6, 32})
      for (bool inverse : {false, true}) {
        const Size size{5, 2, 3 * headDim};
        const int64_t rows = 10, all = rows * size.width;
        RowOp op{RowOpKind::Rope, {0}, {1}};
        op.headDim = headDim;
        op.inverse = inverse;
        op.inverseFrequencies = ropeInverseFrequencies(10000, headDim, {});
        RowRun run = oneOp(element, size, op, {all, all});
        run.positionOrigin = 70;
        compare(run, [&](Buffers &b) {
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t head = 0; head < 3; ++head)
              for (int64_t i = 0; i < headDim / 2; ++i) {
                const double angle = static_cast<double>(70 + r / size.inner) *
                                     std::pow(10000, -2.0 * i / headDim) *
                                     (inverse ? -1 : 1);
                const int64_t low = r * size.width + head * headDim + i;
                const int64_t high = low + headDim / 2;
                b[1][low] = b[0][low] * std::cos(angle) -
                            b[0][high] * std::sin(angle);
                b[1][high] = b[0][high] * std::cos(angle) +
                             b[0][low] * std::sin(angle);
              }
        });
      }
}

// By hand: theta 10000, d 4: frequencies 1 and 0.01, wavelengths 6.28 and 628.
// Original 1000, low 1, high 4: below 250 stays, above 1000 is divided; 628 is
// blended with smooth = (1000/628.3185 - 1) / 3 = 0.197183.
TEST_CASE("rotary frequencies are scaled as Hugging Face does") {
  CHECK(ropeInverseFrequencies(10000, 4, {}) == std::vector<double>{1, 0.01});
  RopeScaling linear{RopeScaling::Kind::Linear, 4};
  CHECK(ropeInverseFrequencies(10000, 4, linear)[1] == Approx(0.0025));
  RopeScaling llama{RopeScaling::Kind::Llama3, 8, 1, 4, 1000};
  const auto frequencies = ropeInverseFrequencies(10000, 4, llama);
  CHECK(frequencies[0] == 1);
  CHECK(frequencies[1] ==
        Approx((1 - 0.197183) * 0.01 / 8 + 0.197183 * 0.01).epsilon(1e-5));
  llama.originalMaxPositions = 600;
  CHECK(ropeInverseFrequencies(10000, 4, llama)[1] == Approx(0.01 / 8));
  // Without a band between them (Llama 4), at the wavelength of the step.
  llama.highFreqFactor = 1;
  llama.originalMaxPositions = 2 * M_PI / ropeInverseFrequencies(10000, 4, {})[1];
  CHECK(ropeInverseFrequencies(10000, 4, llama) ==
        std::vector<double>{1, 0.01 / 8});
}

// By hand: theta 10000, d 8, frequencies 1, 0.1, 0.01, 0.001; 1000 positions.
// 32 turns: 8 ln(1000 / (32 * 2 pi)) / (2 ln 10000) = 0.697 -> 0; one turn:
// 8 ln(1000 / (2 pi)) / (2 ln 10000) = 2.202 -> 3. So pair i keeps 1 - i / 3 of
// its frequency, and a quarter of the rest.
TEST_CASE("rotary frequencies of yarn and of longrope") {
  RopeScaling yarn{RopeScaling::Kind::Yarn, 4, 1, 4, 1000};
  const auto scaled = ropeInverseFrequencies(10000, 8, yarn);
  CHECK(scaled[0] == Approx(1));
  CHECK(scaled[1] == Approx(0.1 * (2 / 3. + 1 / 12.)));
  CHECK(scaled[2] == Approx(0.01 * (1 / 3. + 1 / 6.)));
  CHECK(scaled[3] == Approx(0.001 / 4));
  RopeScaling longer{RopeScaling::Kind::Long};
  longer.factors = {1, 5};
  CHECK(ropeInverseFrequencies(10000, 4, longer) ==
        std::vector<double>{1, 0.01 / 5});
}

TEST_CASE("values are clipped on both sides, gradients outside are 0") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t all = rows * size.width;
    RowOp clip{RowOpKind::Clip, {0}, {1}}, grad{RowOpKind::ClipGrad, {0, 1}, {2}};
    clip.scale = grad.scale = 0.25;
    compare(oneOp(element, size, clip, {all, all}), [&](Buffers &b) {
      for (int64_t i = 0; i < all; ++i)
        b[1][i] = std::min(std::max(b[0][i], -0.25), 0.25);
    });
    compare(oneOp(element, size, grad, {all, all, all}), [&](Buffers &b) {
      for (int64_t i = 0; i < all; ++i)
        b[2][i] = std::abs(b[1][i]) <= 0.25 ? b[0][i] : 0;
    });
  });
}
