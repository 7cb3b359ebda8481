//===- LowerCollectives.cpp - Collectives and slices ----------------------===//
#include "passes/Lower/FunctionLowering.h"

using namespace mlir;

namespace shardwright {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Elements of the dims before `dim`: that many separate parts a rank has.
static int64_t rowsBefore(RankedTensorType type, int64_t dim) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().take_front(dim))
    rows *= size;
  return rows;
}

/// The runtime joins whole buffers, so the dim must be the outermost one that
/// is larger than 1.
static LogicalResult isContiguous(Operation *op, RankedTensorType type,
                                  int64_t dim) {
  if (rowsBefore(type, dim) == 1)
    return success();
  return op->emitOpError() << "expected dim " << dim << " of " << type
                           << " to be the outermost, since parts of a group "
                              "are joined as whole buffers";
}

static rt::ReduceKind reduceKind(spmd::ReduceKind kind) {
  switch (kind) {
  case spmd::ReduceKind::Sum:
    return rt::ReduceKind::Sum;
  case spmd::ReduceKind::Max:
    return rt::ReduceKind::Max;
  }
  return rt::ReduceKind::Sum;
}

LogicalResult FunctionLowering::lowerAllReduce(spmd::AllReduceOp op) {
  if (failed(overwrites(op)))
    return failure();
  RankedTensorType type = typeOf(op.getInput());
  rt::AllReduceOp::create(builder, op.getLoc(), address(op.getInput()),
                          address(op.getResult()), op.getAxes(),
                          type.getNumElements(), type.getElementType(),
                          reduceKind(op.getReduce()));
  return success();
}

LogicalResult FunctionLowering::lowerAllGather(spmd::AllGatherOp op) {
  RankedTensorType type = typeOf(op.getInput());
  if (failed(overwrites(op)) || failed(isContiguous(op, type, op.getDim())))
    return failure();
  rt::AllGatherOp::create(builder, op.getLoc(), address(op.getInput()),
                          address(op.getResult()), op.getAxes(),
                          type.getNumElements(), type.getElementType());
  return success();
}

LogicalResult FunctionLowering::lowerReduceScatter(spmd::ReduceScatterOp op) {
  RankedTensorType type = typeOf(op.getInput());
  if (failed(overwrites(op)) || failed(isContiguous(op, type, op.getDim())))
    return failure();
  rt::ReduceScatterOp::create(builder, op.getLoc(), address(op.getInput()),
                              address(op.getResult()), op.getAxes(),
                              type.getNumElements(), type.getElementType(),
                              rt::ReduceKind::Sum);
  return success();
}

LogicalResult FunctionLowering::lowerSlice(spmd::SliceOp op) {
  if (failed(overwrites(op)))
    return failure();
  RankedTensorType input = typeOf(op.getInput());
  RankedTensorType result = typeOf(op.getResult());
  const int64_t rows = rowsBefore(input, op.getDim());
  const int64_t elementBytes = input.getElementTypeBitWidth() / 8;
  rt::SliceOp::create(builder, op.getLoc(), address(op.getInput()),
                      address(op.getResult()), op.getAxes(), rows,
                      input.getNumElements() / rows * elementBytes,
                      result.getNumElements() / rows * elementBytes);
  return success();
}

} // namespace shardwright
