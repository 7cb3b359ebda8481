//===- ModelVerify.cpp - Verifiers of compute ops -------------------------===//
//
// Labels (`contract_c1`) are those of the op descriptions and of
// test/Dialect/Model/invalid.mlir.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelOps.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::model;

namespace {

/// Constraints that every compute op shares:
/// space_c1: letters are known and stand once in a tensor;
/// space_c2: a tensor has one dim per letter;
/// space_c3: dims with one letter have one size.
/// Encodings of the types are not looked at.
LogicalResult verifyLetters(Operation *op, const DimLetters &letters) {
  assert(letters.operands.size() == op->getNumOperands() &&
         letters.results.size() == op->getNumResults() &&
         "an op names the letters of all its values");
  struct Seen {
    int64_t size = -1;
    std::string where;
  };
  Seen seen[128];
  auto check = [&](const std::string &where, StringRef dims,
                   Type type) -> LogicalResult {
    auto shape = cast<RankedTensorType>(type).getShape();
    for (auto [index, letter] : llvm::enumerate(dims)) {
      cost::Role role;
      if (!cost::roleOfLetter(letter, role)) // space_c1
        return op->emitOpError() << "expected letters of " << where
                                 << " to be known, but got '" << letter << "'";
      if (dims.find(letter) != index) // space_c1
        return op->emitOpError() << "expected letters of " << where
                                 << " to differ, but got \"" << dims << "\"";
    }
    if (shape.size() != dims.size()) // space_c2
      return op->emitOpError()
             << "expected " << where << " to have " << dims.size()
             << " dims (\"" << dims << "\"), but got " << shape.size();
    for (auto [letter, size] : llvm::zip(dims, shape)) {
      Seen &first = seen[static_cast<unsigned char>(letter) & 127];
      if (first.size < 0) {
        first = {size, where};
      } else if (first.size != size) { // space_c3
        return op->emitOpError() << "expected dim '" << letter << "' of "
                                 << where << " to equal that of " << first.where
                                 << " (" << first.size << "), but got " << size;
      }
    }
    return success();
  };
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes()))
    if (failed(check("operand " + std::to_string(index),
                     letters.operands[index], type)))
      return failure();
  for (auto [index, type] : llvm::enumerate(op->getResultTypes()))
    if (failed(check("result " + std::to_string(index), letters.results[index],
                     type)))
      return failure();
  return success();
}

/// norm_c1: a norm needs at least one letter besides the row's.
LogicalResult verifyNorm(Operation *op, StringRef letters,
                         llvm::function_ref<DimLetters()> dimLetters) {
  if (letters.size() < 2) // norm_c1
    return op->emitOpError()
           << "expected at least 2 letters, but got \"" << letters << "\"";
  return verifyLetters(op, dimLetters());
}

/// vocab_c1: the unpadded vocabulary is positive.
LogicalResult verifyVocab(Operation *op, const DimLetters &letters,
                          int64_t validVocab) {
  if (validVocab < 1) // vocab_c1
    return op->emitOpError()
           << "expected valid_vocab to be at least 1, but got " << validVocab;
  return verifyLetters(op, letters);
}

} // namespace

//===----------------------------------------------------------------------===//
// Linear ops
//===----------------------------------------------------------------------===//

/// contract_c2, column_sum_c2: a spec has one arrow and a list of letters per
/// operand.
static LogicalResult verifySpec(Operation *op, StringRef spec, StringRef form) {
  auto [operands, result] = spec.split("->");
  if (!spec.contains("->") || result.contains("->") || result.contains(',') ||
      operands.count(',') + 1 != op->getNumOperands())
    return op->emitOpError() << "expected spec to have the form \"" << form
                             << "\", but got \"" << spec << "\"";
  return success();
}

LogicalResult ContractOp::verify() {
  if (failed(verifySpec(*this, getSpec(),
                        "letters,letters->letters"))) // contract_c2
    return failure();
  DimLetters letters = getDimLetters();
  if (failed(verifyLetters(*this, letters)))
    return failure();
  const std::string all[] = {letters.operands[0], letters.operands[1],
                             letters.results[0]};
  for (const std::string &dims : all)
    for (char letter : dims) {
      int count = 0;
      for (const std::string &other : all)
        count += other.find(letter) != std::string::npos;
      if (count < 2) // contract_c1
        return emitOpError() << "expected letter '" << letter
                             << "' to stand in two of lhs, rhs and result, but "
                                "got \""
                             << getSpec() << "\"";
    }
  return success();
}

LogicalResult AddOp::verify() { return verifyLetters(*this, getDimLetters()); }

LogicalResult BiasAddOp::verify() {
  if (!getLetters().ends_with(getBiasLetters())) // bias_add_c1
    return emitOpError() << "expected bias_letters to end letters (\""
                         << getLetters() << "\"), but got \""
                         << getBiasLetters() << "\"";
  return verifyLetters(*this, getDimLetters());
}

LogicalResult ColumnSumOp::verify() {
  if (failed(verifySpec(*this, getSpec(), "letters->letters"))) // column_sum_c2
    return failure();
  DimLetters letters = getDimLetters();
  if (failed(verifyLetters(*this, letters)))
    return failure();
  for (char letter : letters.results[0])
    if (letters.operands[0].find(letter) == std::string::npos) // column_sum_c1
      return emitOpError() << "expected letter '" << letter
                           << "' of the result to stand in the input, but got "
                              "\""
                           << getSpec() << "\"";
  return success();
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

LogicalResult RmsNormOp::verify() {
  if (!(getEps().convertToDouble() > 0)) // norm_c2
    return emitOpError() << "expected eps to be positive, but got "
                         << getEps().convertToDouble();
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult RmsNormGradOp::verify() {
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult RmsNormWeightGradOp::verify() {
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult LayerNormOp::verify() {
  if (!(getEps().convertToDouble() > 0)) // norm_c2
    return emitOpError() << "expected eps to be positive, but got "
                         << getEps().convertToDouble();
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult LayerNormGradOp::verify() {
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult LayerNormWeightGradOp::verify() {
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// rope_c4: scaling has a known type and the numbers that the type needs.
static LogicalResult verifyScaling(RopeOp op) {
  std::optional<DictionaryAttr> scaling = op.getScaling();
  if (!scaling)
    return success();
  auto type = scaling->getAs<StringAttr>("rope_type");
  bool isLlama3 = type && type.getValue() == "llama3";
  if (!isLlama3 && !(type && type.getValue() == "linear")) // rope_c4
    return op.emitOpError()
           << "expected rope_type to be \"linear\" or \"llama3\", but got "
           << *scaling;
  SmallVector<StringRef> numbers = {"factor"};
  if (isLlama3)
    numbers.append({"low_freq_factor", "high_freq_factor"});
  for (StringRef key : numbers)
    if (!scaling->getAs<FloatAttr>(key)) // rope_c4
      return op.emitOpError() << "expected scaling to have the number '" << key
                              << "', but got " << *scaling;
  if (isLlama3 &&
      !scaling->getAs<IntegerAttr>("original_max_position_embeddings"))
    return op.emitOpError() // rope_c4
           << "expected scaling to have the integer "
              "'original_max_position_embeddings', but got "
           << *scaling;
  return success();
}

LogicalResult RopeOp::verify() {
  if (!getLetters().contains('s')) // rope_c1
    return emitOpError() << "expected letters to contain 's', but got \""
                         << getLetters() << "\"";
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  int64_t width = getInput().getType().getShape().back();
  if (width % 2 != 0) // rope_c2
    return emitOpError() << "expected the last dim to be even, but got "
                         << width;
  if (!(getTheta().convertToDouble() > 0)) // rope_c3
    return emitOpError() << "expected theta to be positive, but got "
                         << getTheta().convertToDouble();
  return verifyScaling(*this);
}

/// attention_c1: a causal mask needs as many keys as queries.
static LogicalResult verifyCausal(Operation *op, bool causal, int64_t queries,
                                  int64_t keys) {
  if (causal && queries != keys) // attention_c1
    return op->emitOpError() << "expected causal attention to have as many keys"
                                " as queries ("
                             << queries << "), but got " << keys;
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  return verifyCausal(*this, getCausal(), getQ().getType().getDimSize(0),
                      getK().getType().getDimSize(0));
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  return verifyCausal(*this, getCausal(), getQ().getType().getDimSize(0),
                      getK().getType().getDimSize(0));
}

//===----------------------------------------------------------------------===//
// Activations and the update
//===----------------------------------------------------------------------===//

LogicalResult SwigluOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult SwigluGradOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult GeluOp::verify() { return verifyLetters(*this, getDimLetters()); }
LogicalResult GeluGradOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult AdamwOp::verify() {
  return verifyLetters(*this, getDimLetters());
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult EmbeddingGradOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult AddPositionsOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  int64_t sequence = getInput().getType().getDimSize(0);
  int64_t rows = getTable().getType().getDimSize(0);
  if (rows < sequence) // add_positions_c1
    return emitOpError() << "expected the table to have at least " << sequence
                         << " rows, but got " << rows;
  return success();
}
LogicalResult AddPositionsGradOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult MaxLogitOp::verify() {
  return verifyVocab(*this, getDimLetters(), getValidVocab());
}
LogicalResult SumExpOp::verify() {
  return verifyVocab(*this, getDimLetters(), getValidVocab());
}
LogicalResult TargetLogitOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult TokenLossOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult SoftmaxGradOp::verify() {
  return verifyVocab(*this, getDimLetters(), getValidVocab());
}
