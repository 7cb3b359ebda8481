// RUN: shardwright-opt %s --sw-differentiate --sw-extract-program -o /dev/null > %t.json
// RUN: FileCheck %s --input-file=%t.json
// RUN: shardwright-opt %s --sw-differentiate --sw-extract-program -o /dev/null | cmp - %t.json

// Functions become lists of ops with their iteration spaces; values are numbered
// arguments first. Equal modules give equal bytes.

// CHECK: "family": "llama",
// CHECK: "ffn": 12,
// CHECK: "name": "layer",
// CHECK: "decay": true,
// CHECK-NEXT: "dims": {{\[\[}}4, "ffn"], [7, "hidden"]],
// CHECK-NEXT: "hf_name": "layers.{}.up.weight",
// CHECK-NEXT: "hf_offset": 3,
// CHECK-NEXT: "hf_shape": [7, 11],
// CHECK-NEXT: "hf_strides": [1, 11],
// CHECK-NEXT: "init": "normal",
// CHECK-NEXT: "init_scale": 0.125,
// CHECK-NEXT: "segment": "mlp",
// CHECK-NEXT: "shared": ""

// The data gradient: dy (value 0) times the weights (1) is dx (2).
// CHECK: "data_grad": {
// CHECK-NEXT: "arguments": {{\[\[}}"stream_grad", 0, 0], ["parameter", 0, 1]],
// CHECK: ["s", "parallel", 5],
// CHECK: ["f", "sum", 4]
// CHECK: "kernel": "gemm",
// CHECK: "results": {{\[\[}}2, "sbh"]],
// CHECK: "results": {{\[\[}}"stream_grad", 0, 2], ["kept", 0, 0]],

// The forward pass saves nothing: x is enough for dw.
// CHECK: "forward": {
// CHECK: "label": "up",
// CHECK: "linear": [true, false],
// CHECK: "operands": {{\[\[}}0, "sbh"], [1, "fh"]],
// CHECK: "results": {{\[\[}}"stream_out", 0, 2]],
// CHECK: ["param", [4, "ffn"], [7, "hidden"]],

// A gradient of parameters has the precision in which gradients accumulate.
// CHECK: "policy": "none",
// CHECK-NEXT: "weight_grad": {
// CHECK-NEXT: "arguments": {{\[\[}}"stream_in", 0, 0], ["kept", 0, 1]],
// CHECK: "result_precision": ["grad"],
// CHECK: "results": {{\[\[}}"parameter_grad", 0, 2]],
// CHECK: ["grad", [4, "ffn"], [7, "hidden"]]
// CHECK: "policy": "selective",
// CHECK: "policy": "full",
// CHECK: "kv_heads": 2,
// CHECK: "stack": {{\[\[}}"layer", 6]],
// CHECK: "vocab": 13
module attributes {
  sw.phase = "imported",
  model.program = {name = "one product", family = "llama", sequence = 5, vocab = 13, layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.param @layer.up : tensor<4x7xf32> in mlp init normal {
  kind = "layer", index = 0 : i64, hf_name = "layers.{}.up.weight", letters = "fh",
  hf_shape = array<i64: 7, 11>, hf_strides = array<i64: 9223372036854775808, 11>, hf_offset = 3 : i64,
  init_scale = 0.125 : f64, decay = true}
model.kind @layer(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<4x7xf32> {model.arg = #model.arg<parameter, 0>})
    -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}) {
  %y = model.contract %x, %w in mlp label "up" {spec = "sbh,fh->sbf"}
      : (tensor<5x1x7xf32>, tensor<4x7xf32>) -> tensor<5x1x4xf32>
  model.return %y : tensor<5x1x4xf32>
}
model.stack [["layer", 6]]
}
