#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanOps.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Partition/Passes.h"
#include "passes/Plan/PlannedModule.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/Partition/Passes.h.inc"

namespace {

/// Type of one rank's part, without encoding; null, with an error, if the type
/// has no sharding or an axis does not divide its dim.
RankedTensorType localType(Location loc, Type type, plan::MeshAttr mesh) {
  plan::ShardingAttr sharding = plan::ShardingAttr::of(type);
  if (!sharding) {
    emitError(loc) << "expected a tensor type with #plan.sh, but got " << type;
    return {};
  }
  auto global = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(global.getShape());
  for (auto [extent, axes] : llvm::zip_equal(shape, sharding.getDims())) {
    int64_t shards = mesh.degree(axes);
    if (shards < 1 || extent % shards != 0) {
      emitError(loc) << "expected every dim of " << type
                     << " to be divisible by its axes of " << mesh
                     << ", but got " << extent << " over " << axes;
      return {};
    }
    extent /= shards;
  }
  return RankedTensorType::get(shape, global.getElementType());
}

/// Replaces a reshard by the collective that it names. Its types are still
/// planned; they become local with all others afterwards.
LogicalResult lowerReshard(plan::ReshardOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Type type = op.getResult().getType();
  Value input = op.getInput();
  ArrayAttr axes = op.getAxes();
  IntegerAttr dim = op.getDimAttr();
  Value result;
  switch (op.getCollective()) {
  case plan::Collective::AllReduce: {
    bool isMax = plan::ShardingAttr::of(input.getType()).getPartial() ==
                 plan::Partial::Max;
    result = spmd::AllReduceOp::create(builder, loc, type, input, axes,
                                       isMax ? spmd::ReduceKind::Max
                                             : spmd::ReduceKind::Sum);
    break;
  }
  case plan::Collective::AllGather:
    result = spmd::AllGatherOp::create(builder, loc, type, input, axes, dim);
    break;
  case plan::Collective::ReduceScatter:
    result =
        spmd::ReduceScatterOp::create(builder, loc, type, input, axes, dim);
    break;
  case plan::Collective::Slice:
    result = spmd::SliceOp::create(builder, loc, type, input, axes, dim);
    break;
  case plan::Collective::AllToAll:
    return op.emitOpError() << "expected a collective that spmd has, but got "
                            << plan::stringifyCollective(op.getCollective());
  }
  op.getResult().replaceAllUsesWith(result);
  op.erase();
  return success();
}

LogicalResult partitionFunction(model::KindOp op, plan::MeshAttr mesh) {
  MLIRContext *context = op.getContext();
  // A partial result is finished outside of the function, by the step.
  for (auto [index, type] : llvm::enumerate(op.getResultTypes())) {
    plan::ShardingAttr sharding = plan::ShardingAttr::of(type);
    if (!sharding || sharding.getPartial() == plan::Partial::None)
      continue;
    SmallVector<Attribute> axes(sharding.getPartialAxes().begin(),
                                sharding.getPartialAxes().end());
    op.setResultAttr(index, StringAttr::get(context, kPartialAttr),
                     ArrayAttr::get(context, axes));
  }

  Block &body = op.getBody().front();
  for (Operation &inner : llvm::make_early_inc_range(body))
    if (auto reshard = dyn_cast<plan::ReshardOp>(inner))
      if (failed(lowerReshard(reshard)))
        return failure();

  SmallVector<Value> values(body.getArguments());
  for (Operation &inner : body)
    values.append(inner.result_begin(), inner.result_end());
  for (Value value : values) {
    RankedTensorType type = localType(value.getLoc(), value.getType(), mesh);
    if (!type)
      return failure();
    value.setType(type);
  }
  op.setFunctionType(FunctionType::get(context, body.getArgumentTypes(),
                                       op.getReturn().getOperandTypes()));
  return success();
}

class PartitionPass : public impl::PartitionPassBase<PartitionPass> {
public:
  using PartitionPassBase::PartitionPassBase;

  LogicalResult run(ModuleOp module) override {
    plan::MeshAttr mesh = plan::MeshAttr::of(module);
    for (auto op : module.getOps<model::KindOp>())
      if (failed(partitionFunction(op, mesh)))
        return failure();
    for (auto op : module.getOps<model::ParamOp>()) {
      RankedTensorType type = localType(op.getLoc(), op.getType(), mesh);
      if (!type)
        return failure();
      op.setType(type);
    }
    setPhase(module, IrPhase::Partitioned);
    return success();
  }
};

} // namespace
} // namespace shardwright
