//===- ModelAttrs.td - Enums and attributes of model -------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTRS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTRS

include "dialects/Model/IR/ModelDialect.td"
include "dialects/SignedInteger.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Model_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::shardwright::model";
  let genSpecializedAttr = 0;
}

// Same names and numbers as cost::Segment; ModelDialect.cpp asserts it.
def Model_Segment : Model_Enum<"Segment", "part of a step sharded alike", [
  I32EnumAttrCase<"Stream", 0, "stream">,
  I32EnumAttrCase<"Attention", 1, "attention">,
  I32EnumAttrCase<"Mlp", 2, "mlp">,
  I32EnumAttrCase<"Embed", 3, "embed">,
  I32EnumAttrCase<"Head", 4, "head">,
  I32EnumAttrCase<"Loss", 5, "loss">,
  I32EnumAttrCase<"Update", 6, "update">,
  I32EnumAttrCase<"Router", 7, "router">,
  I32EnumAttrCase<"Experts", 8, "experts">]>;
def Model_SegmentAttr : EnumAttr<Model_Dialect, Model_Segment, "segment">;

def Model_Score : Model_Enum<"Score", "score of an expert from its logit", [
  I32EnumAttrCase<"Softmax", 0, "softmax">,
  I32EnumAttrCase<"Sigmoid", 1, "sigmoid">,
  I32EnumAttrCase<"Chosen", 2, "chosen">]>;
def Model_ScoreAttr : EnumAttr<Model_Dialect, Model_Score, "score"> {
  let assemblyFormat = "`<` $value `>`";
}

def Model_Part : Model_Enum<"Part", "function of a kind", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"DataGrad", 1, "data_grad">,
  I32EnumAttrCase<"WeightGrad", 2, "weight_grad">]>;
def Model_PartAttr : EnumAttr<Model_Dialect, Model_Part, "part"> {
  let assemblyFormat = "`<` $value `>`";
}

def Model_Gate : Model_Enum<"Gate", "activation of a gate", [
  I32EnumAttrCase<"Silu", 0, "silu">,
  I32EnumAttrCase<"Gelu", 1, "gelu">,
  I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">]>;
def Model_GateAttr : EnumAttr<Model_Dialect, Model_Gate, "gate"> {
  let assemblyFormat = "`<` $value `>`";
}

// Same numbers as cost::Recompute.
def Model_Recompute : Model_Enum<"Recompute", "recompute policy", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Selective", 1, "selective">,
  I32EnumAttrCase<"Full", 2, "full">]>;
def Model_RecomputeAttr
    : EnumAttr<Model_Dialect, Model_Recompute, "recompute"> {
  let assemblyFormat = "`<` $value `>`";
}

// Same numbers as cost::Init and as sw_rt_parameter.init.
def Model_Init : Model_Enum<"Init", "initial values of a parameter", [
  I32EnumAttrCase<"Zeros", 0, "zeros">,
  I32EnumAttrCase<"Ones", 1, "ones">,
  I32EnumAttrCase<"Normal", 2, "normal">]>;
def Model_InitAttr : EnumAttr<Model_Dialect, Model_Init, "init">;

// Same numbers as cost::ArgKind.
def Model_ArgKind : Model_Enum<"ArgKind", "what an argument of a kind is", [
  I32EnumAttrCase<"StreamIn", 0, "stream_in">,
  I32EnumAttrCase<"StreamGrad", 1, "stream_grad">,
  I32EnumAttrCase<"Parameter", 2, "parameter">,
  I32EnumAttrCase<"Saved", 3, "saved">,
  I32EnumAttrCase<"Kept", 4, "kept">,
  I32EnumAttrCase<"Tokens", 5, "tokens">,
  I32EnumAttrCase<"Labels", 6, "labels">]>;

// Same numbers as cost::ResultKind.
def Model_ResultKind : Model_Enum<"ResultKind", "what a result of a kind is", [
  I32EnumAttrCase<"StreamOut", 0, "stream_out">,
  I32EnumAttrCase<"StreamGrad", 1, "stream_grad">,
  I32EnumAttrCase<"Saved", 2, "saved">,
  I32EnumAttrCase<"Kept", 3, "kept">,
  I32EnumAttrCase<"ParameterGrad", 4, "parameter_grad">,
  I32EnumAttrCase<"Loss", 5, "loss">]>;

class Model_Attr<string name, string attrMnemonic>
    : AttrDef<Model_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Model_ArgAttr : Model_Attr<"Arg", "arg"> {
  let summary = "What an argument of a kind is";
  let description = [{
    Stands under the name `model.arg` on each argument of a `model.kind`.
    `index` counts within its kind: number of the parameter, of the saved or
    kept value; 0 where there can be only one.

    Example: `#model.arg<parameter, 3>`.
  }];
  let parameters = (ins EnumParameter<Model_ArgKind>:$kind, "int64_t":$index);
  let assemblyFormat = "`<` $kind `,` $index `>`";
}

def Model_ResAttr : Model_Attr<"Res", "res"> {
  let summary = "What a result of a kind is";
  let description = [{
    Stands under the name `model.res` on each result of a `model.kind`;
    `index` as in `#model.arg`.

    Example: `#model.res<saved, 0>`.
  }];
  let parameters = (ins EnumParameter<Model_ResultKind>:$kind,
                        "int64_t":$index);
  let assemblyFormat = "`<` $kind `,` $index `>`";
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTRS
