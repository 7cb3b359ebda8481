//===- SpmdToRt.cpp - Allocated functions to runtime calls ----------------===//
#include "passes/Lower/FunctionLowering.h"
#include "passes/Lower/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace shardwright {
#define GEN_PASS_DEF_SPMDTORTPASS
#include "passes/Lower/Passes.h.inc"
} // namespace shardwright

using namespace mlir;

namespace {
struct SpmdToRtPass
    : public shardwright::impl::SpmdToRtPassBase<SpmdToRtPass> {
  LogicalResult run(ModuleOp module) override {
    auto kinds = llvm::to_vector(module.getOps<shardwright::model::KindOp>());
    OpBuilder before(module.getContext());
    if (kinds.empty())
      before.setInsertionPointToEnd(module.getBody());
    else
      before.setInsertionPoint(kinds.front());
    shardwright::KernelTable kernels(before);
    for (shardwright::model::KindOp kind : kinds) {
      OpBuilder builder(kind);
      builder.setInsertionPointAfter(kind); // behind the kernels
      shardwright::FunctionLowering lowering(kind, kernels);
      if (failed(lowering.run(builder)))
        return failure();
    }
    for (shardwright::model::KindOp kind : kinds)
      kind.erase();
    shardwright::setPhase(module, shardwright::IrPhase::Lowered);
    return success();
  }
};
} // namespace
