// RUN: shardwright-opt %s --sw-differentiate | FileCheck %s

// An op without label is always computed again, from what is saved or from the
// arguments, and a dead op is gone.

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// CHECK-LABEL: model.kind @layer.none.forward(
// CHECK-SAME: tensor<5x1x3xf32> {model.res = #model.res<saved, 0>})
// CHECK-NOT: label "dead"
// CHECK: %[[UP:.*]] = model.contract %{{.*}} label "up"
// CHECK-NEXT: %[[ACT:.*]] = model.gelu %[[UP]] in mlp {
// CHECK: model.return %{{[a-z0-9]+}}, %[[UP]] :

// CHECK-LABEL: model.kind @layer.none.data_grad(
// CHECK-SAME: %[[DY:[a-z0-9]+]]: tensor<5x1x7xf32> {model.arg = #model.arg<stream_grad, 0>}
// CHECK-SAME: %[[UP:[a-z0-9]+]]: tensor<5x1x3xf32> {model.arg = #model.arg<saved, 0>}
// CHECK-NEXT: %[[ACT:.*]] = model.gelu %[[UP]] in mlp {
// CHECK-NEXT: %[[DA:.*]] = model.contract %[[DY]]
// CHECK-NEXT: %[[DU:.*]] = model.gelu_grad %[[DA]], %[[UP]]
// CHECK-NEXT: %[[DX:.*]] = model.contract %[[DU]]
// CHECK-NEXT: model.return %[[DX]], %[[DY]], %[[ACT]], %[[DU]]

// CHECK-LABEL: model.kind @layer.full.data_grad(
// CHECK-NEXT: %[[UP:.*]] = model.contract %{{.*}} label "up"
// CHECK-NEXT: model.gelu %[[UP]]
model.kind @layer(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %wu: tensor<3x7xf32> {model.arg = #model.arg<parameter, 0>},
    %wd: tensor<7x3xf32> {model.arg = #model.arg<parameter, 1>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  %u = model.contract %x, %wu in mlp label "up" {spec = "sbh,fh->sbf"}
      : (tensor<5x1x7xf32>, tensor<3x7xf32>) -> tensor<5x1x3xf32>
  %dead = model.add %u, %u in mlp label "dead" {letters = "sbf"}
      : (tensor<5x1x3xf32>, tensor<5x1x3xf32>) -> tensor<5x1x3xf32>
  %a = model.gelu %u in mlp {letters = "sbf", approximate = false}
      : (tensor<5x1x3xf32>) -> tensor<5x1x3xf32>
  %y = model.contract %a, %wd in mlp label "down" {spec = "sbf,hf->sbh"}
      : (tensor<5x1x3xf32>, tensor<7x3xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

model.param @layer.0 : tensor<3x7xf32> in stream init zeros {kind = "layer", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 3, 7>, hf_strides = array<i64: 7, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @layer.1 : tensor<7x3xf32> in stream init zeros {kind = "layer", index = 1, letters = "hf", hf_name = "1", hf_shape = array<i64: 7, 3>, hf_strides = array<i64: 3, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.stack [["layer", 1]]
}
