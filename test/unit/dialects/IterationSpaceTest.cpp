//===- IterationSpaceTest.cpp - What every model op says it computes ------===//
//
// The ops are those of test/Dialect/Model/ops.mlir, where every op stands; the
// table below is written from the mathematics, not from the code.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanDialect.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <map>

using namespace shardwright;

namespace {

/// kernel | factor kinds and sizes | precision of results | linear operands.
std::string text(const cost::IterationSpace &space) {
  std::string out(name(space.kernel));
  out += " |";
  for (const cost::Factor &factor : space.factors) {
    out += ' ';
    out += factor.letter;
    switch (factor.kind) {
    case cost::FactorKind::Parallel:
      out += ":";
      break;
    case cost::FactorKind::Sum:
      out += "+";
      break;
    case cost::FactorKind::Max:
      out += "^";
      break;
    case cost::FactorKind::Full:
      out += "!";
      break;
    }
    out += std::to_string(factor.size);
  }
  out += " |";
  for (cost::Precision precision : space.resultPrecision)
    out.append(" ").append(name(precision));
  out += " | ";
  for (bool linear : space.linear)
    out += linear ? "L" : "-";
  return out;
}

/// Letters of the operands and results, from the dim maps.
std::string maps(const cost::IterationSpace &space) {
  auto letters = [&](const std::vector<std::vector<int>> &values) {
    std::string out;
    for (const std::vector<int> &value : values) {
      if (&value != &values.front())
        out += ",";
      for (int factor : value)
        out += space.factors[factor].letter;
    }
    return out;
  };
  return letters(space.operands) + "->" + letters(space.results);
}

struct Module {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The first op of each name.
  std::map<std::string, cost::IterationSpace> spaces;

  Module() {
    context.loadDialect<model::ModelDialect, plan::PlanDialect>();
    module =
        mlir::parseSourceFile<mlir::ModuleOp>(SHARDWRIGHT_MODEL_OPS, &context);
    REQUIRE(module);
    module->walk([&](model::IterationSpaceOpInterface op) {
      std::string opName = op->getName().stripDialect().str();
      spaces.try_emplace(opName, op.getIterationSpace());
    });
  }
};

struct Row {
  const char *op, *space, *maps;
};

const Row kRows[] = {
    {"contract", "gemm | s:8 b:1 h+16 n:2 g:3 d:4 | compute | L-",
     "sbh,ngdh->sbngd"},
    {"add", "elementwise | s:8 b:1 h:16 | compute | LL", "sbh,sbh->sbh"},
    {"bias_add", "elementwise | s:8 b:1 n:2 g:3 d:4 | compute | --",
     "sbngd,ngd->sbngd"},
    {"column_sum", "column_sum | s+8 b+1 h:16 | grad | L", "sbh->h"},
    {"rms_norm", "row_norm | s:8 b:1 h!16 | compute stat | --",
     "sbh,h->sbh,sb"},
    {"rms_norm_grad", "row_norm | s:8 b:1 h!16 | compute | L---",
     "sbh,sbh,h,sb->sbh"},
    {"rms_norm_weight_grad", "column_sum | s+8 b+1 h:16 | grad | L--",
     "sbh,sbh,sb->h"},
    {"square_sum", "row_norm | s:8 b:1 n+2 d+4 | stat | -", "sbnd->sb"},
    {"rms_apply", "elementwise | s:8 b:1 n:2 d:4 | compute stat | ---",
     "sbnd,nd,sb->sbnd,sb"},
    {"row_dot", "row_norm | s:8 b:1 n+2 d+4 | stat | ---", "sbnd,sbnd,nd->sb"},
    {"rms_apply_grad", "elementwise | s:8 b:1 n:2 d:4 | compute | -----",
     "sbnd,sbnd,nd,sb,sb->sbnd"},
    {"layer_norm", "row_norm | s:8 b:1 h!16 | compute stat stat | ---",
     "sbh,h,h->sbh,sb,sb"},
    {"layer_norm_grad", "row_norm | s:8 b:1 h!16 | compute | L----",
     "sbh,sbh,h,sb,sb->sbh"},
    {"layer_norm_weight_grad", "column_sum | s+8 b+1 h:16 | grad | L---",
     "sbh,sbh,sb,sb->h"},
    {"rope", "elementwise | s:8 b:1 n:2 g:3 d!4 | compute | L", "sbngd->sbngd"},
    {"scale_positions", "elementwise | s:8 b:1 n:2 g:3 d:4 | compute | L",
     "sbngd->sbngd"},
    {"attention", "attention | s:8 b:1 n:2 g:3 d!4 t!8 | compute stat | ---",
     "sbngd,tbnd,tbnd->sbngd,sbng"},
    {"attention_grad",
     "attention_grad | s!8 b:1 n:2 g+3 d!4 t!8 | compute compute compute | "
     "------",
     "sbngd,sbngd,tbnd,tbnd,sbngd,sbng->sbngd,tbnd,tbnd"},
    {"swiglu", "elementwise | s:8 b:1 f:32 | compute | --", "sbf,sbf->sbf"},
    {"swiglu_grad", "elementwise | s:8 b:1 f:32 | compute compute | ---",
     "sbf,sbf,sbf->sbf,sbf"},
    {"gelu", "elementwise | s:8 b:1 f:32 | compute | -", "sbf->sbf"},
    {"gelu_grad", "elementwise | s:8 b:1 f:32 | compute | --", "sbf,sbf->sbf"},
    {"relu", "elementwise | s:8 b:1 f:32 | compute | -", "sbf->sbf"},
    {"relu_grad", "elementwise | s:8 b:1 f:32 | compute | --", "sbf,sbf->sbf"},
    {"scale", "elementwise | s:8 b:1 f:32 | compute | L", "sbf->sbf"},
    {"softcap", "elementwise | s:8 b:1 f:32 | compute | -", "sbf->sbf"},
    {"softcap_grad", "elementwise | s:8 b:1 f:32 | compute | --",
     "sbf,sbf->sbf"},
    {"fill", "elementwise | n:2 d:4 | compute | ", "->nd"},
    {"adamw", "optimizer | e:256 | master master master param | ----",
     "e,e,e,e->e,e,e,e"},
    {"embedding", "gather | s:8 b:1 v+64 h:16 | compute | --", "sb,vh->sbh"},
    {"embedding_grad", "scatter | s+8 b+1 h:16 v:64 | grad | -L", "sb,sbh->vh"},
    {"add_positions", "elementwise | s:8 b:1 h:16 p!12 | compute | --",
     "sbh,ph->sbh"},
    {"add_positions_grad", "column_sum | s+8 b+1 h:16 p!12 | grad | L",
     "sbh->ph"},
    {"max_logit", "cross_entropy | s:8 b:1 v^64 | stat | -", "sbv->sb"},
    {"sum_exp", "cross_entropy | s:8 b:1 v+64 | stat | --", "sbv,sb->sb"},
    {"target_logit", "cross_entropy | s:8 b:1 v+64 | stat | --", "sbv,sb->sb"},
    {"token_loss", "cross_entropy | s+8 b+1 | stat | ---", "sb,sb,sb->"},
    {"softmax_grad", "cross_entropy | s:8 b:1 v:64 | compute | ----",
     "sbv,sb,sb,sb->sbv"},
};

} // namespace

TEST_CASE("every op states its iteration space") {
  Module ops;
  for (const Row &row : kRows) {
    INFO(row.op);
    REQUIRE(ops.spaces.count(row.op) == 1);
    CHECK(text(ops.spaces[row.op]) == row.space);
    CHECK(maps(ops.spaces[row.op]) == row.maps);
  }
  CHECK(ops.spaces.size() == std::size(kRows));
}

TEST_CASE("a causal op counts the pairs on and below the diagonal") {
  Module ops;
  CHECK(ops.spaces["attention"].causal);
  CHECK(ops.spaces["attention_grad"].causal);
  CHECK(ops.spaces["attention"].window == 0);
  // 4 * b*n*g*d * s(s+1)/2 = 4 * 24 * 36.
  CHECK(flopsOf(ops.spaces["attention"]).count() == 3456);
  CHECK(flopsOf(ops.spaces["attention_grad"]).count() == 8640);
  // 2 * 8*1*16*24.
  CHECK(flopsOf(ops.spaces["contract"]).count() == 6144);
}

TEST_CASE("a segment is spelled alike in IR and cost model") {
  for (int i = 0; i <= 6; ++i) {
    auto segment = static_cast<model::Segment>(i);
    CHECK(stringifySegment(segment).str() ==
          std::string(cost::name(model::costSegment(segment))));
  }
}
