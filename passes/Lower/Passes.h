//===- Passes.h - Passes of passes/Lower ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_PASSES_H
#define SHARDWRIGHT_PASSES_LOWER_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

#define GEN_PASS_DECL
#include "passes/Lower/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Lower/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_LOWER_PASSES_H
