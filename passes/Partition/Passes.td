//===- Passes.td - Passes of passes/Partition -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_PARTITION_PASSES
#define SHARDWRIGHT_PASSES_PARTITION_PASSES

include "passes/Phase/PhasePass.td"

def InsertReshardsPass : PhasePass<"sw-insert-reshards", ["Planned"]> {
  let summary = "Makes every change of a sharding an op";
  let description = [{
    Input contract: phase `planned`, as `sw-apply-plan` leaves it: every value
    has the sharding in which it is produced, whatever its uses want.
    Output contract: phase `planned`; every use gets a value that lies as it
    wants. The ops are exactly the lists of `planReshards`, in their order and
    at the places that `planVariant` gives; this pass decides nothing.

    ```mlir
    %p = model.contract %a, %w in mlp ...   // partial=sum["tp"]
    %r = plan.reshard %p all_reduce axes ["tp"]
        : tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]], partial=sum["tp"]>>
        -> tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
    ```
  }];
  let dependentDialects = ["::shardwright::plan::PlanDialect"];
}

def PartitionPass : PhasePass<"sw-partition", ["Planned"]> {
  let summary = "Rewrites a planned program into the program of one rank";
  let description = [{
    Input contract: phase `planned` after `sw-insert-reshards` (every tensor
    type carries `#plan.sh`; every change of it is a `plan.reshard`).
    Output contract: phase `partitioned`. Types are those of one rank's part,
    without encoding; each reshard is the one `spmd` op that it names, so the
    bytes moved equal those of the plan's ledger. Model ops keep `plan.axes`.
    A result that stays partial (parameter gradients, the loss) says over which
    axes in the result attribute `plan.partial`.

    ```mlir
    %r = spmd.all_reduce %p axes ["tp"] sum
        : tensor<8x1x16xf32> -> tensor<8x1x16xf32>
    ```
  }];
  let dependentDialects = ["::shardwright::plan::PlanDialect",
                           "::shardwright::spmd::SpmdDialect"];
}

#endif // SHARDWRIGHT_PASSES_PARTITION_PASSES
