//===- Passes.td - Passes of passes/Verify -----------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_VERIFY_PASSES
#define SHARDWRIGHT_PASSES_VERIFY_PASSES

include "passes/Phase/PhasePass.td"

def VerifyPhasePass : Pass<"sw-verify-phase", "::mlir::ModuleOp"> {
  let summary = "Checks the contract of the phase that a module is in";
  let description = [{
    The phase is the module attribute `sw.phase`, one of `imported`,
    `differentiated`, `planned`, `partitioned`, `scheduled`, `allocated`,
    `lowered`. Reads only; all breaches are reported together. This is the one
    place that states what a phase is. Every other pass checks the contract of
    the phase that it reads, too, before it does anything.

    Contracts:
    * (phase_c1) The marker is there, and is the one that the option `phase`
      wants.
    * (phase_c2) Legal dialects. Up to `differentiated`: `model`. `planned`:
      also `plan` and `spmd.stage`. From `partitioned` to `allocated`: `model`
      and `spmd`. `lowered`: `rt`, with `model` ops inside kernels, the
      declarations and `spmd.stage`; no `model.kind`.
    * (phase_c3) `model.program` holds name, family, sequence, vocab, layers,
      heads, kv_heads, head_dim, hidden and ffn.
    * (phase_c4) Up to `differentiated`, one `model.stack`, whose kinds exist
      (in `differentiated` as `@<kind>.none.forward`).
    * (phase_c5) From `planned` on, the module has `plan.mesh` and `plan.text`,
      and every compute op of a kind has `plan.axes`. In `planned` every tensor
      type of a kind carries `#plan.sh`; in all other phases none does.
    * (phase_c6) From `planned` on, one `spmd.stage` per coordinate of `pp`, in
      order.
    * (phase_c7) Each run of a stage names functions that exist.
    * (phase_c8) In `imported` kinds have no part and no policy. Later they have
      kind, policy and part, and are named `<kind>.<policy>.<part>`.
    * (phase_c9) Every argument has `model.arg`, every result `model.res`, with
      indices from 0 to 2^31 - 1; a parameter has a `model.param` of the kind
      with that index and the same type.
    * (phase_c10) From `scheduled` on, stages have `schedule` and `slots`, at
      least one of each chunk.
    * (phase_c11) From `allocated` on, stages have `arena`; in `allocated` kinds
      have `workspace_bytes`, their arguments, results and ops `spmd.address`.

    ```mlir
    module attributes {sw.phase = "imported", model.program = {...}} { ... }
    ```
  }];
  let options = [Option<"phase", "phase", "std::string", "\"\"",
                        "Phase that is wanted; empty takes any">];
}

def CountLedgerPass : PhasePass<"sw-count-ledger", ["Partitioned", "Scheduled", "Allocated"]> {
  let summary = "Prints what a rank of each stage does in one step";
  let description = [{
    Input contract: phase `partitioned`, `scheduled` or `allocated`. Reads only.
    Prints, per stage, calls and bytes of every collective, flops and bytes of
    memory, counted from the types and ops of the module. Saved bytes are known
    from `scheduled` on, workspace from `allocated` on; before, they are 0.
  }];
  let options = [Option<"json", "json", "bool", "false",
                        "One JSON object a stage instead of text">];
}

def VerifyLedgerPass : PhasePass<"sw-verify-ledger", ["Partitioned", "Scheduled", "Allocated"]> {
  let summary = "Compares the counted ledger with the predicted one";
  let description = [{
    Input contract: phase `partitioned`, `scheduled` or `allocated`, with
    `plan.text` and `plan.program`. Reads only; an error per stage lists the
    lines that differ. All numbers are compared as exact integers, but the
    workspace: counted <= predicted <= 1.25 * counted. From `allocated` on, the
    arena must have the counted sizes.
  }];
}

def VerifyAllocationPass : PhasePass<"sw-verify-allocation", ["Allocated"]> {
  let summary = "Checks that no value is overwritten while it is needed";
  let description = [{
    Input contract: phase `allocated`. Reads only. Runs the ops of every
    function over a picture of the memory: what an op reads must be there, its
    results must lie apart from its operands (an all-reduce may work in place),
    and the buffers of a fusion group must lie apart from each other. A weight
    gradient runs behind its data gradient and finds what that has kept.
  }];
}

#endif // SHARDWRIGHT_PASSES_VERIFY_PASSES
