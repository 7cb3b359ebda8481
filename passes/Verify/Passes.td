//===- Passes.td - Passes of passes/Verify -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_VERIFY_PASSES
#define SHARDWRIGHT_PASSES_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

#endif // SHARDWRIGHT_PASSES_VERIFY_PASSES
