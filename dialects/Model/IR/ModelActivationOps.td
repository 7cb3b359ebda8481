//===- ModelActivationOps.td - Activations and the update --*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS

include "dialects/Model/IR/ModelBase.td"

def Model_SwigluOp : Model_ForwardOp<"swiglu",
    (ins Model_Float:$gate, Model_Float:$up),
    (ins StrAttr:$letters, DefaultValuedAttr<Model_GateAttr,
         "::shardwright::model::Gate::Silu">:$gate_kind)> {
  let summary = "Gated activation: act(gate) * up";
  let description = [{
    Computes `result = act(gate) * up`. `gate_kind` says what `act` is: `silu`,
    `x / (1 + exp(-x))`; `gelu` or `gelu_tanh`, as `model.gelu` without and with
    `approximate`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %a = model.swiglu %gate, %up in mlp label "act" {letters = "sbf"}
        : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_SwigluGradOp : Model_ComputeOp<"swiglu_grad",
    (ins Model_Float:$dy, Model_Float:$gate, Model_Float:$up),
    (ins StrAttr:$letters, DefaultValuedAttr<Model_GateAttr,
         "::shardwright::model::Gate::Silu">:$gate_kind)> {
  let summary = "Gradient of swiglu";
  let description = [{
    Computes `dgate = dy * up * act'(gate)` and `dup = dy * act(gate)`; for
    `silu`, with `z = 1 / (1 + exp(-gate))`,
    `dgate = dy * up * z * (1 + gate * (1 - z))` and `dup = dy * gate * z`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dgate, %dup = model.swiglu_grad %dy, %gate, %up in mlp {letters = "sbf"}
        : (tensor<8x1x32xf32>, tensor<8x1x32xf32>, tensor<8x1x32xf32>)
        -> (tensor<8x1x32xf32>, tensor<8x1x32xf32>)
    ```
  }];
  let results = (outs Model_Float:$dgate, Model_Float:$dup);
}

def Model_GeluOp : Model_ForwardOp<"gelu", (ins Model_Float:$input),
    (ins StrAttr:$letters, BoolAttr:$approximate)> {
  let summary = "Gaussian error linear unit";
  let description = [{
    Computes `result = x/2 * (1 + erf(x / sqrt(2)))` or, if `approximate`,
    `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %a = model.gelu %x in mlp label "act" {letters = "sbf", approximate = true}
        : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_GeluGradOp : Model_ComputeOp<"gelu_grad",
    (ins Model_Float:$dy, Model_Float:$input),
    (ins StrAttr:$letters, BoolAttr:$approximate)> {
  let summary = "Gradient of gelu";
  let description = [{
    Computes `dx = dy * gelu'(input)`, of the form that `approximate` says.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.gelu_grad %dy, %x in mlp {letters = "sbf", approximate = true}
        : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_ReluOp : Model_ForwardOp<"relu", (ins Model_Float:$input),
    (ins StrAttr:$letters)> {
  let summary = "Rectified linear unit";
  let description = [{
    Computes `result = max(input, 0)`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %a = model.relu %x in mlp label "act" {letters = "sbf"}
        : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_ReluGradOp : Model_ComputeOp<"relu_grad",
    (ins Model_Float:$dy, Model_Float:$output), (ins StrAttr:$letters)> {
  let summary = "Gradient of relu, from its output";
  let description = [{
    Computes `dx = output > 0 ? dy : 0`. The output is needed by the product
    behind it anyway, so the input need not be saved.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.relu_grad %dy, %y in mlp {letters = "sbf"}
        : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_ScaleOp : Model_ForwardOp<"scale", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$factor)> {
  let summary = "Product with a constant";
  let description = [{
    Computes `result = factor * input`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.scale %x in stream label "embedding_scale"
        {letters = "sbh", factor = 4.0 : f64}
        : (tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_SoftcapOp : Model_ForwardOp<"softcap", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$cap)> {
  let summary = "Smooth bound on both sides";
  let description = [{
    Computes `result = cap * tanh(input / cap)`.

    Constraints (besides space_c1 to space_c3):
    * (softcap_c1) `cap` is positive.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.softcap %x in head label "logit_softcap"
        {letters = "sbv", cap = 3.0e+1 : f64}
        : (tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_SoftcapGradOp : Model_ComputeOp<"softcap_grad",
    (ins Model_Float:$dy, Model_Float:$output),
    (ins StrAttr:$letters, F64Attr:$cap)> {
  let summary = "Gradient of softcap, from its output";
  let description = [{
    Computes `dx = dy * (1 - (output / cap)^2)`.

    Constraints: softcap_c1, space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.softcap_grad %dy, %y in head
        {letters = "sbv", cap = 3.0e+1 : f64}
        : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_FillOp : Model_ForwardOp<"fill", (ins),
    (ins StrAttr:$letters, F64Attr:$value)> {
  let summary = "A tensor of one number";
  let description = [{
    Every element of `result` is `value`: the weight of a norm that has none.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %ones = model.fill in stream {letters = "h", value = 1.0 : f64}
        : () -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_AdamwOp : Model_ComputeOp<"adamw",
    (ins Model_Float:$grad, Model_Float:$master, Model_Float:$m,
         Model_Float:$v),
    (ins StrAttr:$letters)> {
  let summary = "AdamW update of one flat bucket";
  let description = [{
    Computes, with the scalars of a step that the runtime hands in (learning
    rate, beta1, beta2, eps, decay, gradient scale, bias corrections c1 and c2),
    `g = grad * scale`, `m = beta1 m + (1 - beta1) g`,
    `v = beta2 v + (1 - beta2) g^2`,
    `master -= lr * ((m / c1) / (sqrt(v / c2) + eps) + decay * master)` and
    `param = master`, rounded.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %p1, %m1, %v1, %w = model.adamw %g, %p, %m, %v in update {letters = "e"}
        : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
        -> (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
    ```
  }];
  let results = (outs Model_Float:$new_master, Model_Float:$new_m,
                      Model_Float:$new_v, Model_Float:$param);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELACTIVATIONOPS
