// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// collective_c1
func.func @no_axis(%x: tensor<8xf32>) {
  // expected-error @below {{expected at least one axis, but got none}}
  %y = spmd.all_reduce %x axes [] sum : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// collective_c1
func.func @axis_stands_twice(%x: tensor<8xf32>) {
  // expected-error @below {{expected axes to differ, but got "tp" twice}}
  %y = spmd.all_reduce %x axes ["tp", "tp"] sum : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// collective_c1
module attributes {plan.mesh = #plan.mesh<[dp=2,tp=2]>} {
func.func @axis_not_of_the_mesh(%x: tensor<8xf32>) {
  // expected-error @below {{expected an axis of #plan.mesh<[dp=2,tp=2]>, but got "ep"}}
  %y = spmd.all_reduce %x axes ["ep"] sum : tensor<8xf32> -> tensor<8xf32>
  return
}
}

// -----

// all_reduce_c1
func.func @all_reduce_changes_type(%x: tensor<8xf32>) {
  // expected-error @below {{expected the result to have type 'tensor<8xf32>', but got 'tensor<4xf32>'}}
  %y = spmd.all_reduce %x axes ["tp"] sum : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// collective_c2
module attributes {plan.mesh = #plan.mesh<[dp=2,tp=2]>} {
func.func @gather_of_four(%x: tensor<8x3xf32>) {
  // expected-error @below {{expected dim 0 of 'tensor<32x3xf32>' to be 2 times that of 'tensor<8x3xf32>' and the rest to be equal}}
  %y = spmd.all_gather %x axes ["tp"] dim 0 : tensor<8x3xf32> -> tensor<32x3xf32>
  return
}
}

// -----

// collective_c2
func.func @scatter_without_mesh_needs_a_multiple(%x: tensor<8x3xf32>) {
  // expected-error @below {{expected dim 0 of 'tensor<8x3xf32>' to be a multiple of that of 'tensor<5x3xf32>' and the rest to be equal}}
  %y = spmd.reduce_scatter %x axes ["tp"] dim 0 : tensor<8x3xf32> -> tensor<5x3xf32>
  return
}

// -----

// collective_c2
func.func @slice_of_a_dim_that_is_not(%x: tensor<8x3xf32>) {
  // expected-error @below {{expected dim to be one of 2, but got 2}}
  %y = spmd.slice %x axes ["tp"] dim 2 : tensor<8x3xf32> -> tensor<8x3xf32>
  return
}

// -----

// action_c1
// expected-error @below {{expected microbatch, slot and chunk to be at least 0, but got -1}}
spmd.stage @s {index = 0 : i64, runs = [], schedule = [#spmd.action<forward, -1, 0>]}

// -----

// action_c1
// expected-error @below {{expected takes, leaves and peer to be at least -1, but got -2}}
spmd.stage @s {index = 0 : i64, runs = [], schedule = [#spmd.action<send_forward, 0, 0 takes 0 peer -2>]}

// -----

// stage_c1
// expected-error @below {{expected index to be at least 0, but got -1}}
spmd.stage @s {index = -1 : i64, runs = []}

// -----

// stage_c2
// expected-error @below {{expected each run to be ["function", count, first layer], or with its chunk behind them, but got ["dense.none", 2]}}
spmd.stage @s {index = 0 : i64, runs = [["dense.none", 2]]}

// -----

// stage_c2
// expected-error @below {{expected the count of "dense.none" to be at least 1, but got 0}}
spmd.stage @s {index = 0 : i64, runs = [["dense.none", 0, 0]]}

// -----

// stage_c2
// expected-error @below {{expected each run to be ["function", count, first layer], or with its chunk behind them, but got ["dense.none", 2, 0, "1"]}}
spmd.stage @s {index = 0 : i64, runs = [["dense.none", 2, 0, "1"]]}

// -----

// stage_c2
// expected-error @below {{expected the chunk of ["dense.none", 1, 0, 1] to be 0, but got 1}}
spmd.stage @s {index = 0 : i64, runs = [["dense.none", 1, 0, 1]]}

// -----

// stage_c2
// expected-error @below {{expected the chunk of ["dense.none", 1, 2, 2] to be 0 or the next, but got 2}}
spmd.stage @s {index = 0 : i64, runs = [["dense.none", 1, 0, 0], ["dense.none", 1, 2, 2]]}

// -----

// stage_c3
// expected-error @below {{expected the schedule to hold #spmd.action, but got "forward"}}
spmd.stage @s {index = 0 : i64, runs = [], schedule = ["forward"]}

// -----

// stage_c4
// expected-error @below {{expected slots below 1, but got #spmd.action<forward, 0, 1>}}
spmd.stage @s {index = 0 : i64, runs = [], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 1>]}

// -----

// stage_c4
// expected-error @below {{expected slots below 1, but got #spmd.action<backward_data, 0, 1, chunk 1>}}
spmd.stage @s {index = 0 : i64, runs = [], slots = array<i64: 2, 1>, schedule = [#spmd.action<forward, 0, 1>, #spmd.action<backward_data, 0, 1, chunk 1>]}

// -----

// stage_c4
// expected-error @below {{expected chunks below 1, but got #spmd.action<forward, 0, 0, chunk 1>}}
spmd.stage @s {index = 0 : i64, runs = [], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0, chunk 1>]}
