//===- ModelAttentionOps.td - Attention and positions ------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELATTENTIONOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RopeOp : Model_ForwardOp<"rope", (ins Model_Float:$input),
    (ins StrAttr:$letters, F64Attr:$theta,
         OptionalAttr<DictionaryAttr>:$scaling,
         DefaultValuedAttr<BoolAttr, "false">:$inverse,
         OptionalAttr<Int64Attr>:$rotary_dim,
         DefaultValuedAttr<BoolAttr, "false">:$interleaved)> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of the first `d` columns of the last dim (`rotary_dim`, or
    all) by an angle that grows with the position `s`; the others pass through.
    In the rotate-half convention of Hugging Face: with
    `a = s * f[i]`, `f[i] = theta^(-2i/d)` and `i < d/2`,
    `result[i] = input[i] cos a - input[i + d/2] sin a` and
    `result[i + d/2] = input[i + d/2] cos a + input[i] sin a`. `interleaved`
    pairs columns `2i` and `2i + 1` instead of `i` and `i + d/2`.
    `inverse` turns back (`a` negated), which is also the gradient. `scaling`
    changes `f`: `rope_type` is `"llama3"`, `"linear"` or `"yarn"`, with `factor`
    and, for llama3, `low_freq_factor`, `high_freq_factor` and
    `original_max_position_embeddings`, for yarn `beta_fast`, `beta_slow`,
    `original_max_position_embeddings` and `attention_factor`, by which the
    rotated columns are multiplied (Peng et al., arXiv:2309.00071). With
    `"longrope"` `f[i]` is divided by `factors[i]`, and the rotated columns are
    multiplied by `attention_factor` (Ding et al., arXiv:2402.13753).

    Constraints (besides space_c1 to space_c3):
    * (rope_c1) `letters` contain `s`.
    * (rope_c2) the last dim is even, or `rotary_dim` is given.
    * (rope_c3) `theta` is positive.
    * (rope_c4) `scaling` has a known `rope_type` and the numbers it needs.
    * (rope_c5) `rotary_dim` is even and from 2 to the last dim.

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

def Model_ScalePositionsOp : Model_ForwardOp<"scale_positions",
    (ins Model_Float:$input),
    (ins StrAttr:$letters, Int64Attr:$floor, F64Attr:$strength)> {
  let summary = "Product with a factor that grows with the position";
  let description = [{
    Computes `result[s] = input[s] * (1 + strength * log(1 + floor((s + 1) /
    floor)))`: queries far from the start look sharper (Nakanishi,
    arXiv:2501.19399; in Llama 4 those of layers without rotation).

    Constraints (besides space_c1 to space_c3):
    * (scale_positions_c1) `letters` contain `s`.
    * (scale_positions_c2) `floor` is at least 1.

    Factors: all parallel; a rank needs its origin of `s`. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %t = model.scale_positions %q in attention label "q_scale"
        {letters = "sbngd", floor = 8192 : i64, strength = 0.1 : f64}
        : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_AttentionOp : Model_ForwardOp<"attention",
    (ins Model_Float:$q, Model_Float:$k, Model_Float:$v),
    (ins BoolAttr:$causal, F64Attr:$scale, OptionalAttr<Int64Attr>:$window,
         OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$alibi,
         OptionalAttr<Int64Attr>:$alibi_heads,
         OptionalAttr<Int64Attr>:$chunk)> {
  let summary = "Softmax attention with grouped query heads";
  let description = [{
    Computes, with `score[s,b,n,g,t] = scale * sum_d q[s,b,n,g,d] * k[t,b,n,d]`
    and `t <= s` if `causal`, `lse[s,b,n,g] = log sum_t exp(score)` and
    `output[s,b,n,g,d] = sum_t exp(score - lse) * v[t,b,n,d]`.
    `q` and `output` are "sbngd", `k` and `v` "tbnd", `lse` "sbng".
    `window` hides all but the last `window` of these keys (`t > s - window`),
    `chunk` those before the query's run of `chunk` positions
    (`t >= s - s mod chunk`).
    `softcap` bounds a score: `softcap * tanh(score / softcap)`. `alibi` adds
    `alibi * slope[h] * (t - s)` to it, with the slopes of Press et al.,
    arXiv:2108.12409, for `alibi_heads` query heads in all; query head `(n, g)`
    is number `n * size(g) + g`.

    Constraints (besides space_c1 to space_c3):
    * (attention_c1) causal attention has as many keys as queries.
    * (attention_c2) `window` is at least 1, and needs `causal`.
    * (attention_c3) `softcap` is positive.
    * (attention_c4) `alibi` and `alibi_heads` come together; the query heads
      here divide `alibi_heads`.
    * (attention_c5) `chunk` is at least 1, and needs `causal` and no `window`.

    Factors: `s`, `b`, `n`, `g` parallel; `t`, `d` stay whole on a rank. With
    `alibi` a rank needs its origin of `n`.
    Work: `4*b*n*g*d*pairs` flops, `pairs = s*t`, or `s*(s+1)/2` if causal, or
    `w*(w+1)/2 + (s-w)*w` within a window of `w < s`, or in chunks the sum
    over chunks.
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
    (ins BoolAttr:$causal, F64Attr:$scale, OptionalAttr<Int64Attr>:$window,
         OptionalAttr<F64Attr>:$softcap, OptionalAttr<F64Attr>:$alibi,
         OptionalAttr<Int64Attr>:$alibi_heads,
         OptionalAttr<Int64Attr>:$chunk)> {
  let summary = "Gradient of attention with respect to q, k and v";
  let description = [{
    Computes, with `p = exp(score - lse)`, `dp = sum_d doutput * v`,
    `delta = sum_d doutput * output` and `ds = scale * p * (dp - delta)`:
    `dq = sum_t ds * k`, `dk = sum_{s,g} ds * q`, `dv = sum_{s,g} p * doutput`.
    With `softcap`, `ds` has the factor `1 - (capped score / softcap)^2`.

    Constraints: attention_c1 to attention_c5, space_c1 to space_c3.

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
