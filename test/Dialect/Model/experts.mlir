// RUN: shardwright-opt %s | FileCheck %s
// RUN: shardwright-opt %s -mlir-print-op-generic | shardwright-opt | FileCheck %s

// The ops of routed experts and of latent attention: what is printed is what was
// read, also by way of the generic form.

// CHECK-LABEL: model.kind @experts
model.kind @experts(%x: tensor<8x1x16xf32>, %logits: tensor<8x1x6xf32>,
                    %bias: tensor<6xf32>, %up: tensor<6x12x16xf32>,
                    %down: tensor<6x16x12xf32>, %ub: tensor<6x12xf32>) {
  // CHECK: %[[W:.*]], %[[E:.*]], %[[L:.*]] = model.route %{{.*}}, %{{.*}} in router label "route" {aux_loss = 1.000000e-02 : f64, groups = 2 : i64, normalize = true, scale = 2.500000e+00 : f64, score = #model.score<sigmoid>}
  %w, %e, %load = model.route %logits, %bias in router label "route"
      {score = #model.score<sigmoid>, normalize = true, scale = 2.5 : f64,
       aux_loss = 1.0e-2 : f64, groups = 2 : i64}
      : (tensor<8x1x6xf32>, tensor<6xf32>)
      -> (tensor<8x1x2xf32>, tensor<8x1x2xi32>, tensor<1x6xf32>)
  // CHECK: model.dispatch %{{.*}}, %[[E]] in router label "dispatch" : (tensor<8x1x16xf32>, tensor<8x1x2xi32>) -> tensor<16x16xf32>
  %r = model.dispatch %x, %e in router label "dispatch"
      : (tensor<8x1x16xf32>, tensor<8x1x2xi32>) -> tensor<16x16xf32>
  // CHECK: model.select_rows %[[W]], %[[E]] in router label "row_weights"
  %rw = model.select_rows %w, %e in router label "row_weights"
      : (tensor<8x1x2xf32>, tensor<8x1x2xi32>) -> tensor<16xf32>
  %re = model.select_rows %e, %e in router label "row_experts"
      : (tensor<8x1x2xi32>, tensor<8x1x2xi32>) -> tensor<16xi32>
  // CHECK: %[[O:.*]], %[[S:.*]] = model.row_order %{{.*}} in experts label "row_order"
  %o, %s = model.row_order %re in experts label "row_order"
      : (tensor<16xi32>) -> (tensor<16xi32>, tensor<16xi32>)
  // CHECK: model.permute_rows %{{.*}}, %[[O]] in experts label "group_rows" {letters = "ch"}
  %g = model.permute_rows %r, %o in experts label "group_rows" {letters = "ch"}
      : (tensor<16x16xf32>, tensor<16xi32>) -> tensor<16x16xf32>
  // CHECK: model.grouped_contract %{{.*}}, %{{.*}}, %[[S]] in experts label "expert_up" {spec = "ch,xmh->cm"}
  %u = model.grouped_contract %g, %up, %s in experts label "expert_up"
      {spec = "ch,xmh->cm"}
      : (tensor<16x16xf32>, tensor<6x12x16xf32>, tensor<16xi32>)
      -> tensor<16x12xf32>
  // CHECK: model.expert_bias %{{.*}}, %{{.*}}, %[[S]] in experts {letters = "cm"}
  %ubias = model.expert_bias %u, %ub, %s in experts {letters = "cm"}
      : (tensor<16x12xf32>, tensor<6x12xf32>, tensor<16xi32>)
      -> tensor<16x12xf32>
  // CHECK: model.weighted_swiglu %{{.*}}, %{{.*}}, %{{.*}} in experts label "expert_act" {letters = "cm", limit = 7.000000e+00 : f64}
  %a = model.weighted_swiglu %ubias, %u, %rw in experts label "expert_act"
      {letters = "cm", limit = 7.0 : f64}
      : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
      -> tensor<16x12xf32>
  // CHECK: model.weighted_swiglu %{{.*}}, %{{.*}}, %{{.*}} in experts {letters = "cm", weighs_input = true}
  %wa = model.weighted_swiglu %u, %u, %rw in experts
      {letters = "cm", weighs_input = true}
      : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
      -> tensor<16x12xf32>
  %d = model.grouped_contract %a, %down, %s in experts label "expert_down"
      {spec = "cm,xhm->ch"}
      : (tensor<16x12xf32>, tensor<6x16x12xf32>, tensor<16xi32>)
      -> tensor<16x16xf32>
  // CHECK: model.permute_rows %{{.*}}, %[[O]] in experts {inverse = true, letters = "ch"}
  %ug = model.permute_rows %d, %o in experts {letters = "ch", inverse = true}
      : (tensor<16x16xf32>, tensor<16xi32>) -> tensor<16x16xf32>
  // CHECK: model.combine %{{.*}}, %[[E]] in router label "combine"
  %y = model.combine %ug, %e in router label "combine"
      : (tensor<16x16xf32>, tensor<8x1x2xi32>) -> tensor<8x1x16xf32>
  model.return
}

// CHECK-LABEL: model.kind @experts_backward
model.kind @experts_backward(%dy: tensor<16x12xf32>, %g: tensor<16x12xf32>,
                             %rw: tensor<16xf32>, %rows: tensor<16x16xf32>,
                             %s: tensor<16xi32>, %ub: tensor<6x12xf32>,
                             %dw: tensor<8x1x2xf32>, %logits: tensor<8x1x6xf32>,
                             %e: tensor<8x1x2xi32>, %load: tensor<1x6xf32>) {
  // CHECK: model.weighted_swiglu_grad
  %dg, %du, %drw = model.weighted_swiglu_grad %dy, %g, %g, %rw in experts
      {letters = "cm"}
      : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16x12xf32>,
         tensor<16xf32>)
      -> (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
  // CHECK: model.weighted_swiglu_grad {{.*}}weighs_input = true}
  %wdg, %wdu, %wdrw = model.weighted_swiglu_grad %dy, %g, %g, %rw in experts
      {letters = "cm", weighs_input = true}
      : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16x12xf32>,
         tensor<16xf32>)
      -> (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
  // CHECK: model.grouped_contract %{{.*}} in experts {spec = "ch,cm->xmh"}
  %dweights = model.grouped_contract %rows, %dg, %s in experts
      {spec = "ch,cm->xmh"}
      : (tensor<16x16xf32>, tensor<16x12xf32>, tensor<16xi32>)
      -> tensor<6x12x16xf32>
  // CHECK: model.expert_bias_grad %{{.*}}, %{{.*}}, %{{.*}} in experts {experts = 6 : i64, letters = "cm"}
  %db = model.expert_bias_grad %dy, %s, %rw in experts
      {letters = "cm", experts = 6 : i64}
      : (tensor<16x12xf32>, tensor<16xi32>, tensor<16xf32>) -> tensor<6x12xf32>
  // CHECK: model.expert_bias_weight_grad
  %dbw = model.expert_bias_weight_grad %dy, %ub, %s in experts
      {letters = "cm"}
      : (tensor<16x12xf32>, tensor<6x12xf32>, tensor<16xi32>) -> tensor<16xf32>
  // CHECK: model.select_rows %{{.*}}, %{{.*}} in router {inverse = true}
  %dws = model.select_rows %drw, %e in router {inverse = true}
      : (tensor<16xf32>, tensor<8x1x2xi32>) -> tensor<8x1x2xf32>
  // CHECK: model.route_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} in router
  %dl = model.route_grad %dws, %logits, %e, %load in router
      {score = #model.score<softmax>, normalize = false, scale = 1.0 : f64,
       aux_loss = 1.0e-3 : f64}
      : (tensor<8x1x2xf32>, tensor<8x1x6xf32>, tensor<8x1x2xi32>,
         tensor<1x6xf32>) -> tensor<8x1x6xf32>
  model.return
}

// CHECK-LABEL: model.kind @shared_gate
model.kind @shared_gate(%y: tensor<8x1x16xf32>, %g: tensor<8x1xf32>) {
  // CHECK: model.sigmoid_gate
  %r = model.sigmoid_gate %y, %g in stream label "shared_gated"
      : (tensor<8x1x16xf32>, tensor<8x1xf32>) -> tensor<8x1x16xf32>
  // CHECK: model.sigmoid_gate_grad
  %dx, %dg = model.sigmoid_gate_grad %r, %y, %g in stream
      : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>)
      -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
  model.return
}

// CHECK-LABEL: model.kind @latent
model.kind @latent(%q: tensor<8x1x2x1x4xf32>, %qr: tensor<8x1x2x1x6xf32>,
                   %k: tensor<8x1x2x4xf32>, %kr: tensor<8x1x6xf32>,
                   %v: tensor<8x1x2x5xf32>, %l: tensor<8x1xi32>) {
  // CHECK: model.latent_attention %{{.*}} in attention label "core_attention" {scale = 5.000000e-01 : f64}
  %o, %lse = model.latent_attention %q, %qr, %k, %kr, %v in attention
      label "core_attention" {scale = 5.0e-1 : f64}
      : (tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>, tensor<8x1x2x4xf32>,
         tensor<8x1x6xf32>, tensor<8x1x2x5xf32>)
      -> (tensor<8x1x2x1x5xf32>, tensor<8x1x2x1xf32>)
  // CHECK: model.latent_attention_grad
  %dq, %dqr, %dk, %dkr, %dv = model.latent_attention_grad
      %o, %q, %qr, %k, %kr, %v, %o, %lse in attention {scale = 5.0e-1 : f64}
      : (tensor<8x1x2x1x5xf32>, tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>,
         tensor<8x1x2x4xf32>, tensor<8x1x6xf32>, tensor<8x1x2x5xf32>,
         tensor<8x1x2x1x5xf32>, tensor<8x1x2x1xf32>)
      -> (tensor<8x1x2x1x4xf32>, tensor<8x1x2x1x6xf32>, tensor<8x1x2x4xf32>,
          tensor<8x1x6xf32>, tensor<8x1x2x5xf32>)
  // CHECK: model.next_tokens
  %n = model.next_tokens %l in loss : (tensor<8x1xi32>) -> tensor<8x1xi32>
  model.return
}

// CHECK-LABEL: model.kind @sinks
model.kind @sinks(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>,
                  %sinks: tensor<2x3xf32>) {
  // CHECK: model.sink_attention %{{.*}} in attention label "core_attention" {scale = 5.000000e-01 : f64, window = 4 : i64}
  %o, %lse = model.sink_attention %q, %k, %k, %sinks in attention
      label "core_attention" {scale = 5.0e-1 : f64, window = 4 : i64}
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>,
         tensor<2x3xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  // CHECK: model.sink_grad
  %ds = model.sink_grad %o, %o, %lse, %sinks in attention
      : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>,
         tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: model.clip %{{.*}} in attention label "q_clip" {letters = "sbnd", limit = 8.000000e+00 : f64}
  %c = model.clip %k in attention label "q_clip"
      {letters = "sbnd", limit = 8.0 : f64}
      : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  // CHECK: model.clip_grad
  %dc = model.clip_grad %c, %k in attention
      {letters = "sbnd", limit = 8.0 : f64}
      : (tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}
