// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// addr_c1
rt.func @address_before_its_base {
  // expected-error @below {{expected the offset to be at least 0, but got -8}}
  rt.launch @k [#rt.addr<workspace, -8>] -> []
}

// -----

// launch_c1
rt.func @launch_of_no_kernel {
  // expected-error @below {{expected '@k' to be a kernel of the module, but found none}}
  rt.launch @k [] -> []
}

// -----

// launch_c2
rt.kernel @k(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  rt.yield %a : tensor<4x8xf32>
}
rt.func @launch_with_too_many_inputs {
  // expected-error @below {{expected 1 inputs and 1 outputs as '@k' has, but got 2 and 1}}
  rt.launch @k [#rt.addr<saved, 0>, #rt.addr<saved, 256>] -> [#rt.addr<workspace, 0>]
}

// -----

// rt_matmul_c1
rt.func @matmul_of_nothing {
  // expected-error @below {{expected sizes to be at least 1, but got 0}}
  rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 0> sizes 4 x 0 x 16 : f32
}

// -----

// rt_attention_c1
rt.func @attention_shape_too_short {
  // expected-error @below {{expected shape to be [s, t, b, n, g, d], but got 3 sizes}}
  rt.attention_fwd <saved, 0>, <saved, 0>, <saved, 0> -> <workspace, 0>, <saved, 0> shape [8, 8, 1] : f32 {causal = true, scale = 0.5 : f64}
}

// -----

// rt_attention_c2
rt.func @attention_without_heads {
  // expected-error @below {{expected sizes to be at least 1, but got 0}}
  rt.attention_fwd <saved, 0>, <saved, 0>, <saved, 0> -> <workspace, 0>, <saved, 0> shape [8, 8, 1, 0, 3, 4] : f32 {causal = true, scale = 0.5 : f64}
}

// -----

// rt_collective_c1
rt.func @collective_of_nobody {
  // expected-error @below {{expected at least one axis, but got none}}
  rt.all_reduce <workspace, 0> -> <workspace, 0> axes [] sum count 64 : f32
}

// -----

// rt_collective_c2
rt.func @collective_of_nothing {
  // expected-error @below {{expected count to be at least 1, but got 0}}
  rt.all_gather <workspace, 0> -> <workspace, 0> axes ["tp"] count 0 : f32
}

// -----

// slice_c1
rt.func @part_longer_than_its_row {
  // expected-error @below {{expected 1 <= part <= stride (256), but got 512}}
  rt.slice <stream_in, 0> -> <workspace, 0> axes ["tp"] rows 1 stride 256 part 512
}

// -----

// yield_c1
rt.kernel @yields_another_type(%a: tensor<4x8xf32>) -> tensor<4x9xf32> {
  // expected-error @below {{expected operands to have the result types of '@yields_another_type'}}
  rt.yield %a : tensor<4x8xf32>
}
