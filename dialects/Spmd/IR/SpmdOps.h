//===- SpmdOps.h - Ops of the spmd dialect ----------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS_H
#define SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS_H

#include "dialects/Spmd/IR/SpmdDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/Spmd/IR/SpmdOps.h.inc"

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS_H
