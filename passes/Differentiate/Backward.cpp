#include "passes/Differentiate/Backward.h"

#include "dialects/Model/IR/ModelGradients.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

namespace {

/// Gradients by forward value; sums what arrives from several users.
class GradientMap {
public:
  explicit GradientMap(OpBuilder &builder) : builder(builder) {}

  Value lookup(Value forward) const { return gradients.lookup(forward); }

  void add(Value forward, Value gradient) {
    Value &sum = gradients[forward];
    if (!sum) {
      sum = gradient;
      return;
    }
    Segment segment = segmentOf(sum) == segmentOf(gradient) ? segmentOf(sum)
                                                            : Segment::Stream;
    MLIRContext *context = builder.getContext();
    sum =
        AddOp::create(builder, gradient.getLoc(), sum.getType(), sum, gradient,
                      SegmentAttr::get(context, segment), StringAttr(),
                      builder.getStringAttr(lettersOf(forward)));
  }

private:
  static Segment segmentOf(Value value) {
    Operation *producer = value.getDefiningOp();
    return producer ? producer->getAttrOfType<SegmentAttr>("segment").getValue()
                    : Segment::Stream;
  }

  /// As the op that makes `value` names its dims, or the first that uses it.
  static std::string lettersOf(Value value) {
    if (auto result = dyn_cast<OpResult>(value))
      return cast<IterationSpaceOpInterface>(result.getOwner())
          .getDimLetters()
          .results[result.getResultNumber()];
    for (Operation &op : *value.getParentBlock())
      if (auto user = dyn_cast<IterationSpaceOpInterface>(op))
        for (OpOperand &operand : op.getOpOperands())
          if (operand.get() == value)
            return user.getDimLetters().operands[operand.getOperandNumber()];
    return "";
  }

  OpBuilder &builder;
  llvm::DenseMap<Value, Value> gradients;
};

/// Ops behind `lastForward` that `roots` need, without those of `excluded`, in
/// program order.
SmallVector<Operation *> backwardSlice(ArrayRef<Value> roots,
                                       Operation *lastForward,
                                       ArrayRef<Operation *> excluded) {
  llvm::SetVector<Operation *> slice;
  auto visit = [&](Value value) {
    Operation *producer = value ? value.getDefiningOp() : nullptr;
    if (producer && lastForward->isBeforeInBlock(producer) &&
        !llvm::is_contained(excluded, producer))
      slice.insert(producer);
  };
  for (Value root : roots)
    visit(root);
  for (size_t i = 0; i < slice.size(); ++i)
    for (Value operand : slice[i]->getOperands())
      visit(operand);
  SmallVector<Operation *> ordered = slice.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

} // namespace

LogicalResult buildBackward(KindOp kind, Backward &backward) {
  Block &body = kind.getBody().front();
  SmallVector<Operation *> forward;
  for (Operation &op : body.without_terminator())
    forward.push_back(&op);
  if (forward.empty())
    return kind.emitOpError() << "expected ops to differentiate, but got none";

  OpBuilder builder(body.getTerminator());
  GradientMap gradients(builder);
  for (auto [i, result] : llvm::enumerate(kind.getReturn().getOperands())) {
    switch (kind.getModelRes(i).getKind()) {
    case ResultKind::StreamOut:
      backward.dy = body.addArgument(result.getType(), kind.getLoc());
      gradients.add(result, backward.dy);
      continue;
    case ResultKind::Loss: {
      LossGradient start = buildLossGradient(builder, result);
      if (!start.gradient)
        return kind.emitOpError() << "expected the loss to come from "
                                     "max_logit, sum_exp, target_logit and "
                                     "token_loss";
      gradients.add(start.logits, start.gradient);
      continue;
    }
    case ResultKind::StreamGrad:
    case ResultKind::Saved:
    case ResultKind::Kept:
    case ResultKind::ParameterGrad:
      break;
    }
    return kind.emitOpError() << "expected a stream or a loss as result " << i;
  }

  for (Operation *op : llvm::reverse(forward)) {
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(gradients.lookup(result));
    if (llvm::none_of(resultGradients, [](Value v) { return bool(v); }))
      continue;
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError() << "expected an op with a gradient";
    if (!resultGradients[0])
      return op->emitOpError()
             << "expected a gradient of result 0, but got one of another only";
    SmallVector<Value> operandGradients =
        differentiable.buildGradient(builder, resultGradients);
    for (auto [operand, gradient] :
         llvm::zip_equal(op->getOperands(), operandGradients))
      if (gradient)
        gradients.add(operand, gradient);
  }

  for (BlockArgument argument : body.getArguments()) {
    if (argument == backward.dy)
      continue;
    ArgAttr attr = kind.getModelArg(argument.getArgNumber());
    bool stream = attr.getKind() == ArgKind::StreamIn;
    if (!stream && attr.getKind() != ArgKind::Parameter)
      continue;
    Value gradient = gradients.lookup(argument);
    if (!gradient)
      return kind.emitOpError()
             << "expected every stream and parameter to be used, but got no "
                "gradient for argument "
             << argument.getArgNumber();
    if (stream)
      backward.dx = gradient;
    else
      backward.parameterGrads.push_back(gradient);
  }
  backward.dataGrad = backwardSlice({backward.dx}, forward.back(), {});
  backward.weightGrad =
      backwardSlice(backward.parameterGrads, forward.back(), backward.dataGrad);
  return success();
}

} // namespace shardwright
