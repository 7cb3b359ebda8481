//===- ModelExperts.cpp - Routed experts and latent attention -------------===//
//
// Spaces, gradients and verifiers of the ops of ModelExpertOps.td and
// ModelLatentOps.td; they follow the pattern of the files for the other ops.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/MakeSpace.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::model;
using shardwright::cost::FactorKind;
using shardwright::cost::IterationSpace;
using shardwright::cost::KernelClass;
using shardwright::cost::Precision;

using Values = SmallVector<Value>;

namespace {

FactorKind parallel(char) { return FactorKind::Parallel; }
auto fullAt(StringRef letters) {
  return [letters](char letter) {
    return letters.contains(letter) ? FactorKind::Full : FactorKind::Parallel;
  };
}
auto sumAt(StringRef letters) {
  return [letters](char letter) {
    return letters.contains(letter) ? FactorKind::Sum : FactorKind::Parallel;
  };
}

/// Statistics of rows and choices are f32, ids are ids.
Precision rowPrecision(Value value) {
  return isa<IntegerType>(
             cast<RankedTensorType>(value.getType()).getElementType())
             ? Precision::Index
             : Precision::Stat;
}

/// rows_c1: one row for each choice.
LogicalResult verifyRows(Operation *op, int64_t rows, Value experts) {
  const int64_t choices =
      cast<RankedTensorType>(experts.getType()).getNumElements();
  if (rows != choices) // rows_c1
    return op->emitOpError() << "expected one row for each choice (" << choices
                             << "), but got " << rows;
  return success();
}

int64_t dimOf(Value value, unsigned dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// expert_bias_c1
LogicalResult verifyRowLetters(Operation *op, StringRef letters) {
  if (letters.size() != 2 || letters[0] != 'c') // expert_bias_c1
    return op->emitOpError() << "expected letters to be 'c' and one more, but "
                                "got \""
                             << letters << "\"";
  return success();
}

} // namespace

//===----------------------------------------------------------------------===//
// Router
//===----------------------------------------------------------------------===//

DimLetters RouteOp::getDimLetters() {
  DimLetters letters{{"sbx"}, {"sbk", "sbk", "bx"}};
  if (getBias())
    letters.operands.push_back("x");
  return letters;
}
IterationSpace RouteOp::getIterationSpace() {
  auto kindOf = [](char letter) {
    return letter == 's'   ? FactorKind::Sum // of `load`
           : letter == 'b' ? FactorKind::Parallel
                           : FactorKind::Full;
  };
  return makeIterationSpace(
      *this, KernelClass::RowNorm, getDimLetters(), kindOf,
      {Precision::Stat, Precision::Index, Precision::Stat});
}
Values RouteOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  const bool auxiliary = getAuxLoss().convertToDouble() != 0;
  Value dlogits = RouteGradOp::create(
      builder, getLoc(), getLogits().getType(), gradients[0], getLogits(),
      getExperts(), auxiliary ? getLoad() : Value(), getSegmentAttr(),
      StringAttr(), getScoreAttr(), getNormalizeAttr(), getScaleAttr(),
      getAuxLossAttr());
  Values result = {dlogits};
  if (getBias())
    result.push_back(ColumnSumOp::create(
        builder, getLoc(), getBias().getType(), getLoad(), getSegmentAttr(),
        StringAttr(), builder.getStringAttr("bx->x")));
  return result;
}
LogicalResult RouteOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  const int64_t experts = dimOf(getLogits(), 2),
                choices = dimOf(getWeights(), 2);
  if (choices > experts) // route_c1
    return emitOpError() << "expected at most as many choices as experts ("
                         << experts << "), but got " << choices;
  const int64_t groups = getGroups(), top = getTopGroups();
  if (groups < 1 || experts % groups != 0 || top < 1 ||
      top > groups) // route_c2
    return emitOpError() << "expected groups to divide the experts (" << experts
                         << ") and top_groups to be from 1 to groups, but got "
                         << groups << " and " << top;
  return success();
}

DimLetters RouteGradOp::getDimLetters() {
  DimLetters letters{{"sbk", "sbx", "sbk"}, {"sbx"}};
  if (getLoad())
    letters.operands.push_back("bx");
  return letters;
}
IterationSpace RouteGradOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::RowNorm, getDimLetters(),
                            fullAt("xk"), {Precision::Compute});
}
LogicalResult RouteGradOp::verify() {
  if (bool(getLoad()) != (getAuxLoss().convertToDouble() != 0)) // route_grad_c1
    return emitOpError() << "expected load exactly if aux_loss is not 0, but "
                            "got aux_loss = "
                         << getAuxLoss().convertToDouble();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters DispatchOp::getDimLetters() { return {{"sbh", "sbk"}, {"ch"}}; }
IterationSpace DispatchOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Permute, getDimLetters(),
                            parallel, {Precision::Compute}, {true, false});
}
Values DispatchOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dinput =
      CombineOp::create(builder, getLoc(), getInput().getType(), gradients[0],
                        getExperts(), getSegmentAttr(), StringAttr());
  return {dinput, Value()};
}
LogicalResult DispatchOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  return verifyRows(*this, dimOf(getRows(), 0), getExperts());
}

DimLetters CombineOp::getDimLetters() { return {{"ch", "sbk"}, {"sbh"}}; }
IterationSpace CombineOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Permute, getDimLetters(),
                            parallel, {Precision::Compute}, {true, false});
}
Values CombineOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value drows =
      DispatchOp::create(builder, getLoc(), getRows().getType(), gradients[0],
                         getExperts(), getSegmentAttr(), StringAttr());
  return {drows, Value()};
}
LogicalResult CombineOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  return verifyRows(*this, dimOf(getRows(), 0), getExperts());
}

DimLetters SelectRowsOp::getDimLetters() {
  if (getInverse())
    return {{"c", "sbk"}, {"sbk"}};
  return {{"sbk", "sbk"}, {"c"}};
}
IterationSpace SelectRowsOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Permute, getDimLetters(),
                            parallel, {rowPrecision(getResult())},
                            {true, false});
}
Values SelectRowsOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dvalues = SelectRowsOp::create(
      builder, getLoc(), getValues().getType(), gradients[0], getExperts(),
      getSegmentAttr(), StringAttr(), builder.getBoolAttr(!getInverse()));
  return {dvalues, Value()};
}
LogicalResult SelectRowsOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  return verifyRows(*this, dimOf(getInverse() ? getValues() : getResult(), 0),
                    getExperts());
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

DimLetters RowOrderOp::getDimLetters() { return {{"c"}, {"c", "c"}}; }
IterationSpace RowOrderOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Permute, getDimLetters(),
                            parallel, {Precision::Index, Precision::Index});
}
LogicalResult RowOrderOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters PermuteRowsOp::getDimLetters() {
  return {{getLetters().str(), "c"}, {getLetters().str()}};
}
IterationSpace PermuteRowsOp::getIterationSpace() {
  // Rows of numbers are statistics, rows of the hidden width activations.
  const Precision precision =
      getLetters().size() == 1 ? Precision::Stat : Precision::Compute;
  return makeIterationSpace(*this, KernelClass::Permute, getDimLetters(),
                            parallel, {precision}, {true, false});
}
Values PermuteRowsOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dinput = PermuteRowsOp::create(
      builder, getLoc(), getInput().getType(), gradients[0], getOrder(),
      getSegmentAttr(), StringAttr(), getLettersAttr(),
      builder.getBoolAttr(!getInverse()));
  return {dinput, Value()};
}
LogicalResult PermuteRowsOp::verify() {
  if (!getLetters().starts_with("c")) // permute_rows_c1
    return emitOpError() << "expected letters to begin with 'c', but got \""
                         << getLetters() << "\"";
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters GroupedContractOp::getDimLetters() {
  auto [operands, result] = getSpec().split("->");
  auto [lhs, rhs] = operands.split(",");
  return {{lhs.str(), rhs.str(), "c"}, {result.str()}};
}
IterationSpace GroupedContractOp::getIterationSpace() {
  DimLetters letters = getDimLetters();
  StringRef result = letters.results[0];
  auto kindOf = [result](char letter) {
    return letter == 'x' || result.contains(letter) ? FactorKind::Parallel
                                                    : FactorKind::Sum;
  };
  return makeIterationSpace(
      *this, KernelClass::GroupedGemm, letters, kindOf,
      {result.contains('x') ? Precision::Grad : Precision::Compute},
      {true, false, false});
}
Values GroupedContractOp::buildGradient(OpBuilder &builder,
                                        ValueRange gradients) {
  auto [operands, result] = getSpec().split("->");
  auto [lhs, rhs] = operands.split(",");
  auto contract = [&](Value left, Value right, const Twine &spec, Value like) {
    return GroupedContractOp::create(builder, getLoc(), like.getType(), left,
                                     right, getRowExperts(), getSegmentAttr(),
                                     StringAttr(), builder.getStringAttr(spec));
  };
  Value dlhs = contract(gradients[0], getRhs(), result + "," + rhs + "->" + lhs,
                        getLhs());
  Value drhs = contract(getLhs(), gradients[0], lhs + "," + result + "->" + rhs,
                        getRhs());
  return {dlhs, drhs, Value()};
}
LogicalResult GroupedContractOp::verify() {
  auto [operands, result] = getSpec().split("->");
  if (!getSpec().contains("->") || result.contains("->") ||
      result.contains(',') || operands.count(',') != 1) // grouped_contract_c3
    return emitOpError() << "expected spec to have the form "
                            "\"letters,letters->letters\", but got \""
                         << getSpec() << "\"";
  DimLetters letters = getDimLetters();
  if (failed(verifyDimLetters(*this, letters)))
    return failure();
  StringRef lhs = letters.operands[0], rhs = letters.operands[1];
  if (!lhs.contains('c') || lhs.contains('x') ||
      rhs.contains('x') == result.contains('x')) // grouped_contract_c1
    return emitOpError() << "expected 'c' in lhs and 'x' in rhs or result, but "
                            "got \""
                         << getSpec() << "\"";
  for (StringRef dims : {lhs, rhs, result})
    for (char letter : dims) {
      const int count = int(lhs.contains(letter)) + int(rhs.contains(letter)) +
                        int(result.contains(letter));
      if (letter != 'x' && count < 2) // grouped_contract_c2
        return emitOpError() << "expected letter '" << letter
                             << "' to stand in two of lhs, rhs and result, but "
                                "got \""
                             << getSpec() << "\"";
    }
  return success();
}

DimLetters ExpertBiasOp::getDimLetters() {
  std::string letters = getLetters().str();
  std::string bias = ("x" + getLetters().drop_front()).str();
  DimLetters result{{letters, bias, "c"}, {letters}};
  if (getRowWeights())
    result.operands.push_back("c");
  return result;
}
IterationSpace ExpertBiasOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            parallel, {Precision::Compute});
}
Values ExpertBiasOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dbias = ExpertBiasGradOp::create(
      builder, getLoc(), getBias().getType(), gradients[0], getRowExperts(),
      getRowWeights(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      builder.getI64IntegerAttr(dimOf(getBias(), 0)));
  Values result = {gradients[0], dbias, Value()};
  if (getRowWeights())
    result.push_back(ExpertBiasWeightGradOp::create(
        builder, getLoc(), getRowWeights().getType(), gradients[0], getBias(),
        getRowExperts(), getSegmentAttr(), StringAttr(), getLettersAttr()));
  return result;
}
LogicalResult ExpertBiasOp::verify() {
  if (failed(verifyRowLetters(*this, getLetters())))
    return failure();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters ExpertBiasGradOp::getDimLetters() {
  DimLetters result{{getLetters().str(), "c"},
                    {("x" + getLetters().drop_front()).str()}};
  if (getRowWeights())
    result.operands.push_back("c");
  return result;
}
IterationSpace ExpertBiasGradOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::ColumnSum, getDimLetters(),
                            sumAt("c"), {Precision::Grad});
}
LogicalResult ExpertBiasGradOp::verify() {
  if (failed(verifyRowLetters(*this, getLetters())))
    return failure();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters ExpertBiasWeightGradOp::getDimLetters() {
  std::string bias = ("x" + getLetters().drop_front()).str();
  return {{getLetters().str(), bias, "c"}, {"c"}};
}
IterationSpace ExpertBiasWeightGradOp::getIterationSpace() {
  auto kindOf = [](char letter) {
    return letter == 'c' || letter == 'x' ? FactorKind::Parallel
                                          : FactorKind::Sum;
  };
  return makeIterationSpace(*this, KernelClass::RowNorm, getDimLetters(),
                            kindOf, {Precision::Stat});
}
LogicalResult ExpertBiasWeightGradOp::verify() {
  if (failed(verifyRowLetters(*this, getLetters())))
    return failure();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters WeightedSwigluOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters, "c"}, {letters}};
}
IterationSpace WeightedSwigluOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            parallel, {Precision::Compute});
}
Values WeightedSwigluOp::buildGradient(OpBuilder &builder,
                                       ValueRange gradients) {
  auto gradient = WeightedSwigluGradOp::create(
      builder, getLoc(), getGate().getType(), getUp().getType(),
      getRowWeights().getType(), gradients[0], getGate(), getUp(),
      getRowWeights(), getSegmentAttr(), StringAttr(), getLettersAttr(),
      getLimitAttr(), getWeighsInputAttr());
  return {gradient.getDgate(), gradient.getDup(), gradient.getDweights()};
}
LogicalResult WeightedSwigluOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters WeightedSwigluGradOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters, letters, "c"}, {letters, letters, "c"}};
}
IterationSpace WeightedSwigluGradOp::getIterationSpace() {
  // A sharded width leaves dweights partial; dgate and dup have it as a dim.
  auto kindOf = [](char letter) {
    return letter == 'c' ? FactorKind::Parallel : FactorKind::Sum;
  };
  return makeIterationSpace(
      *this, KernelClass::Elementwise, getDimLetters(), kindOf,
      {Precision::Compute, Precision::Compute, Precision::Stat});
}
LogicalResult WeightedSwigluGradOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters SigmoidGateOp::getDimLetters() { return {{"sbh", "sb"}, {"sbh"}}; }
IterationSpace SigmoidGateOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            parallel, {Precision::Compute});
}
Values SigmoidGateOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  auto gradient = SigmoidGateGradOp::create(
      builder, getLoc(), getInput().getType(), getGate().getType(),
      gradients[0], getInput(), getGate(), getSegmentAttr(), StringAttr());
  return {gradient.getDinput(), gradient.getDgate()};
}
LogicalResult SigmoidGateOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters SigmoidGateGradOp::getDimLetters() {
  return {{"sbh", "sbh", "sb"}, {"sbh", "sb"}};
}
IterationSpace SigmoidGateGradOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            fullAt("h"),
                            {Precision::Compute, Precision::Compute});
}
LogicalResult SigmoidGateGradOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

DimLetters LatentAttentionOp::getDimLetters() {
  return {{"sbngo", "sbngr", "tbno", "tbr", "tbnw"}, {"sbngw", "sbng"}};
}
IterationSpace LatentAttentionOp::getIterationSpace() {
  IterationSpace space =
      makeIterationSpace(*this, KernelClass::Attention, getDimLetters(),
                         fullAt("torw"), {Precision::Compute, Precision::Stat});
  space.causal = true;
  return space;
}
Values LatentAttentionOp::buildGradient(OpBuilder &builder,
                                        ValueRange gradients) {
  auto gradient = LatentAttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getQRope().getType(),
      getK().getType(), getKRope().getType(), getV().getType(), gradients[0],
      getQ(), getQRope(), getK(), getKRope(), getV(), getOutput(), getLse(),
      getSegmentAttr(), StringAttr(), getScaleAttr());
  return {gradient.getDq(), gradient.getDqRope(), gradient.getDk(),
          gradient.getDkRope(), gradient.getDv()};
}

/// latent_attention_c1
static LogicalResult verifyQueries(Operation *op, Value q, Value k) {
  if (dimOf(q, 0) != dimOf(k, 0)) // latent_attention_c1
    return op->emitOpError() << "expected as many keys as queries ("
                             << dimOf(q, 0) << "), but got " << dimOf(k, 0);
  return success();
}
LogicalResult LatentAttentionOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  return verifyQueries(*this, getQ(), getK());
}

DimLetters LatentAttentionGradOp::getDimLetters() {
  return {{"sbngw", "sbngo", "sbngr", "tbno", "tbr", "tbnw", "sbngw", "sbng"},
          {"sbngo", "sbngr", "tbno", "tbr", "tbnw"}};
}
IterationSpace LatentAttentionGradOp::getIterationSpace() {
  auto kindOf = [](char letter) {
    return letter == 'n' || letter == 'g' ? FactorKind::Sum
           : letter == 'b'                ? FactorKind::Parallel
                                          : FactorKind::Full;
  };
  IterationSpace space =
      makeIterationSpace(*this, KernelClass::AttentionGrad, getDimLetters(),
                         kindOf, std::vector<Precision>(5, Precision::Compute));
  space.causal = true;
  return space;
}
LogicalResult LatentAttentionGradOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  return verifyQueries(*this, getQ(), getK());
}

DimLetters SinkAttentionOp::getDimLetters() {
  return {{"sbngd", "tbnd", "tbnd", "ng"}, {"sbngd", "sbng"}};
}
IterationSpace SinkAttentionOp::getIterationSpace() {
  IterationSpace space =
      makeIterationSpace(*this, KernelClass::Attention, getDimLetters(),
                         fullAt("td"), {Precision::Compute, Precision::Stat});
  space.causal = true;
  space.window = getWindow().value_or(0);
  return space;
}
Values SinkAttentionOp::buildGradient(OpBuilder &builder,
                                      ValueRange gradients) {
  auto gradient = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      gradients[0], getQ(), getK(), getV(), getOutput(), getLse(),
      getSegmentAttr(), StringAttr(), builder.getBoolAttr(true), getScaleAttr(),
      getWindowAttr(), FloatAttr(), FloatAttr(), IntegerAttr(), IntegerAttr());
  Value dsinks = SinkGradOp::create(builder, getLoc(), getSinks().getType(),
                                    gradients[0], getOutput(), getLse(),
                                    getSinks(), getSegmentAttr(), StringAttr());
  return {gradient.getDq(), gradient.getDk(), gradient.getDv(), dsinks};
}
LogicalResult SinkAttentionOp::verify() {
  if (failed(verifyDimLetters(*this, getDimLetters())))
    return failure();
  if (dimOf(getQ(), 0) != dimOf(getK(), 0)) // sink_attention_c1
    return emitOpError() << "expected as many keys as queries ("
                         << dimOf(getQ(), 0) << "), but got "
                         << dimOf(getK(), 0);
  if (getWindow() && *getWindow() < 1) // sink_attention_c2
    return emitOpError() << "expected window to be at least 1, but got "
                         << *getWindow();
  return success();
}

DimLetters SinkGradOp::getDimLetters() {
  return {{"sbngd", "sbngd", "sbng", "ng"}, {"ng"}};
}
IterationSpace SinkGradOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::ColumnSum, getDimLetters(),
                            sumAt("sbd"), {Precision::Grad});
}
LogicalResult SinkGradOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters ClipOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace ClipOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            parallel, {Precision::Compute});
}
Values ClipOp::buildGradient(OpBuilder &builder, ValueRange gradients) {
  Value dx = ClipGradOp::create(builder, getLoc(), getInput().getType(),
                                gradients[0], getInput(), getSegmentAttr(),
                                StringAttr(), getLettersAttr(), getLimitAttr());
  return {dx};
}
/// clip_c1
static LogicalResult verifyLimit(Operation *op, const APFloat &limit) {
  if (!(limit.convertToDouble() > 0)) // clip_c1
    return op->emitOpError() << "expected limit to be positive, but got "
                             << limit.convertToDouble();
  return success();
}
LogicalResult ClipOp::verify() {
  if (failed(verifyLimit(*this, getLimit())))
    return failure();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters ClipGradOp::getDimLetters() {
  return {{getLetters().str(), getLetters().str()}, {getLetters().str()}};
}
IterationSpace ClipGradOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            parallel, {Precision::Compute});
}
LogicalResult ClipGradOp::verify() {
  if (failed(verifyLimit(*this, getLimit())))
    return failure();
  return verifyDimLetters(*this, getDimLetters());
}

DimLetters NextTokensOp::getDimLetters() { return {{"sb"}, {"sb"}}; }
IterationSpace NextTokensOp::getIterationSpace() {
  return makeIterationSpace(*this, KernelClass::Elementwise, getDimLetters(),
                            fullAt("s"), {Precision::Index});
}
LogicalResult NextTokensOp::verify() {
  return verifyDimLetters(*this, getDimLetters());
}
