//===- ModelLatentOps.td - Latent attention, later tokens --*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLATENTOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLATENTOPS

include "dialects/Model/IR/ModelBase.td"

def Model_LatentAttentionOp : Model_ForwardOp<"latent_attention",
    (ins Model_Float:$q, Model_Float:$q_rope, Model_Float:$k,
         Model_Float:$k_rope, Model_Float:$v),
    (ins F64Attr:$scale)> {
  let summary = "Causal attention whose heads share the rotary keys";
  let description = [{
    Attention as `model.attention` with `score = scale * (sum_o q * k +
    sum_r q_rope * k_rope)`: a head's keys are its own part without position and
    one rotary part that all heads share. `q` is "sbngo", `q_rope` "sbngr", `k`
    "tbno", `k_rope` "tbr", `v` "tbnw", `output` "sbngw", `lse` "sbng".

    Constraints (besides space_c1 to space_c3):
    * (latent_attention_c1) as many keys as queries.

    Factors: `s`, `b`, `n`, `g` parallel; `t`, `o`, `r`, `w` stay whole.
    Work: `2*b*n*g*(o + r + w)*pairs` flops, `pairs = s*(s+1)/2`.

    Example:
    ```mlir
    %o, %lse = model.latent_attention %q, %qr, %k, %kr, %v in attention
        label "core_attention" {scale = 5.0e-1 : f64}
        : (tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>, tensor<8x1x2x4xf32>,
           tensor<8x1x6xf32>, tensor<8x1x2x5xf32>)
        -> (tensor<8x1x2x1x5xf32>, tensor<8x1x2x1xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$lse);
}

def Model_LatentAttentionGradOp : Model_ComputeOp<"latent_attention_grad",
    (ins Model_Float:$doutput, Model_Float:$q, Model_Float:$q_rope,
         Model_Float:$k, Model_Float:$k_rope, Model_Float:$v,
         Model_Float:$output, Model_Float:$lse),
    (ins F64Attr:$scale)> {
  let summary = "Gradient of latent_attention";
  let description = [{
    As `model.attention_grad`; `dk_rope` is summed over the heads.

    Constraints: latent_attention_c1, space_c1 to space_c3.

    Factors: `b` parallel; `n` parallel, and a sum for `dk_rope`; `g` a sum;
    `s`, `t`, `o`, `r`, `w` stay whole.
    Work: `2*b*n*g*(3*(o + r) + 2*w)*pairs` flops.

    Example:
    ```mlir
    %dq, %dqr, %dk, %dkr, %dv = model.latent_attention_grad
        %do, %q, %qr, %k, %kr, %v, %o, %lse in attention {scale = 5.0e-1 : f64}
        : (tensor<8x1x2x1x5xf32>, tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>,
           tensor<8x1x2x4xf32>, tensor<8x1x6xf32>, tensor<8x1x2x5xf32>,
           tensor<8x1x2x1x5xf32>, tensor<8x1x2x1xf32>)
        -> (tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>, tensor<8x1x2x4xf32>,
            tensor<8x1x6xf32>, tensor<8x1x2x5xf32>)
    ```
  }];
  let results = (outs Model_Float:$dq, Model_Float:$dq_rope, Model_Float:$dk,
                      Model_Float:$dk_rope, Model_Float:$dv);
}

def Model_SinkAttentionOp : Model_ForwardOp<"sink_attention",
    (ins Model_Float:$q, Model_Float:$k, Model_Float:$v, Model_Float:$sinks),
    (ins F64Attr:$scale, OptionalAttr<I64Attr>:$window)> {
  let summary = "Causal attention with one more score that nothing stands for";
  let description = [{
    Causal attention as `model.attention`, but `lse[s,b,n,g] = log(exp(sinks[n,g])
    + sum_t exp(score))`: a part of the weight goes nowhere.

    Constraints (besides space_c1 to space_c3):
    * (sink_attention_c1) as many keys as queries.
    * (sink_attention_c2) `window` is at least 1.

    Factors and work: as `model.attention`. The gradient of q, k and v is
    `model.attention_grad`, as `lse` holds the sinks.

    Example:
    ```mlir
    %o, %lse = model.sink_attention %q, %k, %v, %sinks in attention
        label "core_attention" {scale = 5.0e-1 : f64}
        : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>,
           tensor<2x3xf32>)
        -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$lse);
}

def Model_SinkGradOp : Model_ComputeOp<"sink_grad",
    (ins Model_Float:$doutput, Model_Float:$output, Model_Float:$lse,
         Model_Float:$sinks), (ins)> {
  let summary = "Gradient of the sinks of sink_attention";
  let description = [{
    `dsinks[n,g] = - sum_{s,b} exp(sinks[n,g] - lse) * sum_d doutput * output`.

    Constraints: space_c1 to space_c3.

    Factors: `n`, `g` parallel, the others a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %ds = model.sink_grad %do, %o, %lse, %sinks in attention
        : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>,
           tensor<2x3xf32>) -> tensor<2x3xf32>
    ```
  }];
  let results = (outs Model_Float:$dsinks);
}

def Model_ClipOp : Model_ForwardOp<"clip", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$limit)> {
  let summary = "Values within a limit on both sides";
  let description = [{
    Computes `result = min(max(input, -limit), limit)`.

    Constraints (besides space_c1 to space_c3):
    * (clip_c1) `limit` is positive.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.clip %q in attention label "q_clip"
        {letters = "sbnd", limit = 8.0 : f64}
        : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_ClipGradOp : Model_ComputeOp<"clip_grad",
    (ins Model_Float:$dy, Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$limit)> {
  let summary = "Gradient of clip";
  let description = [{
    `dx = dy` where the input is within the limit, else 0.

    Constraints (besides space_c1 to space_c3): clip_c1.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %dx = model.clip_grad %dy, %q in attention
        {letters = "sbnd", limit = 8.0 : f64}
        : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
    ```
  }];
  let results = (outs Model_Float:$dx);
}

def Model_NextTokensOp : Model_ComputeOp<"next_tokens",
    (ins Model_Index:$tokens), (ins)> {
  let summary = "Every position gets the token that follows";
  let description = [{
    `result[s, b] = tokens[s + 1, b]`; the last position of a sequence, which has
    none, gets -1, which no loss counts and no table has.

    Constraints: space_c1 to space_c3.

    Factors: `b` parallel; `s` stays whole.
    Work: no counted flops.

    Example:
    ```mlir
    %next = model.next_tokens %labels in loss
        : (tensor<8x1xi32>) -> tensor<8x1xi32>
    ```
  }];
  let results = (outs Model_Index:$result);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELLATENTOPS
