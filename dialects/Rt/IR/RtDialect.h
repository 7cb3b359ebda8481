//===- RtDialect.h - The rt dialect and its attributes ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT_H
#define SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/Rt/IR/RtDialect.h.inc"
#include "dialects/Rt/IR/RtEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Rt/IR/RtAttrs.h.inc"

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT_H
