#include "dialects/Model/IR/ModelDialect.h"

#include "dialects/Model/IR/ModelOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::model;

#include "dialects/Model/IR/ModelDialect.cpp.inc"
#include "dialects/Model/IR/ModelEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Model/IR/ModelAttrs.cpp.inc"

// costSegment() is a cast.
#define SAME_SEGMENT(NAME)                                                     \
  static_assert(static_cast<int>(model::Segment::NAME) ==                      \
                static_cast<int>(cost::Segment::NAME))
SAME_SEGMENT(Stream);
SAME_SEGMENT(Attention);
SAME_SEGMENT(Mlp);
SAME_SEGMENT(Embed);
SAME_SEGMENT(Head);
SAME_SEGMENT(Loss);
SAME_SEGMENT(Update);
SAME_SEGMENT(Router);
SAME_SEGMENT(Experts);
#undef SAME_SEGMENT

void ModelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Model/IR/ModelAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Model/IR/ModelOps.cpp.inc"
      >();
}

LogicalResult ModelDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                     unsigned argIndex,
                                                     NamedAttribute attr) {
  if (attr.getName() == kArgAttr && !isa<ArgAttr>(attr.getValue())) // kind_c2
    return op->emitOpError()
           << "expected '" << kArgAttr << "' of argument " << argIndex
           << " to be #model.arg<...>, but got " << attr.getValue();
  return success();
}

LogicalResult ModelDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                        unsigned resultIndex,
                                                        NamedAttribute attr) {
  if (attr.getName() == kResAttr && !isa<ResAttr>(attr.getValue())) // kind_c2
    return op->emitOpError()
           << "expected '" << kResAttr << "' of result " << resultIndex
           << " to be #model.res<...>, but got " << attr.getValue();
  return success();
}
