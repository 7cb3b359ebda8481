//===- shardwright-opt.cpp - Pass driver for tests and compiler work ------===//
#include "compiler/Pipelines/Pipelines.h"
#include "dialects/Model/IR/ModelDialect.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, shardwright::model::ModelDialect,
                  shardwright::plan::PlanDialect, shardwright::rt::RtDialect,
                  shardwright::spmd::SpmdDialect>();
  shardwright::registerPasses();
  shardwright::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  return mlir::failed(
      mlir::MlirOptMain(argc, argv, "Shardwright pass driver\n", registry));
}
