//===- PlanOps.td - The one op of plan ---------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS

include "dialects/Plan/IR/PlanAttrs.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_ReshardOp : Op<Plan_Dialect, "reshard", [Pure]> {
  let summary = "Changes the sharding of a value by one collective";
  let description = [{
    The same value, lying otherwise on the mesh; exactly one collective of the
    list that `cost_model/Reshard` makes:
    `all_reduce` finishes the partial over `axes`; `reduce_scatter` does, and
    shards `dim` by them; `all_gather` undoes the inner axes of `dim`; `slice`
    shards `dim` by keeping this rank's part.

    Constraints:
    * (reshard_c1) input and result differ only in their encoding.
    * (reshard_c2) both carry `#plan.sh`.
    * (reshard_c3) the collective applies to the input: reductions to a value
      partial over `axes`, others to a dim of the tensor, a gather to a dim
      whose inner axes are `axes`.
    * (reshard_c4) the result has the sharding that the collective gives.

    Factors: none: it computes nothing.
    Work: no flops; the payload is this rank's part of the input.

    Example:
    ```mlir
    %r = plan.reshard %p reduce_scatter axes ["tp"] dim 0
        : tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]], partial=sum["tp"]>>
        -> tensor<8x2x16xf32, #plan.sh<dims=[["tp"],["dp"],[]]>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input,
                       Plan_CollectiveAttr:$collective,
                       StrArrayAttr:$axes,
                       DefaultValuedAttr<Int64Attr, "-1">:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `` $collective `axes` $axes (`dim` $dim^)? attr-dict `:`
    type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS
