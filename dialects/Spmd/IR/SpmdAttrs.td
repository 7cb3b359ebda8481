//===- SpmdAttrs.td - Actions ------------------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDATTRS
#define SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDATTRS

include "dialects/Spmd/IR/SpmdDialect.td"
include "dialects/SignedInteger.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Spmd_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::shardwright::spmd";
  let genSpecializedAttr = 0;
}

// Same numbers as sw_rt_op.
def Spmd_ReduceKind : Spmd_Enum<"ReduceKind", "reduction of a collective", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">]>;
def Spmd_ReduceKindAttr : EnumAttr<Spmd_Dialect, Spmd_ReduceKind, "reduce">;

// Same numbers as cost::ActionKind and sw_rt_action_kind.
def Spmd_ActionKind : Spmd_Enum<"ActionKind", "action of a schedule", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"BackwardData", 1, "backward_data">,
  I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
  I32EnumAttrCase<"SendForward", 3, "send_forward">,
  I32EnumAttrCase<"RecvForward", 4, "recv_forward">,
  I32EnumAttrCase<"SendBackward", 5, "send_backward">,
  I32EnumAttrCase<"RecvBackward", 6, "recv_backward">,
  I32EnumAttrCase<"Reduce", 7, "reduce">,
  I32EnumAttrCase<"Step", 8, "step">]>;

def Spmd_ActionAttr : AttrDef<Spmd_Dialect, "Action"> {
  let mnemonic = "action";
  let summary = "One action of a stage's schedule";
  let description = [{
    What a stage does, with which microbatch, in which activation slot, and of
    which of its chunks (virtual stages), 0 if it has one. `takes` is the border
    buffer that it reads (a send what leaves, a data gradient what arrived, or
    what the chunk behind left on this very stage), `leaves` the one that it
    writes (a forward its stream, a data gradient its gradient, a receive of a
    gradient what arrives); `peer` is the index of the stage at the other end of
    a transfer. What an action does not have is -1 and not printed.

    Constraints:
    * (action_c1) microbatch, slot and chunk are at least 0; takes, leaves and
      peer at least -1.

    Examples: `#spmd.action<forward, 3, 1>`,
    `#spmd.action<send_forward, 3, 0, chunk 1 takes 2 peer 0>`.
  }];
  let parameters = (ins EnumParameter<Spmd_ActionKind>:$kind,
                        "int64_t":$microbatch, "int64_t":$slot,
                        DefaultValuedParameter<"int64_t", "0">:$chunk,
                        DefaultValuedParameter<"int64_t", "-1">:$takes,
                        DefaultValuedParameter<"int64_t", "-1">:$leaves,
                        DefaultValuedParameter<"int64_t", "-1">:$peer);
  let assemblyFormat = [{
    `<` $kind `,` $microbatch `,` $slot (`,` `chunk` $chunk^)?
    (`takes` $takes^)? (`leaves` $leaves^)? (`peer` $peer^)? `>`
  }];
  let genVerifyDecl = 1;
}

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDATTRS
