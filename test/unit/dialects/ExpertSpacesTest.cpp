//===- ExpertSpacesTest.cpp - Spaces of routed experts and latents --------===//
//
// The ops of test/Dialect/Model/experts.mlir; the table is written from the
// mathematics, as that of IterationSpaceTest.cpp.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanDialect.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <map>

using namespace shardwright;

namespace {

/// kernel | factors (: parallel, + sum, ! whole) | precision | linear operands.
std::string text(const cost::IterationSpace &space) {
  std::string out = std::string(name(space.kernel)) + " |";
  for (const cost::Factor &factor : space.factors) {
    const char *mark = factor.kind == cost::FactorKind::Parallel ? ":"
                       : factor.kind == cost::FactorKind::Sum    ? "+"
                                                                 : "!";
    out +=
        std::string(" ") + factor.letter + mark + std::to_string(factor.size);
  }
  out += " |";
  for (cost::Precision precision : space.resultPrecision)
    out += " " + std::string(name(precision));
  out += " | ";
  for (bool linear : space.linear)
    out += linear ? "L" : "-";
  return out;
}

struct Row {
  const char *op;
  const char *space;
};
constexpr Row rows[] = {
    {"route", "row_norm | s+8 b:1 x!6 k!2 | stat index stat | --"},
    {"route_grad", "row_norm | s:8 b:1 k!2 x!6 | compute | ----"},
    {"dispatch", "permute | s:8 b:1 h:16 k:2 c:16 | compute | L-"},
    {"combine", "permute | c:16 h:16 s:8 b:1 k:2 | compute | L-"},
    {"select_rows", "permute | s:8 b:1 k:2 c:16 | stat | L-"},
    {"row_order", "permute | c:16 | index index | -"},
    {"permute_rows", "permute | c:16 h:16 | compute | L-"},
    {"grouped_contract", "grouped_gemm | c:16 h+16 x:6 m:12 | compute | L--"},
    {"expert_bias", "elementwise | c:16 m:12 x:6 | compute | ---"},
    {"expert_bias_grad", "column_sum | c+16 m:12 x:6 | grad | ---"},
    {"expert_bias_weight_grad", "row_norm | c:16 m+12 x:6 | stat | ---"},
    {"weighted_swiglu", "elementwise | c:16 m:12 | compute | ---"},
    {"weighted_swiglu_grad",
     "elementwise | c:16 m+12 | compute compute stat | ----"},
    {"sigmoid_gate", "elementwise | s:8 b:1 h:16 | compute | --"},
    {"sigmoid_gate_grad", "elementwise | s:8 b:1 h!16 | compute compute | ---"},
    {"latent_attention",
     "attention | s:8 b:1 n:2 g:1 o!4 r!6 t!8 w!5 | compute stat | -----"},
    {"latent_attention_grad",
     "attention_grad | s!8 b:1 n+2 g+1 w!5 o!4 r!6 t!8 | compute compute "
     "compute compute compute | --------"},
    {"next_tokens", "elementwise | s!8 b:1 | index | -"},
    {"sink_attention",
     "attention | s:8 b:1 n:2 g:3 d!4 t!8 | compute stat | ----"},
    {"sink_grad", "column_sum | s+8 b+1 n:2 g:3 d+4 | grad | ----"},
    {"clip", "elementwise | s:8 b:1 n:2 d:4 | compute | -"},
    {"clip_grad", "elementwise | s:8 b:1 n:2 d:4 | compute | --"},
};

} // namespace

TEST_CASE("every op of experts and latents states its iteration space") {
  mlir::MLIRContext context;
  context.loadDialect<model::ModelDialect, plan::PlanDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(
      SHARDWRIGHT_MODEL_EXPERT_OPS, &context);
  REQUIRE(module);
  std::map<std::string, cost::IterationSpace> spaces;
  cost::IterationSpace weightGrad;
  module->walk([&](model::IterationSpaceOpInterface op) {
    cost::IterationSpace space = op.getIterationSpace();
    spaces.try_emplace(op->getName().stripDialect().str(), space);
    if (space.kernel == cost::KernelClass::GroupedGemm &&
        space.results[0].size() == 3)
      weightGrad = space;
  });
  for (const Row &row : rows) {
    INFO(row.op);
    REQUIRE(spaces.count(row.op) == 1);
    CHECK(text(spaces[row.op]) == row.space);
  }
  CHECK(spaces.size() == std::size(rows));
  // The gradient of the matrices: rows are summed, experts stay apart.
  CHECK(text(weightGrad) == "grouped_gemm | c+16 h:16 m:12 x:6 | grad | L--");
  // 2 * 16 rows * 16 * 12, whichever expert has them.
  CHECK(flopsOf(spaces["grouped_contract"]).count() == 6144);
  CHECK(flopsOf(weightGrad).count() == 6144);
  // 36 pairs, 2 heads: 2 * (10 + 5) and 2 * (3 * 10 + 2 * 5) each.
  CHECK(flopsOf(spaces["latent_attention"]).count() == 36 * 2 * 30);
  CHECK(flopsOf(spaces["latent_attention_grad"]).count() == 36 * 2 * 80);
}
