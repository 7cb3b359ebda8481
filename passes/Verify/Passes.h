//===- Passes.h - Passes of passes/Verify ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_VERIFY_PASSES_H
#define SHARDWRIGHT_PASSES_VERIFY_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

#define GEN_PASS_DECL
#include "passes/Verify/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Verify/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_VERIFY_PASSES_H
