//===- RowEmitterTest.cpp - Every row op against plain loops --------------===//
//
// The references are plain f64 loops over the formulas of RowProgram.h. f64
// kernels must agree to 1e-12 of the largest element (sums are reassociated,
// libmvec is good to 4 ulp), f32 kernels to 1e-5.
//
//===----------------------------------------------------------------------===//
#include "DeviceRun.h"
#include "RowRun.h"

#include "compiler/Codegen/RowEmitter.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <random>

using namespace shardwright::codegen;

namespace {

/// Awkward sizes: one element, less than a vector, vectors with a remainder,
/// row counts that are no multiple of the four rows that sums take together.
struct Size {
  int64_t outer, inner, width;
};
/// The last: many blocks of a GPU, sums over rows in parts.
constexpr Size kSizes[] = {
    {1, 1, 1}, {3, 2, 7}, {5, 3, 65}, {2, 4, 132}, {67, 2, 300}};
constexpr Element kElements[] = {Element::F64, Element::F32};

std::vector<double> randoms(size_t count, unsigned seed, double low = -2,
                            double high = 2) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> result(count);
  for (double &value : result)
    value = static_cast<float>(draw(engine)); // exact in f32 and f64
  return result;
}

/// A program of one op whose buffers are its operands, then its results.
RowRun oneOp(Element element, Size size, RowOp op,
             const std::vector<int64_t> &bufferElements) {
  RowRun run;
  run.program = {"kernel", element, size.outer, size.inner,
                 static_cast<int>(bufferElements.size()),
                 {}};
  op.width = size.width;
  run.program.ops.push_back(op);
  for (size_t i = 0; i < bufferElements.size(); ++i)
    run.buffers.push_back(
        randoms(bufferElements[i], static_cast<unsigned>(i + 1)));
  return run;
}

/// Compares every buffer with what a reference made of the inputs. What is
/// stored as bf16 was rounded once or, in a group of ops, some times.
void compareBuffers(const RowRun &run, const Buffers &expected,
                    const Buffers &actual) {
  for (size_t b = 0; b < expected.size(); ++b) {
    if (run.labels.count(static_cast<int>(b)))
      continue;
    const bool isNarrow =
        run.program.stored(static_cast<int>(b)) == Element::BF16;
    const double tolerance = isNarrow ? 0x1p-8
                             : run.program.element == Element::F64 ? 1e-12
                                                                   : 1e-5;
    double largest = 1e-3;
    for (double value : expected[b])
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    REQUIRE(actual[b].size() == expected[b].size());
    size_t worst = 0, unequal = 0;
    double distance = 0;
    for (size_t i = 0; i < expected[b].size(); ++i) {
      const double here = std::isfinite(expected[b][i])
                              ? std::fabs(actual[b][i] - expected[b][i])
                          : actual[b][i] == expected[b][i] ? 0
                                                           : INFINITY;
      unequal += !(here <= tolerance * largest); // NaN too
      if (!(here <= distance)) {
        worst = i;
        distance = here;
      }
    }
    INFO("buffer " << b << " of outer " << run.program.outer << " inner "
                   << run.program.inner << " width "
                   << run.program.ops[0].width << ": worst at " << worst
                   << ", " << actual[b][worst] << " for "
                   << expected[b][worst]);
    REQUIRE(unequal == 0);
  }
}

/// Compares device code, which must give the same bits with its threads in any
/// order.
void compareDevice(const RowRun &run, const Buffers &expected) {
  const std::vector<Buffers> actual = executeOnDevice(run);
  compareBuffers(run, expected, actual[0]);
  for (const Buffers &other : actual)
    REQUIRE(other == actual[0]);
}

/// Compares a run of the whole program, one of its units in ranges, and its
/// device code.
void compareAll(const RowRun &run,
                const std::function<void(Buffers &)> &reference) {
  Buffers expected = run.buffers;
  reference(expected);
  compareBuffers(run, expected, execute(run));
  const int64_t extent = rowUnits(run.program).extent;
  if (extent > 0 && run.program.storage.empty())
    compareBuffers(run, expected,
                   executeInRanges(run, std::max<int64_t>(1, extent / 3)));
  if (run.program.element == Element::F32) // the arithmetic of devices
    compareDevice(run, expected);
}

/// To bf16, ties to even, by the value: the spacing of numbers of x's exponent.
double toBf16(double x) {
  if (x == 0 || !std::isfinite(x))
    return x;
  const double spacing = std::ldexp(1, std::ilogb(x) - 7);
  return std::nearbyint(x / spacing) * spacing;
}

/// As the run says; if that is f32, with all buffers in bf16 too.
void compare(const RowRun &run,
             const std::function<void(Buffers &)> &reference) {
  compareAll(run, reference);
  if (run.program.element != Element::F32 || !run.program.storage.empty())
    return;
  RowRun narrow = run;
  narrow.program.storage.assign(run.program.buffers, Element::BF16);
  for (std::vector<double> &buffer : narrow.buffers)
    for (double &value : buffer)
      value = toBf16(value);
  compareAll(narrow, reference);
}

TEST_CASE("programs are cut into ranges that are worth a thread") {
  RowOp add{RowOpKind::Add, {0, 1}, {2}}, sum{RowOpKind::ColumnSum, {0}, {1}},
      loss{RowOpKind::TokenLoss, {0, 1, 2}, {3}},
      positions{RowOpKind::AddPositionsGrad, {0}, {1}};
  add.width = sum.width = positions.width = 4096;
  auto units = [](std::vector<RowOp> ops) {
    return rowUnits({"program", Element::F32, 256, 2, 8, std::move(ops)});
  };
  CHECK(units({add}).extent == 256);
  CHECK(units({add}).grain == 4); // 4 positions of 2 x 4096
  CHECK(units({add, add}).grain == 2);
  CHECK(units({sum}).extent == 4096);
  CHECK(units({sum}).grain == 64); // columns of 512 rows
  CHECK_FALSE(units({add, sum}).areWorthThreads());
  CHECK_FALSE(units({loss}).areWorthThreads());
  CHECK_FALSE(units({positions}).areWorthThreads());
  positions.accumulate = true;
  CHECK(units({positions}).grain == 4);
  add.width = 16;
  CHECK_FALSE(units({add}).areWorthThreads());
}

template <typename Body> void forSizes(Body body) {
  for (Element element : kElements)
    for (Size size : kSizes)
      body(element, size, size.outer * size.inner);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

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
  std::vector<Buffers> results = executeOnDevice(run);
  results.push_back(execute(run));
  for (const Buffers &result : results) {
    CHECK(result[2][0] == 1);
    CHECK(result[2][1] == 1 + 0x1p-6);
    CHECK(result[2][2] == 1 + 0x1p-7);
    CHECK(result[2][3] == INFINITY);
    CHECK(std::isnan(result[2][4]));
    CHECK(result[2][5] == -INFINITY);
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

TEST_CASE("rms_norm, its gradient and the gradient of its weight") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t w = size.width, all = rows * w;
    RowOp op{RowOpKind::RmsNorm, {0, 1}, {2, 3}};
    op.eps = 1e-5;
    // Weights 1 + w equal weights w that are larger by 1.
    RowOp offset = op;
    offset.unitOffset = true;
    RowRun plain = oneOp(element, size, op, {all, w, all, rows}),
           shifted = oneOp(element, size, offset, {all, w, all, rows});
    for (double &weight : plain.buffers[1])
      weight += 1;
    CHECK(execute(shifted)[2] == execute(plain)[2]);
    compare(oneOp(element, size, op, {all, w, all, rows}), [&](Buffers &b) {
      for (int64_t r = 0; r < rows; ++r) {
        double square = 0;
        for (int64_t c = 0; c < w; ++c)
          square += b[0][r * w + c] * b[0][r * w + c];
        b[3][r] = 1 / std::sqrt(square / w + 1e-5);
        for (int64_t c = 0; c < w; ++c)
          b[2][r * w + c] = b[0][r * w + c] * b[3][r] * b[1][c];
      }
    });
    compare(oneOp(element, size, {RowOpKind::RmsNormGrad, {0, 1, 2, 3}, {4}},
                  {all, all, w, rows, all}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r) {
                double mean = 0;
                for (int64_t c = 0; c < w; ++c)
                  mean += b[0][r * w + c] * b[2][c] * b[1][r * w + c] / w;
                for (int64_t c = 0; c < w; ++c)
                  b[4][r * w + c] =
                      b[3][r] * (b[0][r * w + c] * b[2][c] -
                                 b[1][r * w + c] * b[3][r] * b[3][r] * mean);
              }
            });
    for (bool accumulate : {false, true}) {
      RowOp grad{RowOpKind::RmsNormWeightGrad, {0, 1, 2}, {3}};
      grad.accumulate = accumulate;
      compare(oneOp(element, size, grad, {all, all, rows, w}),
              [&](Buffers &b) {
                if (!accumulate)
                  b[3].assign(w, 0);
                for (int64_t r = 0; r < rows; ++r)
                  for (int64_t c = 0; c < w; ++c)
                    b[3][c] +=
                        b[0][r * w + c] * b[1][r * w + c] * b[2][r];
              });
    }
  });
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

TEST_CASE("layer_norm, its gradient and the gradient of its weight") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t w = size.width, all = rows * w;
    RowOp op{RowOpKind::LayerNorm, {0, 1, 2}, {3, 4, 5}};
    op.eps = 1e-5;
    compare(oneOp(element, size, op, {all, w, w, all, rows, rows}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r) {
                double mean = 0, variance = 0;
                for (int64_t c = 0; c < w; ++c)
                  mean += b[0][r * w + c] / w;
                for (int64_t c = 0; c < w; ++c)
                  variance += std::pow(b[0][r * w + c] - mean, 2) / w;
                b[4][r] = mean;
                b[5][r] = 1 / std::sqrt(variance + 1e-5);
                // One column: the variance is rounding noise around 0.
                for (int64_t c = 0; c < w; ++c)
                  b[3][r * w + c] =
                      (b[0][r * w + c] - mean) * b[5][r] * b[1][c] + b[2][c];
              }
            });
    compare(oneOp(element, size,
                  {RowOpKind::LayerNormGrad, {0, 1, 2, 3, 4}, {5}},
                  {all, all, w, rows, rows, all}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r) {
                double meanG = 0, meanGn = 0;
                for (int64_t c = 0; c < w; ++c) {
                  const double g = b[0][r * w + c] * b[2][c];
                  meanG += g / w;
                  meanGn += g * (b[1][r * w + c] - b[3][r]) * b[4][r] / w;
                }
                for (int64_t c = 0; c < w; ++c)
                  b[5][r * w + c] =
                      b[4][r] * (b[0][r * w + c] * b[2][c] - meanG -
                                 (b[1][r * w + c] - b[3][r]) * b[4][r] *
                                     meanGn);
              }
            });
    for (bool accumulate : {false, true}) {
      RowOp grad{RowOpKind::LayerNormWeightGrad, {0, 1, 2, 3}, {4}};
      grad.accumulate = accumulate;
      compare(oneOp(element, size, grad, {all, all, rows, rows, w}),
              [&](Buffers &b) {
                if (!accumulate)
                  b[4].assign(w, 0);
                for (int64_t r = 0; r < rows; ++r)
                  for (int64_t c = 0; c < w; ++c)
                    b[4][c] += b[0][r * w + c] *
                               (b[1][r * w + c] - b[2][r]) * b[3][r];
              });
    }
  });
}

TEST_CASE("column_sum sums rows into columns") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t w = size.width;
    for (bool accumulate : {false, true}) {
      RowOp op{RowOpKind::ColumnSum, {0}, {1}};
      op.accumulate = accumulate;
      compare(oneOp(element, size, op, {rows * w, w}), [&](Buffers &b) {
        if (!accumulate)
          b[1].assign(w, 0);
        for (int64_t i = 0; i < rows * w; ++i)
          b[1][i % w] += b[0][i];
      });
    }
  });
}

TEST_CASE("cross entropy ops see only this rank's unpadded columns") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t w = size.width, all = rows * w;
    // A rank in the middle, the rank with the padding, a rank of padding only.
    for (auto [origin, valid] :
         {std::pair<int64_t, int64_t>{0, w + 9}, {10, 10 + w / 2 + 1}, {50, 20}}) {
      const int64_t here = std::max<int64_t>(0, std::min(w, valid - origin));
      std::vector<int32_t> labels;
      for (int64_t r = 0; r < rows; ++r) // some here, some on other ranks
        labels.push_back(static_cast<int32_t>((origin + 3 * r + w - 2) % valid));
      auto labelHere = [&](int64_t r) { return labels[r] - origin; };
      auto has = [&](int64_t r) { return labelHere(r) >= 0 && labelHere(r) < w; };

      RowOp op{RowOpKind::MaxLogit, {0}, {1}};
      op.validColumns = valid;
      RowRun run = oneOp(element, size, op, {all, rows});
      run.columnOrigin = origin;
      compare(run, [&](Buffers &b) {
        for (int64_t r = 0; r < rows; ++r) {
          b[1][r] = -INFINITY;
          for (int64_t c = 0; c < here; ++c)
            b[1][r] = std::max(b[1][r], b[0][r * w + c]);
        }
      });

      op.kind = RowOpKind::SumExp;
      op.operands = {0, 1};
      op.results = {2};
      run = oneOp(element, size, op, {all, rows, rows});
      run.columnOrigin = origin;
      compare(run, [&](Buffers &b) {
        for (int64_t r = 0; r < rows; ++r) {
          b[2][r] = 0;
          for (int64_t c = 0; c < here; ++c)
            b[2][r] += std::exp(b[0][r * w + c] - b[1][r]);
        }
      });

      op.kind = RowOpKind::TargetLogit;
      run = oneOp(element, size, op, {all, 0, rows});
      run.columnOrigin = origin;
      run.labels[1] = labels;
      compare(run, [&](Buffers &b) {
        for (int64_t r = 0; r < rows; ++r)
          b[2][r] = has(r) ? b[0][r * w + labelHere(r)] : 0;
      });

      op.kind = RowOpKind::SoftmaxGrad;
      op.operands = {0, 1, 2, 3};
      op.results = {4};
      op.scale = 0.125;
      run = oneOp(element, size, op, {all, rows, rows, 0, all});
      run.buffers[2] = randoms(rows, 9, 0.5, 3);
      run.columnOrigin = origin;
      run.labels[3] = labels;
      compare(run, [&](Buffers &b) {
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < w; ++c)
            b[4][r * w + c] =
                c < here ? 0.125 * std::exp(b[0][r * w + c] - b[1][r]) / b[2][r]
                         : 0;
          if (has(r))
            b[4][r * w + labelHere(r)] -= 0.125;
        }
      });
    }
  });
}

TEST_CASE("max_logit of a row with NaN is NaN") {
  RowOp op{RowOpKind::MaxLogit, {0}, {1}};
  op.validColumns = 100;
  RowRun run = oneOp(Element::F32, {1, 1, 40}, op, {40, 1});
  run.buffers[0][17] = NAN;
  CHECK(std::isnan(execute(run)[1][0]));
}

TEST_CASE("token_loss sums over rows and adds to the loss") {
  forSizes([](Element element, Size size, int64_t rows) {
    RowOp op{RowOpKind::TokenLoss, {0, 1, 2}, {3}};
    op.scale = 0.25;
    op.accumulate = true;
    RowRun run = oneOp(element, size, op, {rows, rows, rows, 1});
    run.buffers[1] = randoms(rows, 4, 0.5, 9);
    compare(run, [&](Buffers &b) {
      for (int64_t r = 0; r < rows; ++r)
        b[3][0] += 0.25 * (std::log(b[1][r]) + b[0][r] - b[2][r]);
    });
  });
}

TEST_CASE("the AdamW update, with and without decay") {
  for (Element element : kElements)
    for (int64_t count : {0, 1, 5, 67, 1024})
      for (double decay : {0.0, 0.1}) {
        Buffers buffers;
        for (unsigned i = 0; i < 5; ++i)
          buffers.push_back(randoms(count, i + 1));
        buffers[2] = randoms(count, 3, 0, 2); // v is a mean of squares
        const std::vector<double> s{0.01, 0.9, 0.95, 1e-8, decay,
                                    0.5,  0.1, 0.05};
        const UpdateTypes types{element, element, element};
        const double tolerance = element == Element::F64 ? 1e-13 : 1e-5;
        std::vector<Buffers> results = {executeUpdate(types, buffers, s)};
        if (element == Element::F32) {
          results.push_back(executeUpdateOnDevice(types, buffers, s));
          results.push_back(executeUpdate({element, element, Element::BF16},
                                          buffers, s));
          results.push_back(executeUpdateOnDevice(
              {element, element, Element::BF16}, buffers, s));
        }
        for (int64_t i = 0; i < count; ++i) {
          const double g = buffers[3][i] * s[5];
          const double m = s[1] * buffers[1][i] + (1 - s[1]) * g;
          const double v = s[2] * buffers[2][i] + (1 - s[2]) * g * g;
          const double master =
              buffers[0][i] -
              s[0] * ((m / s[6]) / (std::sqrt(v / s[7]) + s[3]) +
                      s[4] * buffers[0][i]);
          for (size_t run = 0; run < results.size(); ++run) {
            const Buffers &actual = results[run];
            const bool isNarrow = run >= 2;
            CHECK(actual[1][i] == Approx(m).margin(tolerance));
            CHECK(actual[2][i] == Approx(v).margin(tolerance));
            CHECK(actual[0][i] == Approx(master).margin(tolerance));
            CHECK(actual[4][i] ==
                  (isNarrow ? toBf16(actual[0][i]) : actual[0][i]));
            CHECK(actual[3][i] == buffers[3][i]);
          }
        }
      }
}

// A norm, then the residual add of its result, then the bias gradient of that:
// rows are shared by the first two, the sum over rows comes after them.
TEST_CASE("a group runs its ops in order in one row loop") {
  RowRun run;
  const int64_t outer = 3, inner = 2, w = 9, rows = 6;
  RowOp norm{RowOpKind::RmsNorm, {0, 1}, {2, 3}};
  norm.width = w;
  norm.eps = 1e-6;
  RowOp add{RowOpKind::Add, {2, 0}, {4}};
  add.width = w;
  RowOp sum{RowOpKind::ColumnSum, {4}, {5}};
  sum.width = w;
  run.program = {"group", Element::F64, outer, inner, 6, {norm, add, sum}};
  run.buffers = {randoms(rows * w, 1), randoms(w, 2),
                 randoms(rows * w, 3), randoms(rows, 4),
                 randoms(rows * w, 5), randoms(w, 6)};
  compare(run, [&](Buffers &b) {
    b[5].assign(w, 0);
    for (int64_t r = 0; r < rows; ++r) {
      double square = 0;
      for (int64_t c = 0; c < w; ++c)
        square += b[0][r * w + c] * b[0][r * w + c];
      b[3][r] = 1 / std::sqrt(square / w + 1e-6);
      for (int64_t c = 0; c < w; ++c) {
        b[2][r * w + c] = b[0][r * w + c] * b[3][r] * b[1][c];
        b[4][r * w + c] = b[2][r * w + c] + b[0][r * w + c];
        b[5][c] += b[4][r * w + c];
      }
    }
  });
}

TEST_CASE("every row op is vectorized, with vector exp, log and erf") {
  struct Wanted {
    RowOp op;
    const char *text;
    int buffers;
  };
  RowOp erf{RowOpKind::Gelu, {0}, {1}}, rope{RowOpKind::Rope, {0}, {1}},
      maximum{RowOpKind::MaxLogit, {0}, {1}},
      softmax{RowOpKind::SoftmaxGrad, {0, 1, 2, 3}, {4}},
      sum{RowOpKind::SumExp, {0, 1}, {2}};
  rope.headDim = 64;
  rope.inverseFrequencies.assign(32, 0.5);
  maximum.validColumns = softmax.validColumns = sum.validColumns = 1 << 20;
  const Wanted wanted[] = {
      {{RowOpKind::Add, {0, 1}, {2}}, "fadd contract <8 x float>", 3},
      {{RowOpKind::BiasAdd, {0, 1}, {2}}, "fadd contract <8 x float>", 3},
      {{RowOpKind::Swiglu, {0, 1}, {2}}, "@_ZGVdN8v_expf(<8 x float>", 3},
      {{RowOpKind::SwigluGrad, {0, 1, 2}, {3, 4}}, "@_ZGVdN8v_expf(", 5},
      {erf, "@_ZGVdN8v_erff(<8 x float>", 2},
      {rope, "<8 x float>", 2},
      {rope, "@_ZGVdN4v_cos(", 2},
      {{RowOpKind::RmsNorm, {0, 1}, {2, 3}}, "vector.reduce.fadd", 4},
      {{RowOpKind::RmsNormGrad, {0, 1, 2, 3}, {4}}, "vector.reduce.fadd", 5},
      {{RowOpKind::LayerNorm, {0, 1, 2}, {3, 4, 5}}, "vector.reduce.fadd", 6},
      {{RowOpKind::LayerNormGrad, {0, 1, 2, 3, 4}, {5}},
       "vector.reduce.fadd", 6},
      {maximum, "vector.reduce.fmaximum", 2},
      {sum, "@_ZGVdN8v_expf(", 3},
      {softmax, "@_ZGVdN8v_expf(", 5},
      {{RowOpKind::TokenLoss, {0, 1, 2}, {3}}, "@_ZGVdN8v_logf(", 4},
      {{RowOpKind::ColumnSum, {0}, {1}}, "fadd contract <8 x float>", 2},
      {{RowOpKind::RmsNormWeightGrad, {0, 1, 2}, {3}},
       "fmul contract <8 x float>", 4},
      {{RowOpKind::LayerNormWeightGrad, {0, 1, 2, 3}, {4}},
       "fmul contract <8 x float>", 5},
  };
  for (const Wanted &row : wanted) {
    RowProgram program{"kernel", Element::F32, 64, 2, row.buffers, {row.op}};
    program.ops[0].width = 4096;
    INFO("kind " << static_cast<int>(row.op.kind) << " wants " << row.text);
    CHECK(optimizedText(program).find(row.text) != std::string::npos);
  }
}
