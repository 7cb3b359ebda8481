//===- RowReductionsTest.cpp - Folds of and over rows ---------------------===//
#include "RowCompare.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::codegen;

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
    const std::vector<RowResult> wanted = runAll(plain), got = runAll(shifted);
    for (size_t way = 0; way < wanted.size(); ++way)
      CHECK(got[way].buffers[2] == wanted[way].buffers[2]);
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

// A row of three times as many columns, of which this rank has the first: sums
// of the others arrive with sum and dot.
TEST_CASE("parts of an RMS norm whose rows lie on several ranks") {
  forSizes([](Element element, Size size, int64_t rows) {
    const int64_t w = size.width, all = rows * w, count = 3 * w;
    auto total = [w](const Buffers &b, int64_t r, auto term) {
      double sum = 0;
      for (int64_t c = 0; c < w; ++c)
        sum += term(b, r * w + c, c);
      return sum;
    };
    compare(oneOp(element, size, {RowOpKind::SquareSum, {0}, {1}}, {all, rows}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r)
                b[1][r] = total(b, r, [](const Buffers &x, int64_t i, int64_t) {
                  return x[0][i] * x[0][i];
                });
            });
    RowOp apply{RowOpKind::RmsApply, {0, 1, 2}, {3, 4}};
    apply.eps = 1e-5;
    apply.count = count;
    RowRun run = oneOp(element, size, apply, {all, w, rows, all, rows});
    for (double &sum : run.buffers[2])
      sum = 2 + std::abs(sum);
    compare(run, [&](Buffers &b) {
      for (int64_t r = 0; r < rows; ++r) {
        b[4][r] = 1 / std::sqrt(b[2][r] / count + 1e-5);
        for (int64_t c = 0; c < w; ++c)
          b[3][r * w + c] = b[0][r * w + c] * b[4][r] * b[1][c];
      }
    });
    compare(oneOp(element, size, {RowOpKind::RowDot, {0, 1, 2}, {3}},
                  {all, all, w, rows}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r)
                b[3][r] =
                    total(b, r, [](const Buffers &x, int64_t i, int64_t c) {
                      return x[0][i] * x[2][c] * x[1][i];
                    });
            });
    RowOp grad{RowOpKind::RmsApplyGrad, {0, 1, 2, 3, 4}, {5}};
    grad.count = count;
    compare(oneOp(element, size, grad, {all, all, w, rows, rows, all}),
            [&](Buffers &b) {
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < w; ++c)
                  b[5][r * w + c] =
                      b[3][r] * (b[0][r * w + c] * b[2][c] -
                                 b[1][r * w + c] * b[3][r] * b[3][r] *
                                     b[4][r] / count);
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
  for (const RowResult &result : runAll(run)) {
    INFO(result.how);
    CHECK(std::isnan(result.buffers[1][0]));
  }
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
