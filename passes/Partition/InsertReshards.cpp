#include "passes/Partition/Passes.h"
#include "passes/Plan/Encodings.h"
#include "passes/Plan/PlannedModule.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "passes/Partition/Passes.h.inc"

namespace {

/// Materializes the reshards that the plan lists for the values of `op`.
LogicalResult insertReshards(model::KindOp op, const cost::Plan &plan,
                             const PlannedKindFunction &found) {
  SmallVector<Value> values = programValues(op);
  SmallVector<Operation *> ops = computeOps(op);
  const cost::PlannedFunction &planned = *found.planned;
  if (values.size() != planned.values.size() ||
      ops.size() != planned.ops.size())
    return op.emitOpError()
           << "expected " << planned.values.size() << " values and "
           << planned.ops.size() << " ops as in the program, but got "
           << values.size() << " and " << ops.size();
  model::ReturnOp end = op.getReturn();
  OpBuilder builder(op);
  for (auto [value, valuePlan] : llvm::zip_equal(values, planned.values)) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<Value> numbered{value};
    for (auto [step, before] :
         llvm::zip_equal(valuePlan.reshards.steps, valuePlan.before)) {
      builder.setInsertionPoint(before < static_cast<int>(ops.size())
                                    ? ops[before]
                                    : end.getOperation());
      auto result = RankedTensorType::get(
          type.getShape(), type.getElementType(),
          shardingAttr(op.getContext(), plan, step.result));
      numbered.push_back(plan::ReshardOp::create(
          builder, value.getLoc(), result, numbered[step.source],
          static_cast<plan::Collective>(step.collective),
          axisNames(op.getContext(), plan, step.axes), step.dim));
    }
    for (const auto &use : valuePlan.uses)
      (use.op < 0 ? end.getOperation() : ops[use.op])
          ->setOperand(use.operand, numbered[use.served]);
  }
  op.setFunctionType(FunctionType::get(op.getContext(), op.getArgumentTypes(),
                                       end.getOperandTypes()));
  return success();
}

class InsertReshardsPass
    : public impl::InsertReshardsPassBase<InsertReshardsPass> {
public:
  using InsertReshardsPassBase::InsertReshardsPassBase;

  LogicalResult run(ModuleOp module) override {
    PlannedModule planned;
    if (failed(readPlannedModule(module, planned)))
      return failure();
    for (auto op : module.getOps<model::KindOp>()) {
      PlannedKindFunction found;
      lookUp(planned, op, found);
      if (failed(insertReshards(op, planned.plan, found)))
        return failure();
    }
    return success();
  }
};

} // namespace
} // namespace shardwright
