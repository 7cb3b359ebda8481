//===- ModelVerifyStructure.cpp - Verifiers of kinds, parameters, stack ---===//
#include "dialects/Model/IR/ModelOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::model;

LogicalResult KindOp::verify() {
  if (getBody().empty() || getBody().front().empty() ||
      !isa<ReturnOp>(getBody().front().back())) // kind_c1
    return emitOpError() << "expected a body that ends in 'model.return', but "
                            "got none";
  if (getSymName().empty()) // kind_c3
    return emitOpError() << "expected a name, but got an empty one";
  return success();
}

LogicalResult ReturnOp::verify() {
  auto kind = cast<KindOp>((*this)->getParentOp());
  auto wanted = kind.getFunctionType().getResults();
  if (getNumOperands() != wanted.size()) // return_c1
    return emitOpError() << "expected " << wanted.size() << " operands as '@"
                         << kind.getSymName() << "' has results, but got "
                         << getNumOperands();
  for (auto [index, type] : llvm::enumerate(getOperandTypes()))
    if (type != wanted[index]) // return_c2
      return emitOpError() << "expected operand " << index << " to have type "
                           << wanted[index] << ", but got " << type;
  return success();
}

LogicalResult ParamOp::verify() {
  RankedTensorType type = getTensorType();
  StringRef letters = getLetters();
  int64_t rank = type.getRank();
  if (static_cast<int64_t>(letters.size()) != rank) // param_c1
    return emitOpError() << "expected one letter per dim (" << rank
                         << "), but got \"" << letters << "\"";
  for (auto [index, letter] : llvm::enumerate(letters)) {
    cost::Role role;
    if (!cost::roleOfLetter(letter, role) ||
        letters.find(letter) != index) // param_c2
      return emitOpError() << "expected letters to be known and to differ, but "
                              "got \""
                           << letters << "\"";
  }
  if (static_cast<int64_t>(getHfStrides().size()) != rank) // param_c3
    return emitOpError() << "expected one stride per dim (" << rank
                         << "), but got " << getHfStrides().size();
  // param_c4: the last element lies inside the tensor of the file. A padded
  // vocabulary reaches past it, so only unpadded dims count.
  bool overflows = false;
  auto product = [&](int64_t lhs, int64_t rhs) {
    int64_t result = 0;
    overflows |= static_cast<bool>(llvm::MulOverflow(lhs, rhs, result));
    return result;
  };
  int64_t elements = 1;
  for (int64_t extent : getHfShape())
    elements = product(elements, extent);
  int64_t last = getHfOffset();
  for (auto [letter, size, stride] :
       llvm::zip(letters, type.getShape(), getHfStrides()))
    if (letter != 'v')
      overflows |= static_cast<bool>(
          llvm::AddOverflow(last, product(size - 1, stride), last));
  if (overflows) // param_c6
    return emitOpError() << "expected hf_shape, hf_strides and hf_offset to "
                            "count fewer than 2^63 elements";
  if (getHfOffset() < 0 || last >= elements) // param_c4
    return emitOpError() << "expected elements to lie inside the " << elements
                         << " of hf_shape, but got element " << last;
  if (getIndex() < 0) // param_c5
    return emitOpError() << "expected index to be at least 0, but got "
                         << getIndex();
  return success();
}

LogicalResult StackOp::verify() {
  for (Attribute run : getRuns()) {
    auto pair = dyn_cast<ArrayAttr>(run);
    if (!pair || pair.size() != 2 || !isa<StringAttr>(pair[0]) ||
        !isa<IntegerAttr>(pair[1])) // stack_c1
      return emitOpError() << "expected each run to be [\"kind\", count], but "
                              "got "
                           << run;
    if (cast<IntegerAttr>(pair[1]).getInt() < 1) // stack_c2
      return emitOpError() << "expected the count of " << pair[0]
                           << " to be at least 1, but got "
                           << cast<IntegerAttr>(pair[1]).getInt();
  }
  return success();
}
