//===- RtAttrs.td - Addresses ------------------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_RT_IR_RTATTRS
#define SHARDWRIGHT_DIALECTS_RT_IR_RTATTRS

include "dialects/Rt/IR/RtDialect.td"
include "dialects/SignedInteger.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Rt_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::shardwright::rt";
  let genSpecializedAttr = 0;
}

// Same numbers as sw_rt_base.
def Rt_Base : Rt_Enum<"Base", "what an address is relative to", [
  I32EnumAttrCase<"Params", 0, "params">,
  I32EnumAttrCase<"Grads", 1, "grads">,
  I32EnumAttrCase<"SharedParams", 2, "shared_params">,
  I32EnumAttrCase<"SharedGrads", 3, "shared_grads">,
  I32EnumAttrCase<"StreamIn", 4, "stream_in">,
  I32EnumAttrCase<"StreamOut", 5, "stream_out">,
  I32EnumAttrCase<"GradIn", 6, "grad_in">,
  I32EnumAttrCase<"GradOut", 7, "grad_out">,
  I32EnumAttrCase<"Saved", 8, "saved">,
  I32EnumAttrCase<"Workspace", 9, "workspace">,
  I32EnumAttrCase<"Tokens", 10, "tokens">,
  I32EnumAttrCase<"Labels", 11, "labels">,
  I32EnumAttrCase<"Loss", 12, "loss">]>;

// Same numbers as sw_rt_op.
def Rt_ReduceKind : Rt_Enum<"ReduceKind", "reduction of a collective", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">]>;
def Rt_ReduceKindAttr : EnumAttr<Rt_Dialect, Rt_ReduceKind, "reduce">;

def Rt_AddrAttr : AttrDef<Rt_Dialect, "Addr"> {
  let mnemonic = "addr";
  let summary = "Address of a buffer";
  let description = [{
    `offset` bytes after one of the bases that the runtime hands to a function.

    Constraints:
    * (addr_c1) `offset` is at least 0.

    Example: `#rt.addr<workspace, 1024>`.
  }];
  let parameters = (ins EnumParameter<Rt_Base>:$base, "int64_t":$offset);
  let assemblyFormat = "`<` $base `,` $offset `>`";
  let genVerifyDecl = 1;
}
def Rt_AddrArrayAttr
    : TypedArrayAttrBase<Rt_AddrAttr, "array of addresses">;

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTATTRS
