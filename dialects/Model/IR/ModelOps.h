//===- ModelOps.h - Ops of the model dialect --------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS_H
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS_H

#include "dialects/Model/IR/ModelDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Model/IR/ModelInterfaces.h.inc"

namespace shardwright::model {
class ReturnOp;
} // namespace shardwright::model

#define GET_OP_CLASSES
#include "dialects/Model/IR/ModelOps.h.inc"

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS_H
