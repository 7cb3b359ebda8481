//===- ModelAttentionOps.td - Attention and positions -------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RopeOp : Model_ForwardOp<"rope", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$theta,
         OptionalAttr<DictionaryAttr>:$scaling,
         DefaultValuedAttr<BoolAttr, "false">:$inverse)> {
  let summary = "Rotary position embedding";
  let results = (outs Model_Float:$result);
}

def Model_AttentionOp : Model_ForwardOp<"attention",
    (ins Model_Float:$q, Model_Float:$k, Model_Float:$v),
    (ins BoolAttr:$causal, F64Attr:$scale)> {
  let summary = "Softmax attention with grouped query heads";
  let results = (outs Model_Float:$output, Model_Float:$lse);
}

def Model_AttentionGradOp : Model_ComputeOp<"attention_grad",
    (ins Model_Float:$doutput, Model_Float:$q, Model_Float:$k, Model_Float:$v,
         Model_Float:$output, Model_Float:$lse),
    (ins BoolAttr:$causal, F64Attr:$scale)> {
  let summary = "Gradient of attention with respect to q, k and v";
  let results = (outs Model_Float:$dq, Model_Float:$dk, Model_Float:$dv);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS
