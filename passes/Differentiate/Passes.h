//===- Passes.h - Passes of passes/Differentiate ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES_H
#define SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

#define GEN_PASS_DECL
#include "passes/Differentiate/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Differentiate/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES_H
