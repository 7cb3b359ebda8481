//===- PlanOps.h - The ops of the plan dialect ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS_H
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS_H

#include "dialects/Plan/IR/PlanDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/Plan/IR/PlanOps.h.inc"

#endif // SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS_H
