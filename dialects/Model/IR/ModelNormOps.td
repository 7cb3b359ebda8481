//===- ModelNormOps.td - Row norms and their gradients -----*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RmsNormOp : Model_ForwardOp<"rms_norm",
    (ins Model_Float:$input, Model_Float:$weight),
    (ins StrAttr:$letters, F64Attr:$eps,
         DefaultValuedAttr<BoolAttr, "false">:$unit_offset,
         OptionalAttr<StrAttr>:$columns)> {
  let summary = "Root-mean-square norm of rows";
  let description = [{
    Computes, per row (a row goes along the last dim, or along the dims that
    `columns` names), `rstd = 1 / sqrt(mean(input^2) + eps)` and
    `output = input * rstd * weight`. `unit_offset` puts `1 + weight` in place
    of `weight`.

    Constraints (besides space_c1 to space_c3):
    * (norm_c1) there are at least two letters.
    * (norm_c2) `eps` is positive.
    * (norm_c3) `columns` are the last ones of `letters`, and not all.

    Factors: letters of the row stay whole on a rank, the others are parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %y, %rstd = model.rms_norm %x, %w in stream label "attn_norm"
        {letters = "sbh", eps = 1.0e-5 : f64}
        : (tensor<8x1x16xf32>, tensor<16xf32>)
        -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$rstd);
}

def Model_RmsNormGradOp : Model_ComputeOp<"rms_norm_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight,
         Model_Float:$rstd),
    (ins StrAttr:$letters, DefaultValuedAttr<BoolAttr, "false">:$unit_offset,
         OptionalAttr<StrAttr>:$columns)> {
  let summary = "Gradient of rms_norm with respect to its input";
  let description = [{
    Computes, per row, with `g = dy * weight` (`1 + weight` if `unit_offset`)
    and `u = input * rstd`, `dx = rstd * (g - u * mean(g * u))`.

    Constraints: norm_c1, norm_c3, space_c1 to space_c3.

    Factors: letters of the row stay whole on a rank, the others are parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.rms_norm_grad %dy, %x, %w, %rstd in stream {letters = "sbh"}
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<16xf32>,
           tensor<8x1xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_RmsNormWeightGradOp : Model_ComputeOp<"rms_norm_weight_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$rstd),
    (ins StrAttr:$letters, OptionalAttr<StrAttr>:$columns)> {
  let summary = "Gradient of rms_norm with respect to its weight";
  let description = [{
    Computes `dweight = sum over rows of dy * input * rstd`.

    Constraints: norm_c1, norm_c3, space_c1 to space_c3.

    Factors: letters of the row parallel, the others a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %dw = model.rms_norm_weight_grad %dy, %x, %rstd in stream {letters = "sbh"}
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>)
        -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_Float:$dweight);
}

def Model_LayerNormOp : Model_ForwardOp<"layer_norm",
    (ins Model_Float:$input, Model_Float:$weight, Model_Float:$bias),
    (ins StrAttr:$letters, F64Attr:$eps)> {
  let summary = "Layer norm of rows";
  let description = [{
    Computes, per row (all dims but the last), `mean = mean(input)`,
    `rstd = 1 / sqrt(mean((input - mean)^2) + eps)` and
    `output = (input - mean) * rstd * weight + bias`.

    Constraints (besides space_c1 to space_c3):
    * (norm_c1) there are at least two letters.
    * (norm_c2) `eps` is positive.

    Factors: the last letter stays whole on a rank, the others are parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %y, %mean, %rstd = model.layer_norm %x, %w, %b in stream
        {letters = "sbh", eps = 1.0e-5 : f64}
        : (tensor<8x1x16xf32>, tensor<16xf32>, tensor<16xf32>)
        -> (tensor<8x1x16xf32>, tensor<8x1xf32>, tensor<8x1xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$mean,
                      Model_Float:$rstd);
}

def Model_LayerNormGradOp : Model_ComputeOp<"layer_norm_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight,
         Model_Float:$mean, Model_Float:$rstd), (ins StrAttr:$letters)> {
  let summary = "Gradient of layer_norm with respect to its input";
  let description = [{
    Computes, per row, with `g = dy * weight` and `u = (input - mean) * rstd`,
    `dx = rstd * (g - mean(g) - u * mean(g * u))`.

    Constraints: norm_c1, space_c1 to space_c3.

    Factors: the last letter stays whole on a rank, the others are parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.layer_norm_grad %dy, %x, %w, %mean, %rstd in stream
        {letters = "sbh"}
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<16xf32>,
           tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_LayerNormWeightGradOp : Model_ComputeOp<"layer_norm_weight_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$mean,
         Model_Float:$rstd), (ins StrAttr:$letters)> {
  let summary = "Gradient of layer_norm with respect to its weight";
  let description = [{
    Computes `dweight = sum over rows of dy * (input - mean) * rstd`. The
    gradient of the bias is a `column_sum`.

    Constraints: norm_c1, space_c1 to space_c3.

    Factors: the last letter parallel, the others a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %dw = model.layer_norm_weight_grad %dy, %x, %mean, %rstd in stream
        {letters = "sbh"}
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>,
           tensor<8x1xf32>) -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_Float:$dweight);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS
