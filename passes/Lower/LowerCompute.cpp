//===- LowerCompute.cpp - Contractions, attention, embeddings -------------===//
#include "passes/Lower/FunctionLowering.h"
#include "passes/Lower/MatmulShape.h"

#include "dialects/Plan/IR/PlanDialect.h"

using namespace mlir;

namespace shardwright {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Mesh axes that shard the factor `letter` of `op`.
static ArrayAttr axesOf(Operation *op, StringRef letter) {
  if (auto axes = op->getAttrOfType<DictionaryAttr>(plan::kAxesAttr))
    if (auto list = axes.getAs<ArrayAttr>(letter))
      return list;
  return ArrayAttr::get(op->getContext(), {});
}

/// Type of the elements of `value`; null if it is `type`.
static TypeAttr otherThan(Type type, Value value) {
  Type own = typeOf(value).getElementType();
  return own == type ? TypeAttr() : TypeAttr::get(own);
}

LogicalResult FunctionLowering::lowerContract(model::ContractOp op) {
  MatmulShape shape;
  std::string why;
  if (!matmulShape(op.getSpec(), typeOf(op.getLhs()).getShape(),
                   typeOf(op.getRhs()).getShape(), shape, why))
    return op.emitOpError()
           << "is no matrix product ('" << op.getSpec() << "'): " << why;
  rt::AddrAttr a = address(shape.swapped ? op.getRhs() : op.getLhs());
  rt::AddrAttr b = address(shape.swapped ? op.getLhs() : op.getRhs());
  rt::AddrAttr c = address(op.getResult());
  Type type = typeOf(op.getLhs()).getElementType();
  if (type != typeOf(op.getRhs()).getElementType())
    return op.emitOpError() << "expected operands with equal elements, but got "
                            << type << " and "
                            << typeOf(op.getRhs()).getElementType();
  rt::MatmulOp::create(builder, op.getLoc(), a, b, c, shape.m, shape.n, shape.k,
                       type, shape.transposeA, shape.transposeB, accumulates(c),
                       otherThan(type, op.getResult()));
  return success();
}

/// Mesh axes of the heads, for the slopes of alibi; null without.
template <typename OpTy> static ArrayAttr headAxes(OpTy op) {
  return op.getAlibi() ? axesOf(op, "n") : ArrayAttr();
}

/// [s, t, b, n, g, d] of q "sbngd" and k "tbnd".
static DenseI64ArrayAttr attentionShape(Value q, Value k) {
  ArrayRef<int64_t> query = typeOf(q).getShape();
  return DenseI64ArrayAttr::get(q.getContext(),
                                {query[0], typeOf(k).getShape()[0], query[1],
                                 query[2], query[3], query[4]});
}

LogicalResult FunctionLowering::lowerAttention(model::AttentionOp op) {
  if (failed(overwrites(op)))
    return failure();
  rt::AttentionFwdOp::create(
      builder, op.getLoc(), address(op.getQ()), address(op.getK()),
      address(op.getV()), address(op.getOutput()), address(op.getLse()),
      attentionShape(op.getQ(), op.getK()), op.getScaleAttr(),
      op.getCausalAttr(), TypeAttr::get(typeOf(op.getQ()).getElementType()),
      op.getWindowAttr(), op.getSoftcapAttr(), op.getAlibiAttr(),
      op.getAlibiHeadsAttr(), headAxes(op));
  return success();
}

LogicalResult FunctionLowering::lowerAttentionGrad(model::AttentionGradOp op) {
  if (failed(overwrites(op)))
    return failure();
  rt::AttentionBwdOp::create(
      builder, op.getLoc(), address(op.getDoutput()), address(op.getQ()),
      address(op.getK()), address(op.getV()), address(op.getOutput()),
      address(op.getLse()), address(op.getDq()), address(op.getDk()),
      address(op.getDv()), attentionShape(op.getQ(), op.getK()),
      op.getScaleAttr(), op.getCausalAttr(),
      TypeAttr::get(typeOf(op.getQ()).getElementType()), op.getWindowAttr(),
      op.getSoftcapAttr(), op.getAlibiAttr(), op.getAlibiHeadsAttr(),
      headAxes(op));
  return success();
}

LogicalResult FunctionLowering::lowerEmbedding(model::EmbeddingOp op) {
  if (failed(overwrites(op)))
    return failure();
  RankedTensorType table = typeOf(op.getTable());
  rt::EmbeddingFwdOp::create(builder, op.getLoc(), address(op.getIds()),
                             address(op.getTable()), address(op.getOutput()),
                             typeOf(op.getIds()).getNumElements(),
                             table.getDimSize(0), table.getDimSize(1),
                             axesOf(op, "v"), table.getElementType());
  return success();
}

LogicalResult FunctionLowering::lowerEmbeddingGrad(model::EmbeddingGradOp op) {
  rt::AddrAttr target = address(op.getDtable());
  if (!accumulates(target))
    return op.emitOpError() << "expected a result that is accumulated, but its "
                               "address "
                            << target << " is overwritten";
  RankedTensorType table = typeOf(op.getDtable());
  Type type = typeOf(op.getDy()).getElementType();
  rt::EmbeddingBwdOp::create(
      builder, op.getLoc(), address(op.getIds()), address(op.getDy()), target,
      typeOf(op.getIds()).getNumElements(), table.getDimSize(0),
      table.getDimSize(1), axesOf(op, "v"), type,
      otherThan(type, op.getDtable()));
  return success();
}

} // namespace shardwright
