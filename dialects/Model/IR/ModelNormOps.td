//===- ModelNormOps.td - Row norms and their gradients -----*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELNORMOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RmsNormOp : Model_ForwardOp<"rms_norm",
    (ins Model_Float:$input, Model_Float:$weight),
    (ins StrAttr:$letters, F64Attr:$eps,
         DefaultValuedAttr<BoolAttr, "false">:$unit_offset)> {
  let summary = "Root-mean-square norm of rows";
  let description = [{
    Computes, per row (all dims but the last),
    `rstd = 1 / sqrt(mean(input^2) + eps)` and
    `output = input * rstd * weight`. `unit_offset` puts `1 + weight` in place
    of `weight`.

    Constraints (besides space_c1 to space_c3):
    * (norm_c1) there are at least two letters.
    * (norm_c2) `eps` is positive.

    Factors: the last letter stays whole on a rank, the others are parallel.
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
    (ins StrAttr:$letters,
         DefaultValuedAttr<BoolAttr, "false">:$unit_offset)> {
  let summary = "Gradient of rms_norm with respect to its input";
  let description = [{
    Computes, per row, with `g = dy * weight` (`1 + weight` if `unit_offset`)
    and `u = input * rstd`, `dx = rstd * (g - u * mean(g * u))`.

    Constraints: norm_c1, space_c1 to space_c3.

    Factors: the last letter stays whole on a rank, the others are parallel.
    Linear in `dy`.
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
    Computes `dweight = sum over rows of dy * input * rstd`. A row goes along
    the last dim, or along the dims that `columns` names.

    Constraints (besides space_c1 to space_c3):
    * (norm_c1) there are at least two letters.
    * (norm_c3) `columns` are the last ones of `letters`, and not all.

    Factors: letters of the row parallel, the others a sum. Linear in `dy`.
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

// A norm whose rows are split over ranks (over all heads together) takes two
// steps, as the loss does: a sum that ranks make in parts, and its use.

def Model_SquareSumOp : Model_ComputeOp<"square_sum",
    (ins Model_Float:$input), (ins StrAttr:$letters, StrAttr:$columns)> {
  let summary = "Sum of squares of each row";
  let description = [{
    Computes `sum = sum over columns of input^2`.

    Constraints: norm_c1, norm_c3, space_c1 to space_c3.

    Factors: `columns` a sum, the others parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %sum = model.square_sum %k in attention label "k_norm_sum"
        {letters = "sbnd", columns = "nd"}
        : (tensor<8x1x2x4xf32>) -> tensor<8x1xf32>
    ```
  }];
  let results = (outs Model_Float:$sum);
}

def Model_RmsApplyOp : Model_ForwardOp<"rms_apply",
    (ins Model_Float:$input, Model_Float:$weight, Model_Float:$sum),
    (ins StrAttr:$letters, StrAttr:$columns, F64Attr:$eps, Int64Attr:$count)> {
  let summary = "Root-mean-square norm of rows whose squares are summed already";
  let description = [{
    Computes, per row, `rstd = 1 / sqrt(sum / count + eps)` and
    `output = input * rstd * weight`, with the `sum` of square_sum. `count` is
    the number of elements of a row on all ranks together. The gradient of
    `input` is that through `sum` too.

    Constraints (besides norm_c1 to norm_c3 and space_c1 to space_c3):
    * (norm_c4) `count` is a multiple of the elements of a row.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %y, %rstd = model.rms_apply %k, %w, %sum in attention label "k_norm"
        {letters = "sbnd", columns = "nd", eps = 1.0e-5 : f64, count = 8 : i64}
        : (tensor<8x1x2x4xf32>, tensor<2x4xf32>, tensor<8x1xf32>)
        -> (tensor<8x1x2x4xf32>, tensor<8x1xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$rstd);
}

def Model_RowDotOp : Model_ComputeOp<"row_dot",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight),
    (ins StrAttr:$letters, StrAttr:$columns)> {
  let summary = "Product of each row with its weighted gradient";
  let description = [{
    Computes `dot = sum over columns of dy * weight * input`.

    Constraints: norm_c1, norm_c3, space_c1 to space_c3.

    Factors: `columns` a sum, the others parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dot = model.row_dot %dy, %k, %w in attention
        {letters = "sbnd", columns = "nd"}
        : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<2x4xf32>)
        -> tensor<8x1xf32>
    ```
  }];
  let results = (outs Model_Float:$dot);
}

def Model_RmsApplyGradOp : Model_ComputeOp<"rms_apply_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$weight,
         Model_Float:$rstd, Model_Float:$dot),
    (ins StrAttr:$letters, StrAttr:$columns, Int64Attr:$count)> {
  let summary = "Gradient of square_sum and rms_apply with respect to the input";
  let description = [{
    Computes `dx = rstd * (dy * weight - input * rstd^2 * dot / count)`, with
    the `dot` of row_dot.

    Constraints: norm_c1, norm_c3, norm_c4, space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.rms_apply_grad %dy, %k, %w, %rstd, %dot in attention
        {letters = "sbnd", columns = "nd", count = 8 : i64}
        : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<2x4xf32>,
           tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1x2x4xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
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
    Linear in `dy`.
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

    Factors: the last letter parallel, the others a sum. Linear in `dy`.
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
