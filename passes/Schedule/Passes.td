//===- Passes.td - Passes of passes/Schedule -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_SCHEDULE_PASSES
#define SHARDWRIGHT_PASSES_SCHEDULE_PASSES

include "passes/Phase/PhasePass.td"

def OrderMicrobatchesPass : PhasePass<"sw-order-microbatches", ["Partitioned"]> {
  let summary = "Gives every stage its list of actions";
  let description = [{
    Input contract: phase `partitioned`.
    Output contract: phase `scheduled`. Each `spmd.stage` carries `schedule`,
    the actions of one optimizer step in order, and `slots`, the number of
    activation slots they use, chunk by chunk. The lists are `makeSchedule` of
    the plan and have passed `verify`, which simulates them with its own code.

    ```mlir
    spmd.stage @stage0 {index = 0, runs = [["dense.none", 2, 0]]}
    // after:
    spmd.stage @stage0 {index = 0, runs = [["dense.none", 2, 0]],
        slots = array<i64: 1>,
        schedule = [#spmd.action<forward, 0, 0>,
                    #spmd.action<backward_data, 0, 0>,
                    #spmd.action<backward_weight, 0, 0>,
                    #spmd.action<reduce, 0, 0>, #spmd.action<step, 0, 0>]}
    ```
  }];
  let dependentDialects = ["::shardwright::spmd::SpmdDialect"];
}

def GroupRowOpsPass : PhasePass<"sw-group-row-ops", ["Scheduled"]> {
  let summary = "Marks the row ops that become one kernel";
  let description = [{
    Input and output contract: phase `scheduled`. Consecutive norms and
    elementwise ops over the same rows (positions and sequences), each reading
    a result of the group before it, get the same `fusion_group` number; every
    other norm or elementwise op gets a number of its own. One group becomes one
    kernel.
  }];
}

def AllocatePass : PhasePass<"sw-allocate", ["Scheduled"]> {
  let summary = "Gives every value an address in a static arena";
  let description = [{
    Input contract: phase `scheduled`.
    Output contract: phase `allocated`. Every op result has `spmd.address`
    (array of `#rt.addr`, one per result), every argument and result of a kind
    too (one `#rt.addr`); kinds have `workspace_bytes`, stages `arena`: offsets
    and sizes of the parts as `sw_rt_arena` documents them. Chunks of a stage
    whose slots are of one size share them: their slots are numbered anew.

    Values that leave a function lie at their place from the start: saved
    values in the slot, gradients of parameters in the accumulators (results
    there are added to what the buffer holds, as is the loss), the stream where
    the next layer reads it. All other values are packed into the workspace by
    `pack`, which is what the predicted ledger uses; data and weight gradient
    are packed as one, because kept values live from the one into the other. The
    ops of a fusion group count as one point in time; an op leaves its group
    where the workspace would grow by it.

    ```mlir
    %y = model.contract %x, %w ... {spmd.address = [#rt.addr<workspace, 1024>]}
    ```
  }];
  let dependentDialects = ["::shardwright::spmd::SpmdDialect",
                           "::shardwright::rt::RtDialect"];
}

#endif // SHARDWRIGHT_PASSES_SCHEDULE_PASSES
