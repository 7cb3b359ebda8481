//===- Passes.td - Passes of passes/Verify -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_VERIFY_PASSES
#define SHARDWRIGHT_PASSES_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def VerifyPhasePass : Pass<"sw-verify-phase", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of the phase that a module is in";
  let description = [{
    The phase is the module attribute `sw.phase`, one of `imported`,
    `differentiated`, `planned`, `partitioned`, `scheduled`, `allocated`,
    `lowered`. Reads only; all breaches are reported together. This is the one
    place that states what a phase is.

    Contracts:
    * (C1) The marker is there, and is the one that the option `phase` wants.
    * (C2) Legal dialects. Up to `differentiated`: `model`. `planned`: also
      `plan` and `spmd.stage`. From `partitioned` to `allocated`: `model` and
      `spmd`. `lowered`: `rt`, with `model` ops inside kernels, the
      declarations and `spmd.stage`; no `model.kind`.
    * (C3) `model.program` holds name, family, sequence, vocab, layers, heads,
      kv_heads, head_dim, hidden and ffn.
    * (C4) Up to `differentiated`, one `model.stack`, whose kinds exist (in
      `differentiated` as `@<kind>.none.forward`).
    * (C5) From `planned` on, the module has `plan.mesh` and `plan.text`, and
      every compute op of a kind has `plan.axes`. In `planned` every tensor
      type of a kind carries `#plan.sh`; in all other phases none does.
    * (C6) From `planned` on, one `spmd.stage` per coordinate of `pp`, in order.
    * (C7) Each run of a stage names functions that exist.
    * (C8) In `imported` kinds have no part and no policy. Later they have kind,
      policy and part, and are named `<kind>.<policy>.<part>`.
    * (C9) Every argument has `model.arg`, every result `model.res`; a parameter
      has a `model.param` of the kind with that index and the same type.
    * (C10) From `scheduled` on, stages have `schedule` and `slots`.
    * (C11) From `allocated` on, stages have `arena`; in `allocated` kinds have
      `workspace_bytes`, their arguments, results and ops `spmd.address`.

    ```mlir
    module attributes {sw.phase = "imported", model.program = {...}} { ... }
    ```
  }];
  let options = [Option<"phase", "phase", "std::string", "\"\"",
                        "Phase that is wanted; empty takes any">];
}

#endif // SHARDWRIGHT_PASSES_VERIFY_PASSES
