// RUN: shardwright-opt %s --sw-differentiate -split-input-file -verify-diagnostics

// expected-error @below {{expected phase 'imported', but got 'planned'}}
module attributes {sw.phase = "planned"} {}

// -----

// expected-error @below {{expected every stream and parameter to be used, but got no gradient for argument 1}}
model.kind @unused_parameter(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>},
    %w: tensor<7xf32> {model.arg = #model.arg<parameter, 0>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  %y = model.add %x, %x in stream label "double" {letters = "sbh"}
      : (tensor<5x1x7xf32>, tensor<5x1x7xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

// -----

model.kind @gradient_op_in_forward(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
  // expected-error @below {{expected an op with a gradient}}
  %y = model.gelu_grad %x, %x in mlp {letters = "sbh", approximate = true}
      : (tensor<5x1x7xf32>, tensor<5x1x7xf32>) -> tensor<5x1x7xf32>
  model.return %y : tensor<5x1x7xf32>
}

// -----

// expected-error @below {{expected the loss to come from max_logit, sum_exp, target_logit and token_loss}}
model.kind @loss_from_nowhere(
    %x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<7xf32> {model.res = #model.res<loss, 0>}) {
  %y = model.column_sum %x in loss {spec = "sbh->h"} : (tensor<5x1x7xf32>) -> tensor<7xf32>
  model.return %y : tensor<7xf32>
}

// -----

// expected-error @below {{expected argument 0 (stream_in) to have rank 3, but got 2}}
model.kind @flat_stream(
    %x: tensor<5x7xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<5x7xf32> {model.res = #model.res<stream_out, 0>}) {
  model.return %x : tensor<5x7xf32>
}
