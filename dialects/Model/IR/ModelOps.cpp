#include "dialects/Model/IR/ModelOps.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace shardwright::model;

#include "dialects/Model/IR/ModelInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Model/IR/ModelOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KindOp
//===----------------------------------------------------------------------===//

void KindOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                   FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Region *body = state.addRegion();
  Block &block = body->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

ParseResult KindOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KindOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

ReturnOp KindOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

ArgAttr KindOp::getModelArg(unsigned index) {
  return dyn_cast_or_null<ArgAttr>(getArgAttr(index, kArgAttr));
}

ResAttr KindOp::getModelRes(unsigned index) {
  return dyn_cast_or_null<ResAttr>(getResultAttr(index, kResAttr));
}

void KindOp::setModelArg(unsigned index, ArgAttr attr) {
  setArgAttr(index, kArgAttr, attr);
}

void KindOp::setModelRes(unsigned index, ResAttr attr) {
  setResultAttr(index, StringAttr::get(getContext(), kResAttr), attr);
}
