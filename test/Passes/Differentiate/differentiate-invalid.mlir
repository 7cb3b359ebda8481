// RUN: shardwright-opt %s --sw-differentiate -split-input-file -verify-diagnostics

// expected-error @below {{expected phase 'imported', but got "planned" [phase_c1]}}
module attributes {sw.phase = "planned"} {}

// -----

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// expected-error @below {{expected every stream and parameter to be used, but got no gradient for argument 1}}
model.kind @unused_parameter(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<7xf32> {model.arg = #model.arg<parameter, 0>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  %y = model.add %x, %x in stream label "double" {letters = "sbh"}
      : (tensor<5x1x7xf32>, tensor<5x1x7xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

model.param @unused_parameter.0 : tensor<7xf32> in stream init zeros {kind = "unused_parameter", index = 0, letters = "h", hf_name = "0", hf_shape = array<i64: 7>, hf_strides = array<i64: 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.stack [["unused_parameter", 1]]
}

// -----

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.kind @gradient_op_in_forward(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  // expected-error @below {{expected an op with a gradient}}
  %y = model.gelu_grad %x, %x in mlp {letters = "sbh", approximate = true}
      : (tensor<5x1x7xf32>, tensor<5x1x7xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

model.stack [["gradient_op_in_forward", 1]]
}

// -----

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// expected-error @below {{expected the loss to come from max_logit, sum_exp, target_logit and token_loss}}
model.kind @loss_from_nowhere(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<7xf32> {model.res = #model.res<loss, 0>}) {
  %y = model.column_sum %x in loss {spec = "sbh->h"} : (tensor<5x1x7xf32>) -> tensor<7xf32>
  model.return %y : tensor<7xf32>
}

model.stack [["loss_from_nowhere", 1]]
}

// -----

module attributes {
  sw.phase = "imported",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// expected-error @below {{expected argument 0 (stream_in) to have rank 3, but got 2}}
model.kind @flat_stream(
    %x: tensor<5x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<5x7xf32> {model.res = #model.res<stream_out, 0>}) {
  model.return %x : tensor<5x7xf32>
}

model.stack [["flat_stream", 1]]
}
