//===- Passes.h - Passes of passes/Schedule ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_SCHEDULE_PASSES_H
#define SHARDWRIGHT_PASSES_SCHEDULE_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

/// Attribute of row ops: number of the kernel that they become part of.
constexpr llvm::StringLiteral kFusionGroupAttr("fusion_group");

#define GEN_PASS_DECL
#include "passes/Schedule/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_SCHEDULE_PASSES_H
