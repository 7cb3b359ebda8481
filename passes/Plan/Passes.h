//===- Passes.h - Passes of passes/Plan ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PLAN_PASSES_H
#define SHARDWRIGHT_PASSES_PLAN_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

#define GEN_PASS_DECL
#include "passes/Plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Plan/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PLAN_PASSES_H
