//===- ModelLinearOps.td - Contractions, sums, biases ------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS

include "dialects/Model/IR/ModelBase.td"

def Model_ContractOp : Model_ForwardOp<"contract",
    (ins Model_Float:$lhs, Model_Float:$rhs), (ins StrAttr:$spec)> {
  let summary = "Contraction of two tensors";
  let description = [{
    Computes `result[R] = sum over the other letters of lhs[L] * rhs[M]` for
    `spec = "L,M->R"`. All linear layers and all their gradients are this op.

    Constraints (besides space_c1 to space_c3):
    * (contract_c1) every letter stands in at least two of `lhs`, `rhs` and
      `result`.
    * (contract_c2) `spec` has the form `"letters,letters->letters"`.

    Factors: letters of the result parallel, the others a sum. Linear in `lhs`
    (with `rhs` whole), so a partial `lhs` gives an equally partial result.
    Work: 2 flops per point of the space.

    Example:
    ```mlir
    %q = model.contract %x, %w in attention label "q_proj"
        {spec = "sbh,ngdh->sbngd"}
        : (tensor<8x1x16xf32>, tensor<2x3x4x16xf32>) -> tensor<8x1x2x3x4xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_AddOp : Model_ForwardOp<"add",
    (ins Model_Float:$lhs, Model_Float:$rhs), (ins StrAttr:$letters)> {
  let summary = "Sum of two tensors of one shape";
  let description = [{
    Computes `result = lhs + rhs`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel. Linear in both operands together: two sums partial
    over the same axes give such a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.add %x, %o in stream label "attn_residual" {letters = "sbh"}
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_BiasAddOp : Model_ForwardOp<"bias_add",
    (ins Model_Float:$input, Model_Float:$bias),
    (ins StrAttr:$letters, StrAttr:$bias_letters)> {
  let summary = "Adds a bias that is repeated over the other dims";
  let description = [{
    Computes `result[letters] = input[letters] + bias[bias_letters]`.

    Constraints (besides space_c1 to space_c3):
    * (bias_add_c1) `bias_letters` are the last ones of `letters`.

    Factors: all parallel. Not linear: a bias added to each partial sum would
    count several times.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.bias_add %q, %bias in attention
        {letters = "sbngd", bias_letters = "ngd"}
        : (tensor<8x1x2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_ColumnSumOp : Model_ComputeOp<"column_sum",
    (ins Model_Float:$input), (ins StrAttr:$spec)> {
  let summary = "Sum over the dims that the result drops";
  let description = [{
    Computes `result[R] = sum over the dropped letters of input[L]` for
    `spec = "L->R"`: the gradient of a bias.

    Constraints (besides space_c1 to space_c3):
    * (column_sum_c1) every letter of the result stands in the input.
    * (column_sum_c2) `spec` has the form `"letters->letters"`.

    Factors: letters of the result parallel, the others a sum. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %db = model.column_sum %dy in mlp {spec = "sbh->h"}
        : (tensor<8x1x16xf32>) -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLINEAROPS
