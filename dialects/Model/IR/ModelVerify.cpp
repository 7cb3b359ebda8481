//===- ModelVerify.cpp - Verifiers of compute ops -------------------------===//
//
// Labels (`contract_c1`) are those of the op descriptions and of
// test/Dialect/Model/invalid.mlir.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/MakeSpace.h"

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

/// norm_c3: columns end the letters and leave one.
LogicalResult verifyColumns(Operation *op, StringRef letters,
                            std::optional<StringRef> columns) {
  if (columns && (columns->empty() || columns->size() >= letters.size() ||
                  !letters.ends_with(*columns))) // norm_c3
    return op->emitOpError()
           << "expected columns to be the last letters of \"" << letters
           << "\" and not all, but got \"" << *columns << "\"";
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

LogicalResult shardwright::model::verifyDimLetters(Operation *op,
                                                   const DimLetters &letters) {
  return verifyLetters(op, letters);
}

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

/// norm_c1, norm_c3: rows along `columns`.
template <typename OpTy> static LogicalResult verifyRows(OpTy op) {
  if (failed(verifyColumns(op, op.getLetters(), op.getColumns())))
    return failure();
  return verifyNorm(op, op.getLetters(), [&] { return op.getDimLetters(); });
}

/// norm_c4 besides: the part of a row that is here divides all of it.
template <typename OpTy> static LogicalResult verifyCountedRows(OpTy op) {
  if (failed(verifyRows(op)))
    return failure();
  const int64_t here = op.getWeight().getType().getNumElements();
  const auto count = static_cast<int64_t>(op.getCount());
  if (count < 1 || here == 0 || count % here != 0) // norm_c4
    return op.emitOpError() << "expected count to be a multiple of the "
                            << "elements of a row (" << here << "), but got "
                            << count;
  return success();
}

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
  if (failed(verifyColumns(*this, getLetters(), getColumns())))
    return failure();
  return verifyNorm(*this, getLetters(), [&] { return getDimLetters(); });
}
LogicalResult SquareSumOp::verify() { return verifyRows(*this); }
LogicalResult RmsApplyOp::verify() {
  if (!(getEps().convertToDouble() > 0)) // norm_c2
    return emitOpError() << "expected eps to be positive, but got "
                         << getEps().convertToDouble();
  return verifyCountedRows(*this);
}
LogicalResult RowDotOp::verify() { return verifyRows(*this); }
LogicalResult RmsApplyGradOp::verify() { return verifyCountedRows(*this); }
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
  bool isYarn = type && type.getValue() == "yarn";
  bool isLong = type && type.getValue() == "longrope";
  if (!isLlama3 && !isYarn && !isLong &&
      !(type && type.getValue() == "linear")) // rope_c4
    return op.emitOpError()
           << "expected rope_type to be \"linear\", \"llama3\", \"yarn\" or "
              "\"longrope\", but got "
           << *scaling;
  SmallVector<StringRef> numbers = {isLong ? "attention_factor" : "factor"};
  if (isLlama3)
    numbers.append({"low_freq_factor", "high_freq_factor"});
  if (isYarn)
    numbers.append({"beta_fast", "beta_slow", "attention_factor"});
  for (StringRef key : numbers)
    if (!scaling->getAs<FloatAttr>(key)) // rope_c4
      return op.emitOpError() << "expected scaling to have the number '" << key
                              << "', but got " << *scaling;
  if (isLong) {
    const int64_t width =
        op.getRotaryDim().value_or(op.getInput().getType().getShape().back());
    auto factors = scaling->getAs<DenseF64ArrayAttr>("factors");
    if (!factors || factors.size() != width / 2 ||
        llvm::any_of(factors.asArrayRef(),
                     [](double factor) { return !(factor > 0); })) // rope_c4
      return op.emitOpError() << "expected scaling to have " << width / 2
                              << " 'factors' above 0, but got " << *scaling;
  }
  if ((isLlama3 || isYarn) &&
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
  if (std::optional<int64_t> rotated = getRotaryDim()) {
    if (*rotated < 2 || *rotated > width || *rotated % 2 != 0) // rope_c5
      return emitOpError() << "expected rotary_dim to be even and from 2 to "
                           << width << ", but got " << *rotated;
  } else if (width % 2 != 0) // rope_c2
    return emitOpError() << "expected the last dim to be even, but got "
                         << width;
  if (!(getTheta().convertToDouble() > 0)) // rope_c3
    return emitOpError() << "expected theta to be positive, but got "
                         << getTheta().convertToDouble();
  return verifyScaling(*this);
}

/// attention_c1 to attention_c5.
template <typename OpTy> static LogicalResult verifyAttention(OpTy op) {
  if (failed(verifyLetters(op, op.getDimLetters())))
    return failure();
  ArrayRef<int64_t> query = op.getQ().getType().getShape();
  int64_t keys = op.getK().getType().getDimSize(0);
  if (op.getCausal() && query[0] != keys) // attention_c1
    return op.emitOpError() << "expected causal attention to have as many keys"
                               " as queries ("
                            << query[0] << "), but got " << keys;
  std::optional<int64_t> window = op.getWindow();
  if (window && (*window < 1 || !op.getCausal())) // attention_c2
    return op.emitOpError()
           << "expected window to be at least 1 and attention "
              "to be causal, but got "
           << *window << (op.getCausal() ? "" : " without causal");
  std::optional<APFloat> softcap = op.getSoftcap();
  if (softcap && !(softcap->convertToDouble() > 0)) // attention_c3
    return op.emitOpError() << "expected softcap to be positive, but got "
                            << softcap->convertToDouble();
  std::optional<int64_t> heads = op.getAlibiHeads();
  if (op.getAlibi().has_value() != heads.has_value() ||
      (heads && (*heads < 1 || *heads % (query[2] * query[3]) != 0)))
    return op.emitOpError() // attention_c4
           << "expected alibi and alibi_heads together, a multiple of the "
              "query heads ("
           << query[2] * query[3] << "), but got "
           << (heads ? std::to_string(*heads) : "no alibi_heads");
  std::optional<int64_t> chunk = op.getChunk();
  if (chunk && (*chunk < 1 || !op.getCausal() || window)) // attention_c5
    return op.emitOpError()
           << "expected chunk to be at least 1 and attention to be causal and "
              "without window, but got "
           << *chunk << (op.getCausal() ? "" : " without causal")
           << (window ? " with window" : "");
  return success();
}

LogicalResult ScalePositionsOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  if (!getLetters().contains('s')) // scale_positions_c1
    return emitOpError() << "expected letters to contain s, but got \""
                         << getLetters() << '"';
  if (getFloor() < 1) // scale_positions_c2
    return emitOpError() << "expected floor to be at least 1, but got "
                         << getFloor();
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }
LogicalResult AttentionGradOp::verify() { return verifyAttention(*this); }

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
LogicalResult ReluOp::verify() { return verifyLetters(*this, getDimLetters()); }
LogicalResult ReluGradOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult ScaleOp::verify() {
  return verifyLetters(*this, getDimLetters());
}
LogicalResult FillOp::verify() { return verifyLetters(*this, getDimLetters()); }

template <typename OpTy> static LogicalResult verifySoftcap(OpTy op) {
  if (!(op.getCap().convertToDouble() > 0)) // softcap_c1
    return op.emitOpError() << "expected cap to be positive, but got "
                            << op.getCap().convertToDouble();
  return verifyLetters(op, op.getDimLetters());
}
LogicalResult SoftcapOp::verify() { return verifySoftcap(*this); }
LogicalResult SoftcapGradOp::verify() { return verifySoftcap(*this); }

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
/// add_positions_c1, add_positions_c2.
static LogicalResult verifyPositions(Operation *op, int64_t offset,
                                     int64_t sequence, int64_t rows) {
  if (offset < 0) // add_positions_c2
    return op->emitOpError()
           << "expected offset to be at least 0, but got " << offset;
  if (rows < sequence + offset) // add_positions_c1
    return op->emitOpError() << "expected the table to have at least "
                             << sequence + offset << " rows, but got " << rows;
  return success();
}

LogicalResult AddPositionsOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  return verifyPositions(*this, getOffset(), getInput().getType().getDimSize(0),
                         getTable().getType().getDimSize(0));
}
LogicalResult AddPositionsGradOp::verify() {
  if (failed(verifyLetters(*this, getDimLetters())))
    return failure();
  return verifyPositions(*this, getOffset(), getDy().getType().getDimSize(0),
                         getDtable().getType().getDimSize(0));
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
