//===- ModelNormOps.td - Row norms and their gradients ------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RmsNormOp : Model_ForwardOp<"rms_norm",
    (ins Model_Float:$input, Model_Float:$weight),
    (ins StrAttr:$letters, F64Attr:$eps)> {
  let summary = "Root-mean-square norm of rows";
  let results = (outs Model_Float:$output, Model_Float:$rstd);
}

def Model_RmsNormGradOp : Model_ComputeOp<"rms_norm_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight,
         Model_Float:$rstd), (ins StrAttr:$letters)> {
  let summary = "Gradient of rms_norm with respect to its input";
  let results = (outs Model_Float:$dx);
}

def Model_RmsNormWeightGradOp : Model_ComputeOp<"rms_norm_weight_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$rstd),
    (ins StrAttr:$letters)> {
  let summary = "Gradient of rms_norm with respect to its weight";
  let results = (outs Model_Float:$dweight);
}

def Model_LayerNormOp : Model_ForwardOp<"layer_norm",
    (ins Model_Float:$input, Model_Float:$weight, Model_Float:$bias),
    (ins StrAttr:$letters, F64Attr:$eps)> {
  let summary = "Layer norm of rows";
  let results = (outs Model_Float:$output, Model_Float:$mean,
                      Model_Float:$rstd);
}

def Model_LayerNormGradOp : Model_ComputeOp<"layer_norm_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight,
         Model_Float:$mean, Model_Float:$rstd), (ins StrAttr:$letters)> {
  let summary = "Gradient of layer_norm with respect to its input";
  let results = (outs Model_Float:$dx);
}

def Model_LayerNormWeightGradOp : Model_ComputeOp<"layer_norm_weight_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$mean,
         Model_Float:$rstd), (ins StrAttr:$letters)> {
  let summary = "Gradient of layer_norm with respect to its weight";
  let results = (outs Model_Float:$dweight);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS
