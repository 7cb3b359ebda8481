//===- RowEmitterTest.cpp - Groups, ranges, the update, vectorization -----===//
#include "RowCompare.h"

#include "compiler/Codegen/RowEmitter.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::codegen;

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
      {{RowOpKind::SquareSum, {0}, {1}}, "vector.reduce.fadd", 2},
      {{RowOpKind::RmsApply, {0, 1, 2}, {3, 4}}, "fmul contract <8 x float>", 5},
      {{RowOpKind::RowDot, {0, 1, 2}, {3}}, "vector.reduce.fadd", 4},
      {{RowOpKind::RmsApplyGrad, {0, 1, 2, 3, 4}, {5}},
       "fmul contract <8 x float>", 6},
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
