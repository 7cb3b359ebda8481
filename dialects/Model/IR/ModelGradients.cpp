//===- ModelGradients.cpp - Vector-Jacobian products of forward ops -------===//
//
// A gradient is made of the same ops as the forward pass where one exists (a
// gradient matmul is a contract, a bias gradient a column_sum), so that its
// iteration space, cost and sharding need no code of their own.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelGradients.h"

using namespace mlir;
using namespace shardwright::model;

using Values = SmallVector<Value>;

/// dlhs[L] = sum dy[Y] rhs[R] and drhs[R] = sum dy[Y] lhs[L], for y = lhs rhs
/// with the letters "L,R->Y".
Values ContractOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  // No structured bindings: Clang 14 lets no lambda use them.
  const StringRef operands = getSpec().split("->").first,
                  result = getSpec().split("->").second;
  auto [lhs, rhs] = operands.split(",");
  auto contract = [&](Value other, StringRef otherLetters, Value like,
                      StringRef likeLetters) -> Value {
    StringAttr spec =
        builder.getStringAttr(result + "," + otherLetters + "->" + likeLetters);
    return ContractOp::create(builder, getLoc(), like.getType(), gradients[0],
                              other, getSegmentAttr(), StringAttr(), spec);
  };
  Value dlhs = contract(getRhs(), rhs, getLhs(), lhs);
  Value drhs = contract(getLhs(), lhs, getRhs(), rhs);
  return {dlhs, drhs};
}

Values AddOp::buildGradient(OpBuilder &, ValueRange gradients) {
  return {gradients[0], gradients[0]};
}

/// Sum of `gradient` over the dims that `kept` does not name.
static Value columnSum(OpBuilder &builder, Operation *op, Value gradient,
                       StringRef letters, StringRef kept, Type type,
                       SegmentAttr segment) {
  StringAttr spec = builder.getStringAttr(letters + "->" + kept);
  return ColumnSumOp::create(builder, op->getLoc(), type, gradient, segment,
                             StringAttr(), spec);
}

Values BiasAddOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dbias =
      columnSum(builder, *this, gradients[0], getLetters(), getBiasLetters(),
                getBias().getType(), getSegmentAttr());
  return {gradients[0], dbias};
}

Values RmsNormOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = RmsNormGradOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getInput(),
      getWeight(), getRstd(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      getUnitOffsetAttr());
  Value dweight = RmsNormWeightGradOp::create(
      builder, getLoc(), getWeight().getType(), gradients[0], getInput(),
      getRstd(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      StringAttr());
  return {dx, dweight};
}

/// dx holds the way through the sum, which so has no gradient of its own.
Values RmsApplyOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dot = RowDotOp::create(
      builder, getLoc(), getRstd().getType(), gradients[0], getInput(),
      getWeight(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      getColumnsAttr());
  Value dx = RmsApplyGradOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getInput(),
      getWeight(), getRstd(), dot, getSegmentAttr(), StringAttr(),
      getLettersAttr(), getColumnsAttr(), getCountAttr());
  Value dweight = RmsNormWeightGradOp::create(
      builder, getLoc(), getWeight().getType(), gradients[0], getInput(),
      getRstd(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      getColumnsAttr());
  return {dx, dweight, Value()};
}

Values LayerNormOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = LayerNormGradOp::create(builder, getLoc(), getInput().getType(),
                                     gradients[0], getInput(), getWeight(),
                                     getMean(), getRstd(), getSegmentAttr(),
                                     StringAttr(), getLettersAttr());
  Value dweight = LayerNormWeightGradOp::create(
      builder, getLoc(), getWeight().getType(), gradients[0], getInput(),
      getMean(), getRstd(), getSegmentAttr(), StringAttr(), getLettersAttr());
  Value dbias = columnSum(builder, *this, gradients[0], getLetters(),
                          getLetters().take_back(), getBias().getType(),
                          getSegmentAttr());
  return {dx, dweight, dbias};
}

/// A rotation is undone by its inverse, which is also its transpose.
Values RopeOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = RopeOp::create(builder, getLoc(), getInput().getType(),
                            gradients[0], getSegmentAttr(), StringAttr(),
                            getLettersAttr(), getThetaAttr(), getScalingAttr(),
                            builder.getBoolAttr(!getInverse()),
                            getRotaryDimAttr(), getInterleavedAttr());
  return {dx};
}

Values ScalePositionsOp::buildGradient(OpBuilder &builder,
                                       ValueRange gradients) {
  Value dx = ScalePositionsOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getSegmentAttr(),
      StringAttr(), getLettersAttr(), getFloorAttr(), getStrengthAttr());
  return {dx};
}

Values AttentionOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  auto gradient = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      gradients[0], getQ(), getK(), getV(), getOutput(), getLse(),
      getSegmentAttr(), StringAttr(), getCausalAttr(), getScaleAttr(),
      getWindowAttr(), getSoftcapAttr(), getAlibiAttr(), getAlibiHeadsAttr(),
      getChunkAttr());
  return {gradient.getDq(), gradient.getDk(), gradient.getDv()};
}

Values SwigluOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  auto gradient = SwigluGradOp::create(
      builder, getLoc(), getGate().getType(), getUp().getType(), gradients[0],
      getGate(), getUp(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      getGateKindAttr());
  return {gradient.getDgate(), gradient.getDup()};
}

Values GeluOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = GeluGradOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getInput(),
      getSegmentAttr(), StringAttr(), getLettersAttr(), getApproximateAttr());
  return {dx};
}

Values ReluOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = ReluGradOp::create(builder, getLoc(), getInput().getType(),
                                gradients[0], getResult(), getSegmentAttr(),
                                StringAttr(), getLettersAttr());
  return {dx};
}

Values ScaleOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = ScaleOp::create(builder, getLoc(), getInput().getType(),
                             gradients[0], getSegmentAttr(), StringAttr(),
                             getLettersAttr(), getFactorAttr());
  return {dx};
}

Values SoftcapOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = SoftcapGradOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getResult(),
      getSegmentAttr(), StringAttr(), getLettersAttr(), getCapAttr());
  return {dx};
}

Values FillOp::buildGradient(OpBuilder &, ValueRange) { return {}; }

Values EmbeddingOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dtable =
      EmbeddingGradOp::create(builder, getLoc(), getTable().getType(), getIds(),
                              gradients[0], getSegmentAttr(), StringAttr());
  return {Value(), dtable};
}

Values AddPositionsOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dtable = AddPositionsGradOp::create(
      builder, getLoc(), getTable().getType(), gradients[0], getSegmentAttr(),
      StringAttr(), getOffsetAttr());
  return {gradients[0], dtable};
}

LossGradient shardwright::model::buildLossGradient(OpBuilder &builder,
                                                   Value loss) {
  auto tokenLoss = loss.getDefiningOp<TokenLossOp>();
  if (!tokenLoss)
    return {};
  auto maxLogit = tokenLoss.getMax().getDefiningOp<MaxLogitOp>();
  auto target = tokenLoss.getTarget().getDefiningOp<TargetLogitOp>();
  if (!maxLogit || !target)
    return {};
  Value logits = maxLogit.getLogits();
  Value gradient = SoftmaxGradOp::create(
      builder, tokenLoss.getLoc(), logits.getType(), logits, tokenLoss.getMax(),
      tokenLoss.getSum(), target.getLabels(), tokenLoss.getSegmentAttr(),
      StringAttr(), tokenLoss.getScaleAttr(), maxLogit.getValidVocabAttr());
  return {logits, gradient};
}
