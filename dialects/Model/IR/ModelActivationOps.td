//===- ModelActivationOps.td - Activations and the update ---*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS

include "dialects/Model/IR/ModelBase.td"

def Model_SwigluOp : Model_ForwardOp<"swiglu",
    (ins Model_Float:$gate, Model_Float:$up), (ins StrAttr:$letters)> {
  let summary = "Gated activation: silu(gate) * up";
  let results = (outs Model_Float:$result);
}

def Model_SwigluGradOp : Model_ComputeOp<"swiglu_grad",
    (ins Model_Float:$dy, Model_Float:$gate, Model_Float:$up),
    (ins StrAttr:$letters)> {
  let summary = "Gradient of swiglu";
  let results = (outs Model_Float:$dgate, Model_Float:$dup);
}

def Model_GeluOp : Model_ForwardOp<"gelu", (ins Model_Float:$input),
    (ins StrAttr:$letters, BoolAttr:$approximate)> {
  let summary = "Gaussian error linear unit";
  let results = (outs Model_Float:$result);
}

def Model_GeluGradOp : Model_ComputeOp<"gelu_grad",
    (ins Model_Float:$dy, Model_Float:$input),
    (ins StrAttr:$letters, BoolAttr:$approximate)> {
  let summary = "Gradient of gelu";
  let results = (outs Model_Float:$dx);
}

def Model_AdamwOp : Model_ComputeOp<"adamw",
    (ins Model_Float:$grad, Model_Float:$master, Model_Float:$m,
         Model_Float:$v),
    (ins StrAttr:$letters)> {
  let summary = "AdamW update of one flat bucket";
  let results = (outs Model_Float:$new_master, Model_Float:$new_m,
                      Model_Float:$new_v, Model_Float:$param);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS
