//===- ModelLinearOps.td - Contractions, sums, biases -------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS

include "dialects/Model/IR/ModelBase.td"

def Model_ContractOp : Model_ForwardOp<"contract",
    (ins Model_Float:$lhs, Model_Float:$rhs), (ins StrAttr:$spec)> {
  let summary = "Contraction of two tensors";
  let results = (outs Model_Float:$result);
}

def Model_AddOp : Model_ForwardOp<"add",
    (ins Model_Float:$lhs, Model_Float:$rhs), (ins StrAttr:$letters)> {
  let summary = "Sum of two tensors of one shape";
  let results = (outs Model_Float:$result);
}

def Model_BiasAddOp : Model_ForwardOp<"bias_add",
    (ins Model_Float:$input, Model_Float:$bias),
    (ins StrAttr:$letters, StrAttr:$bias_letters)> {
  let summary = "Adds a bias that is repeated over the other dims";
  let results = (outs Model_Float:$result);
}

def Model_ColumnSumOp : Model_ComputeOp<"column_sum",
    (ins Model_Float:$input), (ins StrAttr:$spec)> {
  let summary = "Sum over the dims that the result drops";
  let results = (outs Model_Float:$result);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS
