//===- Passes.td - Passes of passes/Lower -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_PASSES
#define SHARDWRIGHT_PASSES_LOWER_PASSES

include "passes/Phase/PhasePass.td"

def SpmdToRtPass : PhasePass<"sw-spmd-to-rt", ["Allocated"]> {
  let summary = "Lowers allocated functions to runtime calls and kernels";
  let description = [{
    Input contract: phase `allocated` (every value has its `spmd.address`).
    Output contract: phase `lowered`: each `model.kind` is an `rt.func` of the
    same name, whose ops are one call each. Collectives keep their number,
    order, group and bytes.

    Contractions become matmuls: the letters of the result split into those of
    lhs (m) and those of rhs (n), the letters that only the operands share are
    k; a contraction whose letters do not lie together in that way is an error.
    A result at the address of a gradient is accumulated.

    Row ops become kernels, equal ones shared by all functions. Adjacent row
    ops with the same `fusion_group` attribute form one kernel.

    Before:
    ```mlir
    %y = model.contract %x, %w in mlp {spec = "sbh,fh->sbf",
        spmd.address = [#rt.addr<workspace, 0>]}
        : (tensor<8x2x16xf32>, tensor<32x16xf32>) -> tensor<8x2x32xf32>
    ```
    After:
    ```mlir
    rt.matmul #rt.addr<stream_in, 0>, #rt.addr<params, 0>
        -> #rt.addr<workspace, 0> sizes 16 x 32 x 16 : f32 {transpose_b}
    ```
  }];
  let dependentDialects = ["::shardwright::rt::RtDialect"];
}

#endif // SHARDWRIGHT_PASSES_LOWER_PASSES
