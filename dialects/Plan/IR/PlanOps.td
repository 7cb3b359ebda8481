//===- PlanOps.td - The one op of plan ----------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANOPS

include "dialects/Plan/IR/PlanAttrs.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_ReshardOp : Op<Plan_Dialect, "reshard", [Pure]> {
  let summary = "Changes the sharding of a value by one collective";
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
