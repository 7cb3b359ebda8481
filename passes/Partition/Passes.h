//===- Passes.h - Passes of passes/Partition ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PARTITION_PASSES_H
#define SHARDWRIGHT_PASSES_PARTITION_PASSES_H

#include "passes/Phase/PhasePass.h"

namespace shardwright {

#define GEN_PASS_DECL
#include "passes/Partition/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Partition/Passes.h.inc"

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PARTITION_PASSES_H
