#include "dialects/Spmd/IR/SpmdDialect.h"

#include "dialects/Spmd/IR/SpmdOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardwright::spmd;

#include "dialects/Spmd/IR/SpmdDialect.cpp.inc"
#include "dialects/Spmd/IR/SpmdEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Spmd/IR/SpmdAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Spmd/IR/SpmdOps.cpp.inc"

void SpmdDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Spmd/IR/SpmdAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Spmd/IR/SpmdOps.cpp.inc"
      >();
}
