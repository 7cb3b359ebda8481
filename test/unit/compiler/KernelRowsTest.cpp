//===- KernelRowsTest.cpp - Reading rt.kernel as rows ---------------------===//
#include "compiler/Codegen/KernelRows.h"
#include "dialects/Model/IR/ModelOps.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace shardwright;
using namespace shardwright::codegen;

namespace {

/// A kernel, what it was read as, and the errors of reading it.
struct Read {
  explicit Read(const std::string &text)
      : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<model::ModelDialect, rt::RtDialect>();
    mlir::ScopedDiagnosticHandler handler(
        &context, [&](mlir::Diagnostic &diagnostic) {
          error += diagnostic.str() + "\n";
        });
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    INFO(error);
    REQUIRE(module);
    auto kernels = llvm::to_vector(module->getOps<rt::KernelOp>());
    REQUIRE(kernels.size() == 1);
    rows = readKernel(kernels[0]);
  }
  const RowOp &op(size_t number) { return rows->program.ops[number]; }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::FailureOr<KernelRows> rows = mlir::failure();
  std::string error;
};

} // namespace

TEST_CASE("arguments come before results, in order of the yield") {
  Read read(R"(
rt.kernel @k(%x: tensor<6x2x10xf32>, %w: tensor<10xf32>)
    -> (tensor<6x2x10xf32>, tensor<6x2xf32>, tensor<10xf32> {rt.accumulate}) {
  %y, %r = model.rms_norm %x, %w in stream {letters = "sbh", eps = 2.0e-5 : f64}
      : (tensor<6x2x10xf32>, tensor<10xf32>) -> (tensor<6x2x10xf32>, tensor<6x2xf32>)
  %d = model.rms_norm_weight_grad %y, %x, %r in stream {letters = "sbh"}
      : (tensor<6x2x10xf32>, tensor<6x2x10xf32>, tensor<6x2xf32>) -> tensor<10xf32>
  rt.yield %y, %r, %d : tensor<6x2x10xf32>, tensor<6x2xf32>, tensor<10xf32>
})");
  INFO(read.error);
  REQUIRE(mlir::succeeded(read.rows));
  const RowProgram &program = read.rows->program;
  CHECK(program.name == "k");
  CHECK(program.element == Element::F32);
  CHECK((program.outer == 6 && program.inner == 2 && program.buffers == 5));
  CHECK(read.op(0).kind == RowOpKind::RmsNorm);
  CHECK(read.op(0).operands == std::vector<int>{0, 1});
  CHECK(read.op(0).results == std::vector<int>{2, 3});
  CHECK(read.op(0).width == 10);
  CHECK(read.op(0).eps == 2e-5);
  CHECK_FALSE(read.op(0).accumulate);
  CHECK(read.op(1).operands == std::vector<int>{2, 0, 3});
  CHECK(read.op(1).results == std::vector<int>{4});
  CHECK(read.op(1).accumulate);
}

TEST_CASE("heads of a rotary embedding lie in one row; positions have an origin") {
  Read read(R"(
rt.kernel @k(%x: tensor<6x2x3x4x8xf64>) -> tensor<6x2x3x4x8xf64> {
  %y = model.rope %x in attention {letters = "sbngd", theta = 100.0 : f64, inverse = true, plan.axes = {s = ["tp"]},
      scaling = {rope_type = "linear", factor = 4.0 : f64}} : (tensor<6x2x3x4x8xf64>) -> tensor<6x2x3x4x8xf64>
  rt.yield %y : tensor<6x2x3x4x8xf64>
})");
  INFO(read.error);
  REQUIRE(mlir::succeeded(read.rows));
  CHECK(read.op(0).width == 96);
  CHECK(read.op(0).headDim == 8);
  CHECK(read.op(0).inverse);
  // theta^(-2/8) / 4 of pair 1.
  CHECK(read.op(0).inverseFrequencies[1] == Approx(std::pow(100, -0.25) / 4));
  CHECK(read.rows->position.extent == 6);
  REQUIRE(read.rows->position.axes);
  CHECK(read.rows->position.axes.size() == 1);
  CHECK(read.rows->column.extent == 0);
}

TEST_CASE("tensors without rows are one row") {
  Read read(R"(
rt.kernel @k(%x: tensor<3x4x5xf32>, %y: tensor<3x4x5xf32>) -> (tensor<3x4x5xf32> {rt.accumulate}) {
  %z = model.add %x, %y in mlp {letters = "ndh"} : (tensor<3x4x5xf32>, tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  rt.yield %z : tensor<3x4x5xf32>
})");
  INFO(read.error);
  REQUIRE(mlir::succeeded(read.rows));
  CHECK((read.rows->program.outer == 1 && read.rows->program.inner == 1));
  CHECK(read.op(0).width == 60);
  CHECK(read.op(0).accumulate);
}

TEST_CASE("the loss is a sum over rows, logits have an origin of columns") {
  Read read(R"(
rt.kernel @k(%l: tensor<6x2x32xf32>, %m: tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<f32> {rt.accumulate}) {
  %s = model.sum_exp %l, %m in loss {valid_vocab = 50 : i64, plan.axes = {v = ["tp"]}}
      : (tensor<6x2x32xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  %t = model.token_loss %m, %s, %m in loss {scale = 0.25 : f64}
      : (tensor<6x2xf32>, tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<f32>
  rt.yield %s, %t : tensor<6x2xf32>, tensor<f32>
})");
  INFO(read.error);
  REQUIRE(mlir::succeeded(read.rows));
  CHECK(read.op(0).validColumns == 50);
  CHECK(read.op(0).width == 32);
  CHECK(read.rows->column.extent == 32);
  CHECK(read.op(1).kind == RowOpKind::TokenLoss);
  CHECK(read.op(1).scale == 0.25);
  CHECK((read.rows->program.outer == 6 && read.rows->program.inner == 2));
}

TEST_CASE("ops over different rows cannot share a kernel") {
  Read read(R"(
rt.kernel @k(%x: tensor<6x2x10xf32>, %y: tensor<3x4x10xf32>) -> (tensor<6x2x10xf32>, tensor<3x4x10xf32>) {
  %a = model.add %x, %x in stream {letters = "sbh"} : (tensor<6x2x10xf32>, tensor<6x2x10xf32>) -> tensor<6x2x10xf32>
  %b = model.add %y, %y in stream {letters = "sbh"} : (tensor<3x4x10xf32>, tensor<3x4x10xf32>) -> tensor<3x4x10xf32>
  rt.yield %a, %b : tensor<6x2x10xf32>, tensor<3x4x10xf32>
})");
  CHECK(mlir::failed(read.rows));
  CHECK(read.error.find("expected 6 x 2 rows as the ops before it in its "
                        "kernel, but got 3 x 4") != std::string::npos);
}

TEST_CASE("a result that stays in a kernel has no buffer") {
  Read read(R"(
rt.kernel @k(%x: tensor<6x2x10xf32>) -> tensor<6x2x10xf32> {
  %a = model.add %x, %x in stream {letters = "sbh"} : (tensor<6x2x10xf32>, tensor<6x2x10xf32>) -> tensor<6x2x10xf32>
  %b = model.add %a, %x in stream {letters = "sbh"} : (tensor<6x2x10xf32>, tensor<6x2x10xf32>) -> tensor<6x2x10xf32>
  rt.yield %b : tensor<6x2x10xf32>
})");
  CHECK(mlir::failed(read.rows));
  CHECK(read.error.find("expected every result to leave the kernel") !=
        std::string::npos);
}

TEST_CASE("buffers store what their tensors say") {
  Read read(R"(
rt.kernel @k(%x: tensor<6x2x10xbf16>, %w: tensor<10xbf16>) -> (tensor<6x2x10xbf16>, tensor<6x2xf32>) {
  %a, %r = model.rms_norm %x, %w in stream {eps = 1.0e-5 : f64, letters = "sbh"} : (tensor<6x2x10xbf16>, tensor<10xbf16>) -> (tensor<6x2x10xbf16>, tensor<6x2xf32>)
  rt.yield %a, %r : tensor<6x2x10xbf16>, tensor<6x2xf32>
})");
  REQUIRE(mlir::succeeded(read.rows));
  const RowProgram &program = read.rows->program;
  CHECK(program.element == Element::F32);
  CHECK(program.storage == std::vector<Element>{Element::BF16, Element::BF16,
                                                Element::BF16, Element::F32});
}

TEST_CASE("kernels of other elements are refused") {
  auto refused = [](const char *type, const char *text) {
    const std::string t = std::string("tensor<6x2x10x") + type + ">",
                      f64 = "tensor<6x2x10xf64>";
    Read read("rt.kernel @k(%x: " + t + ") -> " + t + " {\n  %a = model.add %x, " +
              "%x in stream {letters = \"sbh\"} : (" + t + ", " + t + ") -> " + t +
              "\n  rt.yield %a : " + t + "\n}");
    CHECK(mlir::failed(read.rows));
    INFO(read.error);
    CHECK(read.error.find(text) != std::string::npos);
  };
  refused("f16", "expected elements of type f32, f64 or bf16, but got 'f16'");
}
