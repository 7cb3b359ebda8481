#include "dialects/Model/IR/ModelOps.h"
#include "passes/Schedule/Passes.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_GROUPROWOPSPASS
#include "passes/Schedule/Passes.h.inc"

namespace {

/// Whether `op` computes row by row from the same rows of its operands.
bool isRowOp(Operation &op) {
  auto compute = dyn_cast<model::IterationSpaceOpInterface>(op);
  if (!compute)
    return false;
  switch (compute.getIterationSpace().kernel) {
  case cost::KernelClass::RowNorm:
  case cost::KernelClass::Elementwise:
    return true;
  case cost::KernelClass::Gemm:
  case cost::KernelClass::Attention:
  case cost::KernelClass::AttentionGrad:
  case cost::KernelClass::ColumnSum:
  case cost::KernelClass::Gather:
  case cost::KernelClass::Scatter:
  case cost::KernelClass::CrossEntropy:
  case cost::KernelClass::Optimizer:
  case cost::KernelClass::GroupedGemm:
  case cost::KernelClass::Permute:
    return false;
  }
  return false;
}

/// The rows of an op's first result: positions and sequences, and for a norm
/// all dims that it does not reduce (the heads of a norm per head).
ArrayRef<int64_t> rowsOf(Operation &op) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(op.getResult(0).getType()).getShape();
  size_t rows = std::min<size_t>(2, shape.size());
  const cost::IterationSpace space =
      cast<model::IterationSpaceOpInterface>(op).getIterationSpace();
  if (space.kernel == cost::KernelClass::RowNorm)
    rows = llvm::count_if(space.results[0], [&](int factor) {
      return space.factors[factor].kind != cost::FactorKind::Full;
    });
  return shape.take_front(rows);
}

/// Whether `op` reads a result of one of `group`.
bool readsFrom(Operation &op, ArrayRef<Operation *> group) {
  return llvm::any_of(op.getOperands(), [&](Value operand) {
    return llvm::is_contained(group, operand.getDefiningOp());
  });
}

class GroupRowOpsPass : public impl::GroupRowOpsPassBase<GroupRowOpsPass> {
public:
  using GroupRowOpsPassBase::GroupRowOpsPassBase;

  LogicalResult run(ModuleOp module) override {
    for (auto kind : module.getOps<model::KindOp>()) {
      Builder builder(kind.getContext());
      SmallVector<Operation *> group;
      int64_t number = -1;
      for (Operation &op : kind.getBody().front()) {
        if (!isRowOp(op)) {
          group.clear();
          continue;
        }
        bool joins = !group.empty() && rowsOf(op) == rowsOf(*group.back()) &&
                     readsFrom(op, group);
        if (!joins) {
          group.clear();
          ++number;
        }
        group.push_back(&op);
        op.setAttr(kFusionGroupAttr, builder.getI64IntegerAttr(number));
      }
    }
    return success();
  }
};

} // namespace
} // namespace shardwright
