// RUN: shardwright-opt %s | FileCheck %s
// RUN: shardwright-opt %s -mlir-print-op-generic | shardwright-opt | FileCheck %s

// The example of every op description: what is printed is what was read, also
// by way of the generic form.

// CHECK: model.param @dense.q_proj : tensor<2x3x4x16xf32> in attention init normal
// CHECK-SAME: decay = true
// CHECK-SAME: hf_name = "model.layers.{}.self_attn.q_proj.weight"
// CHECK-SAME: hf_strides = array<i64: 192, 64, 16, 1>
// CHECK-SAME: letters = "ngdh"
model.param @dense.q_proj : tensor<2x3x4x16xf32> in attention init normal
    {kind = "dense", index = 0 : i64, letters = "ngdh",
     hf_name = "model.layers.{}.self_attn.q_proj.weight",
     hf_strides = array<i64: 192, 64, 16, 1>, hf_offset = 0 : i64,
     hf_shape = array<i64: 24, 16>, init_scale = 2.0e-2 : f64, decay = true}

// CHECK: model.stack {{\[\[}}"embed", 1], ["dense", 32], ["head", 1]]
model.stack [["embed", 1], ["dense", 32], ["head", 1]]

// CHECK-LABEL: model.kind @dense.none.forward
// CHECK-SAME: {model.arg = #model.arg<stream_in, 0>}
// CHECK-SAME: {model.res = #model.res<saved, 1>}
// CHECK-SAME: attributes {kind = "dense", part = #model.part<forward>, policy = #model.recompute<none>}
model.kind @dense.none.forward(
    %x: tensor<8x1x16xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<16xf32> {model.arg = #model.arg<parameter, 0>})
    -> (tensor<8x1x16xf32> {model.res = #model.res<stream_out, 0>},
        tensor<8x1xf32> {model.res = #model.res<saved, 1>})
    attributes {kind = "dense", part = #model.part<forward>,
                policy = #model.recompute<none>} {
  // CHECK-NEXT: %[[Y:.*]], %[[R:.*]] = model.rms_norm %{{.*}}, %{{.*}} in stream label "attn_norm" {eps = 1.000000e-05 : f64, letters = "sbh"}
  %y, %r = model.rms_norm %x, %w in stream label "attn_norm"
      {letters = "sbh", eps = 1.0e-5 : f64}
      : (tensor<8x1x16xf32>, tensor<16xf32>)
      -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
  // CHECK-NEXT: model.return %[[Y]], %[[R]] : tensor<8x1x16xf32>, tensor<8x1xf32>
  model.return %y, %r : tensor<8x1x16xf32>, tensor<8x1xf32>
}

// CHECK-LABEL: model.kind @linear
model.kind @linear(%x: tensor<8x1x16xf32>, %w: tensor<2x3x4x16xf32>,
                   %bias: tensor<2x3x4xf32>)
    -> (tensor<8x1x2x3x4xf32>, tensor<16xf32>) {
  // CHECK: model.contract %{{.*}}, %{{.*}} in attention label "q_proj" {spec = "sbh,ngdh->sbngd"} : (tensor<8x1x16xf32>, tensor<2x3x4x16xf32>) -> tensor<8x1x2x3x4xf32>
  %q = model.contract %x, %w in attention label "q_proj"
      {spec = "sbh,ngdh->sbngd"}
      : (tensor<8x1x16xf32>, tensor<2x3x4x16xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.bias_add %{{.*}}, %{{.*}} in attention {bias_letters = "ngd", letters = "sbngd"}
  %r = model.bias_add %q, %bias in attention
      {letters = "sbngd", bias_letters = "ngd"}
      : (tensor<8x1x2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.add %{{.*}}, %{{.*}} in stream label "attn_residual" {letters = "sbh"}
  %y = model.add %x, %x in stream label "attn_residual" {letters = "sbh"}
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.column_sum %{{.*}} in mlp {spec = "sbh->h"} : (tensor<8x1x16xf32>) -> tensor<16xf32>
  %db = model.column_sum %y in mlp {spec = "sbh->h"}
      : (tensor<8x1x16xf32>) -> tensor<16xf32>
  model.return %r, %db : tensor<8x1x2x3x4xf32>, tensor<16xf32>
}

// CHECK-LABEL: model.kind @norms
model.kind @norms(%x: tensor<8x1x16xf32>, %dy: tensor<8x1x16xf32>,
                  %w: tensor<16xf32>, %b: tensor<16xf32>) {
  // CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = model.layer_norm %{{.*}}, %{{.*}}, %{{.*}} in stream {eps = 1.000000e-05 : f64, letters = "sbh"}
  %y, %mean, %rstd = model.layer_norm %x, %w, %b in stream
      {letters = "sbh", eps = 1.0e-5 : f64}
      : (tensor<8x1x16xf32>, tensor<16xf32>, tensor<16xf32>)
      -> (tensor<8x1x16xf32>, tensor<8x1xf32>, tensor<8x1xf32>)
  // CHECK: model.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[MEAN]], %[[RSTD]] in stream {letters = "sbh"}
  %dx = model.layer_norm_grad %dy, %x, %w, %mean, %rstd in stream
      {letters = "sbh"}
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<16xf32>,
         tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.layer_norm_weight_grad %{{.*}}, %{{.*}}, %[[MEAN]], %[[RSTD]] in stream {letters = "sbh"}
  %dw = model.layer_norm_weight_grad %dy, %x, %mean, %rstd in stream
      {letters = "sbh"}
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>,
         tensor<8x1xf32>) -> tensor<16xf32>
  // CHECK: model.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[RSTD]] in stream {letters = "sbh"}
  %dx2 = model.rms_norm_grad %dy, %x, %w, %rstd in stream {letters = "sbh"}
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<16xf32>,
         tensor<8x1xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.rms_norm_weight_grad %{{.*}}, %{{.*}}, %[[RSTD]] in stream {letters = "sbh"}
  %dw2 = model.rms_norm_weight_grad %dy, %x, %rstd in stream {letters = "sbh"}
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>)
      -> tensor<16xf32>
  // CHECK: model.return
  model.return
}

// CHECK-LABEL: model.kind @attention
model.kind @attention(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>,
                      %v: tensor<8x1x2x4xf32>) {
  // CHECK: model.rope %{{.*}} in attention label "q_rope" {letters = "sbngd", theta = 1.000000e+04 : f64} : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  %r = model.rope %q in attention label "q_rope"
      {letters = "sbngd", theta = 1.0e+4 : f64}
      : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.rope %{{.*}} in attention {inverse = true, letters = "sbngd", scaling = {factor = 8.000000e+00 : f64, rope_type = "linear"}, theta = 1.000000e+04 : f64}
  %i = model.rope %r in attention
      {letters = "sbngd", theta = 1.0e+4 : f64, inverse = true,
       scaling = {rope_type = "linear", factor = 8.0 : f64}}
      : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.rope %{{.*}} in attention {interleaved = true, letters = "sbngd", rotary_dim = 2 : i64, theta = 1.000000e+04 : f64}
  %pr = model.rope %q in attention
      {letters = "sbngd", theta = 1.0e+4 : f64, rotary_dim = 2 : i64, interleaved = true}
      : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.rope %{{.*}} in attention {letters = "sbnd", scaling = {attention_factor = 1.200000e+00 : f64, factors = array<f64: 1.000000e+00, 2.000000e+00>, rope_type = "longrope"}, theta = 1.000000e+04 : f64}
  %lk = model.rope %k in attention
      {letters = "sbnd", theta = 1.0e+4 : f64,
       scaling = {rope_type = "longrope", attention_factor = 1.2 : f64,
                  factors = array<f64: 1.0, 2.0>}}
      : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  // CHECK: %[[O:.*]], %[[LSE:.*]] = model.attention %{{.*}}, %{{.*}}, %{{.*}} in attention label "core_attention" {causal = true, scale = 5.000000e-01 : f64}
  %o, %lse = model.attention %i, %k, %v in attention label "core_attention"
      {causal = true, scale = 5.0e-1 : f64}
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
      -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  // CHECK: model.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[O]], %[[LSE]] in attention {causal = true, scale = 5.000000e-01 : f64}
  %dq, %dk, %dv = model.attention_grad %o, %q, %k, %v, %o, %lse in attention
      {causal = true, scale = 5.0e-1 : f64}
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>,
         tensor<8x1x2x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
      -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
  // CHECK: model.scale_positions %{{.*}} in attention label "q_scale" {floor = 4 : i64, letters = "sbngd", strength = 1.000000e-01 : f64} : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  %t = model.scale_positions %q in attention label "q_scale"
      {letters = "sbngd", floor = 4 : i64, strength = 0.1 : f64}
      : (tensor<8x1x2x3x4xf32>) -> tensor<8x1x2x3x4xf32>
  // CHECK: model.attention %{{.*}}, %{{.*}}, %{{.*}} in attention {causal = true, chunk = 3 : i64, scale = 5.000000e-01 : f64}
  %oc, %lsec = model.attention %t, %k, %v in attention
      {causal = true, scale = 5.0e-1 : f64, chunk = 3 : i64}
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
      -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  // CHECK: model.attention %{{.*}}, %{{.*}}, %{{.*}} in attention {alibi = 1.000000e+00 : f64, alibi_heads = 12 : i64, causal = true, scale = 5.000000e-01 : f64, softcap = 5.000000e+01 : f64, window = 4 : i64}
  %wo, %wlse = model.attention %i, %k, %v in attention
      {causal = true, scale = 5.0e-1 : f64, window = 4 : i64,
       softcap = 5.0e+1 : f64, alibi = 1.0 : f64, alibi_heads = 12 : i64}
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>)
      -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  // CHECK: model.fill in stream {letters = "nd", value = 0.000000e+00 : f64}
  %nw = model.fill in stream {letters = "nd", value = 0.0 : f64}
      : () -> tensor<2x4xf32>
  // CHECK: %[[SUM:.*]] = model.square_sum %{{.*}} in attention label "k_norm_sum" {columns = "nd", letters = "sbnd"}
  %sum = model.square_sum %k in attention label "k_norm_sum"
      {letters = "sbnd", columns = "nd"}
      : (tensor<8x1x2x4xf32>) -> tensor<8x1xf32>
  // CHECK: %{{.*}}, %[[RSTD:.*]] = model.rms_apply %{{.*}}, %{{.*}}, %[[SUM]] in attention label "k_norm" {columns = "nd", count = 16 : i64, eps = 1.000000e-05 : f64, letters = "sbnd"}
  %nk, %nr = model.rms_apply %k, %nw, %sum in attention label "k_norm"
      {letters = "sbnd", columns = "nd", eps = 1.0e-5 : f64, count = 16 : i64}
      : (tensor<8x1x2x4xf32>, tensor<2x4xf32>, tensor<8x1xf32>)
      -> (tensor<8x1x2x4xf32>, tensor<8x1xf32>)
  // CHECK: %[[DOT:.*]] = model.row_dot %{{.*}}, %{{.*}}, %{{.*}} in attention {columns = "nd", letters = "sbnd"}
  %dot = model.row_dot %dk, %k, %nw in attention
      {letters = "sbnd", columns = "nd"}
      : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<2x4xf32>)
      -> tensor<8x1xf32>
  // CHECK: model.rms_apply_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[RSTD]], %[[DOT]] in attention {columns = "nd", count = 16 : i64, letters = "sbnd"}
  %dn = model.rms_apply_grad %dk, %k, %nw, %nr, %dot in attention
      {letters = "sbnd", columns = "nd", count = 16 : i64}
      : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<2x4xf32>,
         tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1x2x4xf32>
  // CHECK: model.rms_norm_weight_grad %{{.*}}, %{{.*}}, %[[RSTD]] in attention {columns = "nd", letters = "sbnd"}
  %dnw = model.rms_norm_weight_grad %dk, %k, %nr in attention
      {letters = "sbnd", columns = "nd"}
      : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1xf32>)
      -> tensor<2x4xf32>
  model.return
}

// CHECK-LABEL: model.kind @activations
model.kind @activations(%x: tensor<8x1x32xf32>, %e: tensor<256xf32>) {
  // CHECK: model.swiglu %{{.*}}, %{{.*}} in mlp label "act" {letters = "sbf"}
  %a = model.swiglu %x, %x in mlp label "act" {letters = "sbf"}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.swiglu_grad %{{.*}}, %{{.*}}, %{{.*}} in mlp {letters = "sbf"}
  %dgate, %dup = model.swiglu_grad %a, %x, %x in mlp {letters = "sbf"}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>, tensor<8x1x32xf32>)
      -> (tensor<8x1x32xf32>, tensor<8x1x32xf32>)
  // CHECK: model.gelu %{{.*}} in mlp label "act" {approximate = true, letters = "sbf"}
  %g = model.gelu %x in mlp label "act" {letters = "sbf", approximate = true}
      : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.gelu_grad %{{.*}}, %{{.*}} in mlp {approximate = false, letters = "sbf"}
  %dx = model.gelu_grad %g, %x in mlp {letters = "sbf", approximate = false}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.swiglu %{{.*}}, %{{.*}} in mlp {gate_kind = #model.gate<gelu_tanh>, letters = "sbf"}
  %ga = model.swiglu %x, %x in mlp {letters = "sbf", gate_kind = #model.gate<gelu_tanh>}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.relu %{{.*}} in mlp label "act" {letters = "sbf"}
  %re = model.relu %x in mlp label "act" {letters = "sbf"}
      : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.relu_grad %{{.*}}, %{{.*}} in mlp {letters = "sbf"}
  %dre = model.relu_grad %g, %re in mlp {letters = "sbf"}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.scale %{{.*}} in stream label "embedding_scale" {factor = 4.000000e+00 : f64, letters = "sbf"}
  %sc = model.scale %x in stream label "embedding_scale"
      {letters = "sbf", factor = 4.0 : f64}
      : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: %[[CAPPED:.*]] = model.softcap %{{.*}} in head label "logit_softcap" {cap = 3.000000e+01 : f64, letters = "sbf"}
  %so = model.softcap %x in head label "logit_softcap"
      {letters = "sbf", cap = 3.0e+1 : f64}
      : (tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.softcap_grad %{{.*}}, %[[CAPPED]] in head {cap = 3.000000e+01 : f64, letters = "sbf"}
  %dso = model.softcap_grad %g, %so in head {letters = "sbf", cap = 3.0e+1 : f64}
      : (tensor<8x1x32xf32>, tensor<8x1x32xf32>) -> tensor<8x1x32xf32>
  // CHECK: model.fill in stream {letters = "f", value = 1.000000e+00 : f64} : () -> tensor<32xf32>
  %fi = model.fill in stream {letters = "f", value = 1.0 : f64}
      : () -> tensor<32xf32>
  // CHECK: model.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} in update {letters = "e"}
  %p, %m, %v, %w = model.adamw %e, %e, %e, %e in update {letters = "e"}
      : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
      -> (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
  model.return
}

// CHECK-LABEL: model.kind @vocabulary
model.kind @vocabulary(%ids: tensor<8x1xi32>, %table: tensor<64x16xf32>,
                       %positions: tensor<12x16xf32>,
                       %logits: tensor<8x1x64xf32>) {
  // CHECK: model.embedding %{{.*}}, %{{.*}} in embed label "embedding" : (tensor<8x1xi32>, tensor<64x16xf32>) -> tensor<8x1x16xf32>
  %x = model.embedding %ids, %table in embed label "embedding"
      : (tensor<8x1xi32>, tensor<64x16xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.embedding_grad %{{.*}}, %{{.*}} in embed : (tensor<8x1xi32>, tensor<8x1x16xf32>) -> tensor<64x16xf32>
  %dt = model.embedding_grad %ids, %x in embed
      : (tensor<8x1xi32>, tensor<8x1x16xf32>) -> tensor<64x16xf32>
  // CHECK: model.add_positions %{{.*}}, %{{.*}} in embed label "positions"
  %y = model.add_positions %x, %positions in embed label "positions"
      : (tensor<8x1x16xf32>, tensor<12x16xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.add_positions_grad %{{.*}} in embed : (tensor<8x1x16xf32>) -> tensor<12x16xf32>
  %dp = model.add_positions_grad %y in embed
      : (tensor<8x1x16xf32>) -> tensor<12x16xf32>
  // CHECK: %[[MAX:.*]] = model.max_logit %{{.*}} in loss {valid_vocab = 60 : i64}
  %max = model.max_logit %logits in loss {valid_vocab = 60 : i64}
      : (tensor<8x1x64xf32>) -> tensor<8x1xf32>
  // CHECK: %[[SUM:.*]] = model.sum_exp %{{.*}}, %[[MAX]] in loss {valid_vocab = 60 : i64}
  %sum = model.sum_exp %logits, %max in loss {valid_vocab = 60 : i64}
      : (tensor<8x1x64xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  // CHECK: %[[TARGET:.*]] = model.target_logit %{{.*}}, %{{.*}} in loss :
  %target = model.target_logit %logits, %ids in loss
      : (tensor<8x1x64xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
  // CHECK: model.token_loss %[[MAX]], %[[SUM]], %[[TARGET]] in loss {scale = 1.000000e+00 : f64} : (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<f32>
  %loss = model.token_loss %max, %sum, %target in loss {scale = 1.0 : f64}
      : (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<f32>
  // CHECK: model.softmax_grad %{{.*}}, %[[MAX]], %[[SUM]], %{{.*}} in loss {scale = 1.000000e+00 : f64, valid_vocab = 60 : i64}
  %dlogits = model.softmax_grad %logits, %max, %sum, %ids in loss
      {scale = 1.0 : f64, valid_vocab = 60 : i64}
      : (tensor<8x1x64xf32>, tensor<8x1xf32>, tensor<8x1xf32>,
         tensor<8x1xi32>) -> tensor<8x1x64xf32>
  model.return
}

// A sharding is an encoding of a type, and no verifier minds it.
// CHECK-LABEL: model.kind @encodings_do_not_count
model.kind @encodings_do_not_count(
    %x: tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>,
    %w: tensor<32x16xf32, #plan.sh<dims=[["tp"],[]]>>) {
  // CHECK: model.contract %{{.*}}, %{{.*}} in mlp {plan.axes = {b = ["dp"], f = ["tp"]}, spec = "sbh,fh->sbf"}
  %y = model.contract %x, %w in mlp
      {spec = "sbh,fh->sbf", plan.axes = {b = ["dp"], f = ["tp"]}}
      : (tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>,
         tensor<32x16xf32, #plan.sh<dims=[["tp"],[]]>>)
      -> tensor<8x2x32xf32, #plan.sh<dims=[[],["dp"],["tp"]]>>
  model.return
}
