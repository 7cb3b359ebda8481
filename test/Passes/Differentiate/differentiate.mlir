// RUN: shardwright-opt %s --sw-differentiate | FileCheck %s

// A layer of one norm, one product and a residual sum, with one parameter each.

// CHECK: module attributes {{.*}}sw.phase = "differentiated"
module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {

// The forward pass returns the stream, then what backward needs of it: the
// norm's output (for dw) and its row statistic. The product and the sum are
// labelled, yet nothing needs them.
// CHECK-LABEL: model.kind @layer.none.forward(
// CHECK-SAME: %[[X:.*]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_in, 0>}
// CHECK-SAME: %[[W:.*]]: tensor<4xf32> {model.arg = #model.arg<parameter, 0>}
// CHECK-SAME: %[[P:.*]]: tensor<4x4xf32> {model.arg = #model.arg<parameter, 1>}
// CHECK-SAME: -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}
// CHECK-SAME: tensor<5x1x4xf32> {model.res = #model.res<saved, 0>}
// CHECK-SAME: tensor<5x1xf32> {model.res = #model.res<saved, 1>})
// CHECK-SAME: kind = "layer"
// CHECK-SAME: part = #model.part<forward>
// CHECK-SAME: policy = #model.recompute<none>
// CHECK-NEXT: %[[N:.*]], %[[R:.*]] = model.rms_norm %[[X]], %[[W]]
// CHECK-NEXT: %[[Y:.*]] = model.contract %[[N]], %[[P]]
// CHECK-NEXT: %[[Z:.*]] = model.add %[[X]], %[[Y]]
// CHECK-NEXT: model.return %[[Z]], %[[N]], %[[R]]

// dx = dy + norm'(dy p^T). The gradient of the norm's output is kept for dw,
// and so is dy.
// CHECK-LABEL: model.kind @layer.none.data_grad(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_grad, 0>}
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_in, 0>}
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<5x1xf32> {model.arg = #model.arg<saved, 1>}
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4xf32> {model.arg = #model.arg<parameter, 0>}
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<4x4xf32> {model.arg = #model.arg<parameter, 1>}
// CHECK-SAME: -> (tensor<5x1x4xf32> {model.res = #model.res<stream_grad, 0>}
// CHECK-SAME: tensor<5x1x4xf32> {model.res = #model.res<kept, 0>}
// CHECK-SAME: tensor<5x1x4xf32> {model.res = #model.res<kept, 1>})
// CHECK-NEXT: %[[DN:.*]] = model.contract %[[DY]], %[[P]] in mlp {spec = "sbh,fh->sbf"}
// CHECK-NEXT: %[[DX:.*]] = model.rms_norm_grad %[[DN]], %[[X]], %[[W]], %[[R]] in stream
// CHECK-NEXT: %[[SUM:.*]] = model.add %[[DY]], %[[DX]] in stream {letters = "sbh"}
// CHECK-NEXT: model.return %[[SUM]], %[[DY]], %[[DN]]

// Everything else, parameters in order.
// CHECK-LABEL: model.kind @layer.none.weight_grad(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_in, 0>}
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<saved, 0>}
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<5x1xf32> {model.arg = #model.arg<saved, 1>}
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<kept, 0>}
// CHECK-SAME: %[[DN:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<kept, 1>}
// CHECK-SAME: -> (tensor<4xf32> {model.res = #model.res<parameter_grad, 0>}
// CHECK-SAME: tensor<4x4xf32> {model.res = #model.res<parameter_grad, 1>})
// CHECK-NEXT: %[[DP:.*]] = model.contract %[[DY]], %[[N]] in mlp {spec = "sbh,sbf->fh"}
// CHECK-NEXT: %[[DW:.*]] = model.rms_norm_weight_grad %[[DN]], %[[X]], %[[R]] in stream
// CHECK-NEXT: model.return %[[DW]], %[[DP]]

// No op is labelled core_attention: selective saves what none saves.
// CHECK-LABEL: model.kind @layer.selective.forward(
// CHECK: model.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: model.kind @layer.selective.data_grad(
// CHECK: model.kind @layer.selective.weight_grad(

// Full saves nothing; the norm runs again at the head of data_grad, and what
// weight_grad needs of it is kept. Product and sum do not run again.
// CHECK-LABEL: model.kind @layer.full.forward(
// CHECK-SAME: -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}) attributes
// CHECK: model.return %{{[a-z0-9]+}} :
// CHECK-LABEL: model.kind @layer.full.data_grad(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<5x1x4xf32> {model.arg = #model.arg<stream_grad, 0>}
// CHECK-NEXT: %[[N:.*]], %[[R:.*]] = model.rms_norm %{{.*}} in stream label "norm"
// CHECK-NEXT: %[[DN:.*]] = model.contract
// CHECK-NEXT: model.rms_norm_grad %[[DN]], %{{.*}}, %{{.*}}, %[[R]]
// CHECK-NEXT: %[[SUM:.*]] = model.add
// CHECK-NEXT: model.return %[[SUM]], %[[DY]], %[[N]], %[[R]], %[[DN]]
// CHECK-LABEL: model.kind @layer.full.weight_grad(
// CHECK-NOT: model.arg<saved
// CHECK: model.return

// The imported kind is gone.
// CHECK-NOT: model.kind @layer(
model.kind @layer(
    %x: tensor<5x1x4xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<4xf32> {model.arg = #model.arg<parameter, 0>},
    %p: tensor<4x4xf32> {model.arg = #model.arg<parameter, 1>})
    -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}) {
  %n, %r = model.rms_norm %x, %w in stream label "norm" {letters = "sbh", eps = 1.0e-5 : f64}
      : (tensor<5x1x4xf32>, tensor<4xf32>) -> (tensor<5x1x4xf32>, tensor<5x1xf32>)
  %y = model.contract %n, %p in mlp label "product" {spec = "sbf,fh->sbh"}
      : (tensor<5x1x4xf32>, tensor<4x4xf32>) -> tensor<5x1x4xf32>
  %z = model.add %x, %y in stream label "sum" {letters = "sbh"}
      : (tensor<5x1x4xf32>, tensor<5x1x4xf32>) -> tensor<5x1x4xf32>
  model.return %z : tensor<5x1x4xf32>
}

model.param @layer.0 : tensor<4xf32> in stream init zeros {kind = "layer", index = 0, letters = "h", hf_name = "0", hf_shape = array<i64: 4>, hf_strides = array<i64: 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @layer.1 : tensor<4x4xf32> in stream init zeros {kind = "layer", index = 1, letters = "hf", hf_name = "1", hf_shape = array<i64: 4, 4>, hf_strides = array<i64: 4, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.stack [["layer", 1]]
}
