//===- RtOps.h - Ops of the rt dialect --------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_RT_IR_RTOPS_H
#define SHARDWRIGHT_DIALECTS_RT_IR_RTOPS_H

#include "dialects/Rt/IR/RtDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/Rt/IR/RtOps.h.inc"

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTOPS_H
