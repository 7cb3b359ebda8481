//===- SpmdDialect.td - The spmd dialect -------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT
#define SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT

include "mlir/IR/OpBase.td"

def Spmd_Dialect : Dialect {
  let name = "spmd";
  let cppNamespace = "::shardwright::spmd";
  let summary = "The program of one rank: local shapes and collectives";
  let description = [{
    Collectives on named mesh axes, at the local shapes of a rank, and the
    stages of the pipeline with their action lists. All ranks run the same
    program; a group of a collective is the set of ranks that differ only on
    its axes, ordered row-major. It leaves out addresses of buffers (until the
    phase `allocated`) and how a collective is carried out.

    Compute ops stay `model` ops at local shapes; they keep `plan.axes`, from
    which the origin of a factor on a rank follows: coordinate over the axes
    times the local extent.

    Created by `sw-partition` and the passes of `passes/Schedule`, consumed by
    `sw-spmd-to-rt` and by the pass that counts the ledger.

    Discardable attributes, from phase `allocated`:
    * `spmd.address` on an op: array of `#rt.addr`, one per result; as an
      argument or result attribute of a kind: one `#rt.addr`;
    * `workspace_bytes` on a kind.
  }];
  let useDefaultAttributePrinterParser = 1;
}

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDDIALECT
