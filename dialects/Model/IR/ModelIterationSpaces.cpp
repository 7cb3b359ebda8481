//===- ModelIterationSpaces.cpp - What each model op computes -------------===//
//
// Per op two facts: the letters of its dims, and how its factors combine. All
// else (factor list, sizes, dim maps) follows in makeSpace.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/MakeSpace.h"

#include "llvm/ADT/STLFunctionalExtras.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::model;
using shardwright::cost::Factor;
using shardwright::cost::FactorKind;
using shardwright::cost::IterationSpace;
using shardwright::cost::KernelClass;
using shardwright::cost::Precision;
using shardwright::cost::Role;

namespace {

using KindOfLetter = llvm::function_ref<FactorKind(char)>;

/// Parts of a spec "sbh,ngdh->sbngd". Without an arrow there is no result.
DimLetters lettersOfSpec(StringRef spec) {
  auto [left, right] = spec.split("->");
  DimLetters letters;
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  for (StringRef part : parts)
    letters.operands.push_back(part.str());
  letters.results.push_back(right.str());
  return letters;
}

/// Letters of a row statistic: all but the last.
std::string rowLetters(StringRef letters) { return letters.drop_back().str(); }
std::string lastLetter(StringRef letters) { return letters.take_back().str(); }

/// Letters that a row goes along, and those that number the rows.
StringRef columnsOf(StringRef letters, std::optional<StringRef> columns) {
  return columns.value_or(letters.take_back());
}
std::string rowsOf(StringRef letters, std::optional<StringRef> columns) {
  return letters.drop_back(columnsOf(letters, columns).size()).str();
}

bool contains(StringRef letters, char letter) {
  return letters.contains(letter);
}

/// A float result without tokens is a parameter's gradient.
Precision computeOrGrad(StringRef letters) {
  return contains(letters, 's') || contains(letters, 'b') ||
                 contains(letters, 't') || contains(letters, 'c')
             ? Precision::Compute
             : Precision::Grad;
}

/// The space of an op: factors in order of first appearance, operands first.
IterationSpace makeSpace(Operation *op, KernelClass kernel,
                         const DimLetters &letters, KindOfLetter kindOf,
                         std::vector<Precision> resultPrecision,
                         std::vector<bool> linear = {}) {
  IterationSpace space;
  space.kernel = kernel;
  auto addValue = [&](Type type, const std::string &dims) {
    auto shape = cast<RankedTensorType>(type).getShape();
    std::vector<int> map;
    for (auto [letter, size] : llvm::zip(dims, shape)) {
      int index = space.factorIndex(letter);
      if (index < 0) {
        Role role = Role::Flat;
        cost::roleOfLetter(letter, role);
        index = static_cast<int>(space.factors.size());
        space.factors.push_back({letter, role, kindOf(letter), size});
      }
      map.push_back(index);
    }
    return map;
  };
  for (auto [type, dims] : llvm::zip(op->getOperandTypes(), letters.operands))
    space.operands.push_back(addValue(type, dims));
  for (auto [type, dims] : llvm::zip(op->getResultTypes(), letters.results))
    space.results.push_back(addValue(type, dims));
  space.resultPrecision = std::move(resultPrecision);
  space.linear = linear.empty() ? std::vector<bool>(op->getNumOperands(), false)
                                : std::move(linear);
  return space;
}

FactorKind parallel(char) { return FactorKind::Parallel; }

/// `letter` is Full, the others Parallel.
auto fullAt(StringRef letters) {
  return [letters](char letter) {
    return contains(letters, letter) ? FactorKind::Full : FactorKind::Parallel;
  };
}

/// Letters of `kept` are Parallel, the others summed over.
auto sumExcept(StringRef kept) {
  return [kept](char letter) {
    return contains(kept, letter) ? FactorKind::Parallel : FactorKind::Sum;
  };
}

} // namespace

IterationSpace shardwright::model::makeIterationSpace(
    Operation *op, KernelClass kernel, const DimLetters &letters,
    KindOfLetter kindOf, std::vector<Precision> resultPrecision,
    std::vector<bool> linear) {
  return makeSpace(op, kernel, letters, kindOf, std::move(resultPrecision),
                   std::move(linear));
}

//===----------------------------------------------------------------------===//
// Linear ops
//===----------------------------------------------------------------------===//

DimLetters ContractOp::getDimLetters() { return lettersOfSpec(getSpec()); }
IterationSpace ContractOp::getIterationSpace() {
  DimLetters letters = getDimLetters();
  // Linear in each operand alone, so only one of them may arrive partial: lhs.
  return makeSpace(*this, KernelClass::Gemm, letters,
                   sumExcept(letters.results[0]),
                   {computeOrGrad(letters.results[0])}, {true, false});
}

DimLetters AddOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters}, {letters}};
}
IterationSpace AddOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {computeOrGrad(getLetters())}, {true, true});
}

DimLetters BiasAddOp::getDimLetters() {
  return {{getLetters().str(), getBiasLetters().str()}, {getLetters().str()}};
}
IterationSpace BiasAddOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters ColumnSumOp::getDimLetters() { return lettersOfSpec(getSpec()); }
IterationSpace ColumnSumOp::getIterationSpace() {
  DimLetters letters = getDimLetters();
  return makeSpace(*this, KernelClass::ColumnSum, letters,
                   sumExcept(letters.results[0]),
                   {computeOrGrad(letters.results[0])}, {true});
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

DimLetters RmsNormOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), lastLetter(letters)},
          {letters.str(), rowLetters(letters)}};
}
IterationSpace RmsNormOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::RowNorm, getDimLetters(),
                   fullAt(getLetters().take_back()),
                   {Precision::Compute, Precision::Stat});
}

DimLetters RmsNormGradOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), letters.str(), lastLetter(letters),
           rowLetters(letters)},
          {letters.str()}};
}
IterationSpace RmsNormGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::RowNorm, getDimLetters(),
                   fullAt(getLetters().take_back()), {Precision::Compute},
                   {true, false, false, false});
}

DimLetters RmsNormWeightGradOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), letters.str(), rowsOf(letters, getColumns())},
          {columnsOf(letters, getColumns()).str()}};
}
IterationSpace RmsNormWeightGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::ColumnSum, getDimLetters(),
                   sumExcept(columnsOf(getLetters(), getColumns())),
                   {Precision::Grad}, {true, false, false});
}

DimLetters SquareSumOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str()}, {rowsOf(letters, getColumns())}};
}
IterationSpace SquareSumOp::getIterationSpace() {
  DimLetters letters = getDimLetters();
  return makeSpace(*this, KernelClass::RowNorm, letters,
                   sumExcept(letters.results[0]), {Precision::Stat});
}

DimLetters RmsApplyOp::getDimLetters() {
  StringRef letters = getLetters();
  std::string rows = rowsOf(letters, getColumns());
  return {{letters.str(), getColumns().str(), rows}, {letters.str(), rows}};
}
IterationSpace RmsApplyOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute, Precision::Stat});
}

DimLetters RowDotOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), letters.str(), getColumns().str()},
          {rowsOf(letters, getColumns())}};
}
IterationSpace RowDotOp::getIterationSpace() {
  DimLetters letters = getDimLetters();
  return makeSpace(*this, KernelClass::RowNorm, letters,
                   sumExcept(letters.results[0]), {Precision::Stat});
}

DimLetters RmsApplyGradOp::getDimLetters() {
  StringRef letters = getLetters();
  std::string rows = rowsOf(letters, getColumns());
  return {{letters.str(), letters.str(), getColumns().str(), rows, rows},
          {letters.str()}};
}
IterationSpace RmsApplyGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters LayerNormOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), lastLetter(letters), lastLetter(letters)},
          {letters.str(), rowLetters(letters), rowLetters(letters)}};
}
IterationSpace LayerNormOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::RowNorm, getDimLetters(),
                   fullAt(getLetters().take_back()),
                   {Precision::Compute, Precision::Stat, Precision::Stat});
}

DimLetters LayerNormGradOp::getDimLetters() {
  StringRef letters = getLetters();
  return {{letters.str(), letters.str(), lastLetter(letters),
           rowLetters(letters), rowLetters(letters)},
          {letters.str()}};
}
IterationSpace LayerNormGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::RowNorm, getDimLetters(),
                   fullAt(getLetters().take_back()), {Precision::Compute},
                   {true, false, false, false, false});
}

DimLetters LayerNormWeightGradOp::getDimLetters() {
  StringRef letters = getLetters();
  return {
      {letters.str(), letters.str(), rowLetters(letters), rowLetters(letters)},
      {lastLetter(letters)}};
}
IterationSpace LayerNormWeightGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::ColumnSum, getDimLetters(),
                   sumExcept(getLetters().take_back()), {Precision::Grad},
                   {true, false, false, false});
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

DimLetters RopeOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace RopeOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(),
                   fullAt(getLetters().take_back()), {Precision::Compute},
                   {true});
}

DimLetters ScalePositionsOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace ScalePositionsOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute}, {true});
}

DimLetters AttentionOp::getDimLetters() {
  return {{"sbngd", "tbnd", "tbnd"}, {"sbngd", "sbng"}};
}
IterationSpace AttentionOp::getIterationSpace() {
  IterationSpace space =
      makeSpace(*this, KernelClass::Attention, getDimLetters(), fullAt("td"),
                {Precision::Compute, Precision::Stat});
  space.causal = getCausal();
  space.window = getWindow().value_or(0);
  space.chunk = getChunk().value_or(0);
  return space;
}

DimLetters AttentionGradOp::getDimLetters() {
  return {{"sbngd", "sbngd", "tbnd", "tbnd", "sbngd", "sbng"},
          {"sbngd", "tbnd", "tbnd"}};
}
IterationSpace AttentionGradOp::getIterationSpace() {
  // A sharded `g` leaves dk and dv partial; dq has `g`, so it is merely local.
  // `s` and `t` stay whole: sharding them is context parallelism.
  auto kindOf = [](char letter) {
    if (letter == 'g')
      return FactorKind::Sum;
    return letter == 'b' || letter == 'n' ? FactorKind::Parallel
                                          : FactorKind::Full;
  };
  IterationSpace space =
      makeSpace(*this, KernelClass::AttentionGrad, getDimLetters(), kindOf,
                {Precision::Compute, Precision::Compute, Precision::Compute});
  space.causal = getCausal();
  space.window = getWindow().value_or(0);
  space.chunk = getChunk().value_or(0);
  return space;
}

//===----------------------------------------------------------------------===//
// Activations and the update
//===----------------------------------------------------------------------===//

DimLetters SwigluOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters}, {letters}};
}
IterationSpace SwigluOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters SwigluGradOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters, letters}, {letters, letters}};
}
IterationSpace SwigluGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute, Precision::Compute});
}

DimLetters GeluOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace GeluOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters GeluGradOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters}, {letters}};
}
IterationSpace GeluGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters ReluOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace ReluOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters ReluGradOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters}, {letters}};
}
IterationSpace ReluGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters ScaleOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace ScaleOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {computeOrGrad(getLetters())}, {true});
}

DimLetters SoftcapOp::getDimLetters() {
  return {{getLetters().str()}, {getLetters().str()}};
}
IterationSpace SoftcapOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters SoftcapGradOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters}, {letters}};
}
IterationSpace SoftcapGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters FillOp::getDimLetters() { return {{}, {getLetters().str()}}; }
IterationSpace FillOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(), parallel,
                   {Precision::Compute});
}

DimLetters AdamwOp::getDimLetters() {
  std::string letters = getLetters().str();
  return {{letters, letters, letters, letters},
          {letters, letters, letters, letters}};
}
IterationSpace AdamwOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Optimizer, getDimLetters(), parallel,
                   {Precision::Master, Precision::Master, Precision::Master,
                    Precision::Param});
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

DimLetters EmbeddingOp::getDimLetters() { return {{"sb", "vh"}, {"sbh"}}; }
IterationSpace EmbeddingOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Gather, getDimLetters(),
                   sumExcept("sbh"), {Precision::Compute});
}

DimLetters EmbeddingGradOp::getDimLetters() { return {{"sb", "sbh"}, {"vh"}}; }
IterationSpace EmbeddingGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Scatter, getDimLetters(),
                   sumExcept("vh"), {Precision::Grad}, {false, true});
}

DimLetters AddPositionsOp::getDimLetters() { return {{"sbh", "ph"}, {"sbh"}}; }
IterationSpace AddPositionsOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::Elementwise, getDimLetters(),
                   fullAt("p"), {Precision::Compute});
}

DimLetters AddPositionsGradOp::getDimLetters() { return {{"sbh"}, {"ph"}}; }
IterationSpace AddPositionsGradOp::getIterationSpace() {
  auto kindOf = [](char letter) {
    if (letter == 'p')
      return FactorKind::Full;
    return letter == 'h' ? FactorKind::Parallel : FactorKind::Sum;
  };
  return makeSpace(*this, KernelClass::ColumnSum, getDimLetters(), kindOf,
                   {Precision::Grad}, {true});
}

DimLetters MaxLogitOp::getDimLetters() { return {{"sbv"}, {"sb"}}; }
IterationSpace MaxLogitOp::getIterationSpace() {
  auto kindOf = [](char letter) {
    return letter == 'v' ? FactorKind::Max : FactorKind::Parallel;
  };
  return makeSpace(*this, KernelClass::CrossEntropy, getDimLetters(), kindOf,
                   {Precision::Stat});
}

DimLetters SumExpOp::getDimLetters() { return {{"sbv", "sb"}, {"sb"}}; }
IterationSpace SumExpOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::CrossEntropy, getDimLetters(),
                   sumExcept("sb"), {Precision::Stat});
}

DimLetters TargetLogitOp::getDimLetters() { return {{"sbv", "sb"}, {"sb"}}; }
IterationSpace TargetLogitOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::CrossEntropy, getDimLetters(),
                   sumExcept("sb"), {Precision::Stat});
}

DimLetters TokenLossOp::getDimLetters() { return {{"sb", "sb", "sb"}, {""}}; }
IterationSpace TokenLossOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::CrossEntropy, getDimLetters(),
                   sumExcept(""), {Precision::Stat});
}

DimLetters SoftmaxGradOp::getDimLetters() {
  return {{"sbv", "sb", "sb", "sb"}, {"sbv"}};
}
IterationSpace SoftmaxGradOp::getIterationSpace() {
  return makeSpace(*this, KernelClass::CrossEntropy, getDimLetters(), parallel,
                   {Precision::Compute});
}
