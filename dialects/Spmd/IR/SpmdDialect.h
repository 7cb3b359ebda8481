//===- SpmdDialect.h - The spmd dialect and its attributes ------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT_H
#define SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/Spmd/IR/SpmdDialect.h.inc"
#include "dialects/Spmd/IR/SpmdEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Spmd/IR/SpmdAttrs.h.inc"

namespace shardwright::spmd {

/// Names of discardable attributes.
constexpr llvm::StringLiteral kAddressAttr("spmd.address");
constexpr llvm::StringLiteral kWorkspaceAttr("workspace_bytes");
/// Phase marker on the module, see sw-verify-phase.
constexpr llvm::StringLiteral kPhaseAttr("sw.phase");

} // namespace shardwright::spmd

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT_H
