//===- Passes.td - Passes of passes/Lower -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_PASSES
#define SHARDWRIGHT_PASSES_LOWER_PASSES

include "mlir/Pass/PassBase.td"

#endif // SHARDWRIGHT_PASSES_LOWER_PASSES
