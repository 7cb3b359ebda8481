//===- ModelAttentionOps.td - Attention and positions ------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RopeOp : Model_ForwardOp<"rope", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$theta,
         OptionalAttr<DictionaryAttr>:$scaling,
         DefaultValuedAttr<BoolAttr, "false">:$inverse)> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of the last dim (width `d`) by an angle that grows with the
    position `s`, in the rotate-half convention of Hugging Face: with
    `a = s * f[i]`, `f[i] = theta^(-2i/d)` and `i < d/2`,
    `result[i] = input[i] cos a - input[i + d/2] sin a` and
    `result[i + d/2] = input[i + d/2] cos a + input[i] sin a`.
    `inverse` turns back (`a` negated), which is also the gradient. `scaling`
    changes `f`: `rope_type` is `"llama3"` or `"linear"`, with `factor` and, for
    llama3, `low_freq_factor`, `high_freq_factor` and
    `original_max_position_embeddings`.

    Constraints (besides space_c1 to space_c3):
    * (rope_c1) `letters` contain `s`.
    * (rope_c2) the last dim is even.
    * (rope_c3) `theta` is positive.
    * (rope_c4) `scaling` has a known `rope_type` and the numbers it needs.

    Factors: the last letter stays whole on a rank, the others are parallel; a
    rank needs its origin of `s`. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.rope %q in attention label "q_rope"
        {letters = "sbngd", theta = 1.0e+4 : f64}
        : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_AttentionOp : Model_ForwardOp<"attention",
    (ins Model_Float:$q, Model_Float:$k, Model_Float:$v),
    (ins BoolAttr:$causal, F64Attr:$scale)> {
  let summary = "Softmax attention with grouped query heads";
  let description = [{
    Computes, with `score[s,b,n,g,t] = scale * sum_d q[s,b,n,g,d] * k[t,b,n,d]`
    and `t <= s` if `causal`, `lse[s,b,n,g] = log sum_t exp(score)` and
    `output[s,b,n,g,d] = sum_t exp(score - lse) * v[t,b,n,d]`.
    `q` and `output` are "sbngd", `k` and `v` "tbnd", `lse` "sbng".

    Constraints (besides space_c1 to space_c3):
    * (attention_c1) causal attention has as many keys as queries.

    Factors: `s`, `b`, `n`, `g` parallel; `t`, `d` stay whole on a rank.
    Work: `4*b*n*g*d*pairs` flops, `pairs = s*t`, or `s*(s+1)/2` if causal.
    Traffic is that of the tensors: scores never leave the chip.

    Example:
    ```mlir
    %o, %lse = model.attention %q, %k, %v in attention label "core_attention"
        {causal = true, scale = 5.0e-1 : f64}
        : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
        -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
    ```
  }];
  let results = (outs Model_Float:$output, Model_Float:$lse);
}

def Model_AttentionGradOp : Model_ComputeOp<"attention_grad",
    (ins Model_Float:$doutput, Model_Float:$q, Model_Float:$k, Model_Float:$v,
         Model_Float:$output, Model_Float:$lse),
    (ins BoolAttr:$causal, F64Attr:$scale)> {
  let summary = "Gradient of attention with respect to q, k and v";
  let description = [{
    Computes, with `p = exp(score - lse)`, `dp = sum_d doutput * v`,
    `delta = sum_d doutput * output` and `ds = scale * p * (dp - delta)`:
    `dq = sum_t ds * k`, `dk = sum_{s,g} ds * q`, `dv = sum_{s,g} p * doutput`.

    Constraints: attention_c1, space_c1 to space_c3.

    Factors: `b`, `n` parallel; `g` a sum (it is summed into dk and dv); `s`,
    `t`, `d` stay whole on a rank.
    Work: `10*b*n*g*d*pairs` flops (scores again, dv, dp, dq, dk).

    Example:
    ```mlir
    %dq, %dk, %dv = model.attention_grad %do, %q, %k, %v, %o, %lse in attention
        {causal = true, scale = 5.0e-1 : f64}
        : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>,
           tensor<8x1x2x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
        -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
    ```
  }];
  let results = (outs Model_Float:$dq, Model_Float:$dk, Model_Float:$dv);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS
