// RUN: shardwright-opt %s --sw-differentiate | FileCheck %s

// What each op becomes backwards. Kinds that do not take a stream have the
// policy `none` alone and no data gradient.

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// The table of an embedding gets its gradient from tokens and dy.
// CHECK-LABEL: model.kind @embed.none.forward(
// CHECK-NOT: model.kind @embed.none.data_grad
// CHECK-LABEL: model.kind @embed.none.weight_grad(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_grad, 0>}
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<5x1xi32> {model.arg = #model.arg<tokens, 0>}
// CHECK-NEXT: %[[DP:.*]] = model.add_positions_grad %[[DY]] in stream
// CHECK-NEXT: %[[DT:.*]] = model.embedding_grad %[[IDS]], %[[DY]] in embed
// CHECK-NEXT: model.return %[[DT]], %[[DP]] : tensor<9x4xf32>, tensor<6x4xf32>
// CHECK-NOT: model.kind @embed.selective
model.kind @embed(
    %ids: tensor<5x1xi32> {model.arg = #model.arg<tokens, 0>},
    %table: tensor<9x4xf32> {model.arg = #model.arg<parameter, 0>},
    %positions: tensor<6x4xf32> {model.arg = #model.arg<parameter, 1>})
    -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}) {
  %x = model.embedding %ids, %table in embed label "embedding"
      : (tensor<5x1xi32>, tensor<9x4xf32>) -> tensor<5x1x4xf32>
  %y = model.add_positions %x, %positions in stream label "positions"
      : (tensor<5x1x4xf32>, tensor<6x4xf32>) -> tensor<5x1x4xf32>
  model.return %y : tensor<5x1x4xf32>
}

// Rotation backwards is the inverse rotation; attention has one gradient op of
// three results; a bias gradient is a column sum. q, k and v are made of one
// value, so their gradients are summed, in the segment they share.
// CHECK-LABEL: model.kind @attention.none.data_grad(
// CHECK: %[[DO:.*]] = model.contract %[[DY:.*]], %{{.*}} in attention {spec = "sbh,hngd->sbngd"}
// CHECK-NEXT: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = model.attention_grad %[[DO]], %{{.*}} in attention {causal = true, scale = 5.000000e-01 : f64}
// CHECK-NEXT: %[[XV:.*]] = model.contract %[[DV]], %{{.*}} in attention {spec = "sbnd,ndh->sbh"}
// CHECK-NEXT: %[[XK:.*]] = model.contract %[[DK]], %{{.*}} in attention {spec = "sbnd,ndh->sbh"}
// CHECK-NEXT: %[[KV:.*]] = model.add %[[XV]], %[[XK]] in attention {letters = "sbh"}
// CHECK-NEXT: %[[DQR:.*]] = model.rope %[[DQ]] in attention {inverse = true, letters = "sbngd", theta = 1.000000e+04 : f64}
// CHECK-NEXT: %[[XQ:.*]] = model.contract %[[DQR]], %{{.*}} in attention {spec = "sbngd,ngdh->sbh"}
// CHECK-NEXT: %[[DX:.*]] = model.add %[[KV]], %[[XQ]] in attention {letters = "sbh"}
// CHECK-NEXT: model.return %[[DX]], %[[DY]], %[[DK]], %[[DV]], %[[DQR]]

// CHECK-LABEL: model.kind @attention.none.weight_grad(
// CHECK-DAG: model.contract %{{.*}} {spec = "sbh,sbngd->hngd"}
// CHECK-DAG: model.column_sum %{{.*}} in attention {spec = "sbngd->ngd"}
// CHECK-DAG: model.contract %{{.*}} {spec = "sbngd,sbh->ngdh"}
// CHECK-DAG: model.contract %{{.*}} {spec = "sbnd,sbh->ndh"}
// CHECK: model.return %{{.*}} : tensor<2x3x4x7xf32>, tensor<2x3x4xf32>, tensor<2x4x7xf32>, tensor<2x4x7xf32>, tensor<7x2x3x4xf32>

// Selective runs the attention core again, and only it.
// CHECK-LABEL: model.kind @attention.selective.forward(
// CHECK-SAME: model.res<saved, 2>
// CHECK-NOT: model.res<saved, 3>
// CHECK-LABEL: model.kind @attention.selective.data_grad(
// CHECK-NEXT: %[[O:.*]], %[[LSE:.*]] = model.attention %{{.*}} label "core_attention"
// CHECK-NEXT: model.contract
// CHECK-NEXT: model.attention_grad %{{.*}}, %[[O]], %[[LSE]]
// CHECK: model.return %{{[a-z0-9]+}}, %[[O]],
model.kind @attention(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %wq: tensor<2x3x4x7xf32> {model.arg = #model.arg<parameter, 0>},
    %bq: tensor<2x3x4xf32> {model.arg = #model.arg<parameter, 1>},
    %wk: tensor<2x4x7xf32> {model.arg = #model.arg<parameter, 2>},
    %wv: tensor<2x4x7xf32> {model.arg = #model.arg<parameter, 3>},
    %wo: tensor<7x2x3x4xf32> {model.arg = #model.arg<parameter, 4>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  %q0 = model.contract %x, %wq in attention label "q_proj" {spec = "sbh,ngdh->sbngd"}
      : (tensor<5x1x7xf32>, tensor<2x3x4x7xf32>) -> tensor<5x1x2x3x4xf32>
  %q1 = model.bias_add %q0, %bq in attention label "q_bias" {letters = "sbngd", bias_letters = "ngd"}
      : (tensor<5x1x2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<5x1x2x3x4xf32>
  %q = model.rope %q1 in attention label "q_rope" {letters = "sbngd", theta = 1.0e4 : f64}
      : (tensor<5x1x2x3x4xf32>) -> tensor<5x1x2x3x4xf32>
  %k = model.contract %x, %wk in attention label "k_proj" {spec = "sbh,ndh->sbnd"}
      : (tensor<5x1x7xf32>, tensor<2x4x7xf32>) -> tensor<5x1x2x4xf32>
  %v = model.contract %x, %wv in attention label "v_proj" {spec = "sbh,ndh->sbnd"}
      : (tensor<5x1x7xf32>, tensor<2x4x7xf32>) -> tensor<5x1x2x4xf32>
  %o, %lse = model.attention %q, %k, %v in attention label "core_attention" {causal = true, scale = 0.5 : f64}
      : (tensor<5x1x2x3x4xf32>, tensor<5x1x2x4xf32>, tensor<5x1x2x4xf32>) -> (tensor<5x1x2x3x4xf32>, tensor<5x1x2x3xf32>)
  %y = model.contract %o, %wo in attention label "o_proj" {spec = "sbngd,hngd->sbh"}
      : (tensor<5x1x2x3x4xf32>, tensor<7x2x3x4xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

// CHECK-LABEL: model.kind @mlp.none.data_grad(
// CHECK: %[[DG:.*]], %[[DU:.*]] = model.swiglu_grad
// CHECK-NEXT: %[[DI:.*]] = model.gelu_grad %[[DU]], %{{.*}} in mlp {approximate = true, letters = "sbf"}
// CHECK-NEXT: %[[A:.*]] = model.contract %[[DI]]
// CHECK-NEXT: %[[B:.*]] = model.contract %[[DG]]
// CHECK-NEXT: %[[SUM:.*]] = model.add %[[A]], %[[B]] in mlp
// CHECK-NEXT: model.layer_norm_grad %[[SUM]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} in stream
// CHECK-LABEL: model.kind @mlp.none.weight_grad(
// CHECK: model.layer_norm_weight_grad %[[SUM:.*]], %{{.*}}, %{{.*}}, %{{.*}} in stream
// CHECK-NEXT: model.column_sum %[[SUM]] in stream {spec = "sbh->h"}
model.kind @mlp(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<7xf32> {model.arg = #model.arg<parameter, 0>},
    %b: tensor<7xf32> {model.arg = #model.arg<parameter, 1>},
    %wg: tensor<3x7xf32> {model.arg = #model.arg<parameter, 2>},
    %wu: tensor<3x7xf32> {model.arg = #model.arg<parameter, 3>},
    %wd: tensor<7x3xf32> {model.arg = #model.arg<parameter, 4>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  %n, %mean, %r = model.layer_norm %x, %w, %b in stream label "norm" {letters = "sbh", eps = 1.0e-5 : f64}
      : (tensor<5x1x7xf32>, tensor<7xf32>, tensor<7xf32>) -> (tensor<5x1x7xf32>, tensor<5x1xf32>, tensor<5x1xf32>)
  %g = model.contract %n, %wg in mlp label "gate" {spec = "sbh,fh->sbf"}
      : (tensor<5x1x7xf32>, tensor<3x7xf32>) -> tensor<5x1x3xf32>
  %u = model.contract %n, %wu in mlp label "up" {spec = "sbh,fh->sbf"}
      : (tensor<5x1x7xf32>, tensor<3x7xf32>) -> tensor<5x1x3xf32>
  %i = model.gelu %u in mlp label "gelu" {letters = "sbf", approximate = true}
      : (tensor<5x1x3xf32>) -> tensor<5x1x3xf32>
  %a = model.swiglu %g, %i in mlp label "act" {letters = "sbf"}
      : (tensor<5x1x3xf32>, tensor<5x1x3xf32>) -> tensor<5x1x3xf32>
  %y = model.contract %a, %wd in mlp label "down" {spec = "sbf,hf->sbh"}
      : (tensor<5x1x3xf32>, tensor<7x3xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

// The loss is differentiated as one op, from the logits; no dy arrives.
// CHECK-LABEL: model.kind @head.none.forward(
// CHECK: model.return %{{[a-z0-9]+}}, %[[LOGITS:[a-z0-9]+]], %[[MAX:[a-z0-9]+]], %[[SUM:[a-z0-9]+]] :
// CHECK-LABEL: model.kind @head.none.data_grad(
// CHECK-NOT: stream_grad, 0>} {{.*}}->
// CHECK: %[[DL:.*]] = model.softmax_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} in loss {scale = 2.500000e-01 : f64, valid_vocab = 9 : i64}
// CHECK-NEXT: %[[DX:.*]] = model.contract %[[DL]], %{{.*}} in head {spec = "sbv,vh->sbh"}
// CHECK-NEXT: model.return %[[DX]], %[[DL]]
// CHECK-LABEL: model.kind @head.none.weight_grad(
// CHECK: model.contract %{{.*}} in head {spec = "sbv,sbh->vh"}
model.kind @head(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %labels: tensor<5x1xi32> {model.arg = #model.arg<labels, 0>},
    %w: tensor<9x7xf32> {model.arg = #model.arg<parameter, 0>})
    -> (tensor<f32> {model.res = #model.res<loss, 0>}) {
  %logits = model.contract %x, %w in head label "lm_head" {spec = "sbh,vh->sbv"}
      : (tensor<5x1x7xf32>, tensor<9x7xf32>) -> tensor<5x1x9xf32>
  %max = model.max_logit %logits in loss label "max" {valid_vocab = 9 : i64}
      : (tensor<5x1x9xf32>) -> tensor<5x1xf32>
  %sum = model.sum_exp %logits, %max in loss label "sum" {valid_vocab = 9 : i64}
      : (tensor<5x1x9xf32>, tensor<5x1xf32>) -> tensor<5x1xf32>
  %target = model.target_logit %logits, %labels in loss label "target"
      : (tensor<5x1x9xf32>, tensor<5x1xi32>) -> tensor<5x1xf32>
  %loss = model.token_loss %max, %sum, %target in loss label "loss" {scale = 0.25 : f64}
      : (tensor<5x1xf32>, tensor<5x1xf32>, tensor<5x1xf32>) -> tensor<f32>
  model.return %loss : tensor<f32>
}

model.param @embed.0 : tensor<9x4xf32> in stream init zeros {kind = "embed", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 9, 4>, hf_strides = array<i64: 4, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @embed.1 : tensor<6x4xf32> in stream init zeros {kind = "embed", index = 1, letters = "hf", hf_name = "1", hf_shape = array<i64: 6, 4>, hf_strides = array<i64: 4, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @attention.0 : tensor<2x3x4x7xf32> in stream init zeros {kind = "attention", index = 0, letters = "hfng", hf_name = "0", hf_shape = array<i64: 2, 3, 4, 7>, hf_strides = array<i64: 84, 28, 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @attention.1 : tensor<2x3x4xf32> in stream init zeros {kind = "attention", index = 1, letters = "hfn", hf_name = "1", hf_shape = array<i64: 2, 3, 4>, hf_strides = array<i64: 12, 4, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @attention.2 : tensor<2x4x7xf32> in stream init zeros {kind = "attention", index = 2, letters = "hfn", hf_name = "2", hf_shape = array<i64: 2, 4, 7>, hf_strides = array<i64: 28, 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @attention.3 : tensor<2x4x7xf32> in stream init zeros {kind = "attention", index = 3, letters = "hfn", hf_name = "3", hf_shape = array<i64: 2, 4, 7>, hf_strides = array<i64: 28, 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @attention.4 : tensor<7x2x3x4xf32> in stream init zeros {kind = "attention", index = 4, letters = "hfng", hf_name = "4", hf_shape = array<i64: 7, 2, 3, 4>, hf_strides = array<i64: 24, 12, 4, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mlp.0 : tensor<7xf32> in stream init zeros {kind = "mlp", index = 0, letters = "h", hf_name = "0", hf_shape = array<i64: 7>, hf_strides = array<i64: 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mlp.1 : tensor<7xf32> in stream init zeros {kind = "mlp", index = 1, letters = "h", hf_name = "1", hf_shape = array<i64: 7>, hf_strides = array<i64: 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mlp.2 : tensor<3x7xf32> in stream init zeros {kind = "mlp", index = 2, letters = "hf", hf_name = "2", hf_shape = array<i64: 3, 7>, hf_strides = array<i64: 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mlp.3 : tensor<3x7xf32> in stream init zeros {kind = "mlp", index = 3, letters = "hf", hf_name = "3", hf_shape = array<i64: 3, 7>, hf_strides = array<i64: 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mlp.4 : tensor<7x3xf32> in stream init zeros {kind = "mlp", index = 4, letters = "hf", hf_name = "4", hf_shape = array<i64: 7, 3>, hf_strides = array<i64: 3, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @head.0 : tensor<9x7xf32> in stream init zeros {kind = "head", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 9, 7>, hf_strides = array<i64: 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.stack [["embed", 1], ["attention", 1], ["mlp", 1], ["head", 1]]
}
