//===- PlanDialect.td - The plan dialect -------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT

include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::shardwright::plan";
  let summary = "How the values of a step lie on a mesh of ranks";
  let description = [{
    Attributes that a plan attaches to model IR: the mesh, the sharding of
    every value (as the encoding of its tensor type, whose shape stays global),
    and one op, the change of a sharding. It leaves out what a rank computes:
    that is `spmd`.

    Created by `sw-apply-plan` and `sw-insert-reshards`, consumed by
    `sw-partition`, which leaves only `plan.mesh`, `plan.text` and `plan.axes`.

    Discardable attributes:
    * `plan.mesh` on the module: `#plan.mesh<[pp=2,dp=2,tp=2]>`;
    * `plan.text` on the module: the canonical text of plan.json;
    * `plan.axes` on a model op: dictionary from the letter of a factor to the
      array of mesh axes that shard it; factors that are whole may be absent.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // SHARDWRIGHT_DIALECTS_PLAN_IR_PLANDIALECT
