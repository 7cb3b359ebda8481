// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// mesh_c2
// expected-error @below {{expected axis names to differ, but got "dp" twice}}
module attributes {plan.mesh = #plan.mesh<[dp=2,dp=2]>} {}

// -----

// mesh_c3
// expected-error @below {{expected the size of axis "dp" to be at least 1, but got 0}}
module attributes {plan.mesh = #plan.mesh<[dp=0]>} {}

// -----

// expected-error @below {{expected 'plan.mesh' to be #plan.mesh<...>, but got "2x2"}}
module attributes {plan.mesh = "2x2"} {}

// -----

// expected-error @below {{expected 'plan.axes' to map letters to arrays of axis names, but got ["dp"]}}
func.func private @axes_are_a_dictionary() attributes {plan.axes = ["dp"]}

// -----

// sh_c1
// expected-error @below {{expected one list of axes per dim (2), but got 1}}
func.func private @one_list_per_dim(tensor<8x16xf32, #plan.sh<dims=[["dp"]]>>)

// -----

// sh_c2
// expected-error @below {{expected axes of a sharding to differ, but got "dp" twice}}
func.func private @axis_stands_twice(tensor<8x16xf32, #plan.sh<dims=[["dp"],["dp"]]>>)

// -----

// sh_c2
// expected-error @below {{expected axes of a sharding to differ, but got "tp" twice}}
func.func private @axis_sharded_and_partial(tensor<8x16xf32, #plan.sh<dims=[["tp"],[]], partial=sum["tp"]>>)

// -----

// sh_c3
// expected-error @below {{expected partial axes exactly if there is a partial reduction, but got 'sum' over 0 axes}}
func.func private @partial_over_nothing(tensor<8x16xf32, #plan.sh<dims=[[],[]], partial=sum[]>>)

// -----

// expected-error @below {{expected 'sum' or 'max', but got 'min'}}
func.func private @partial_minimum(tensor<8xf32, #plan.sh<dims=[[]], partial=min["tp"]>>)

// -----

// reshard_c1
func.func @reshard_changes_shape(%x: tensor<8xf32, #plan.sh<dims=[["tp"]]>>) {
  // expected-error @below {{expected input and result to differ only in their sharding, but got}}
  %y = plan.reshard %x all_gather axes ["tp"] dim 0 : tensor<8xf32, #plan.sh<dims=[["tp"]]>> -> tensor<16xf32, #plan.sh<dims=[[]]>>
  return
}

// -----

// reshard_c2
func.func @reshard_without_encoding(%x: tensor<8xf32>) {
  // expected-error @below {{expected both types to carry #plan.sh, but got}}
  %y = plan.reshard %x all_gather axes ["tp"] dim 0 : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// reshard_c3
func.func @reduces_what_is_not_partial(%x: tensor<8xf32, #plan.sh<dims=[[]]>>) {
  // expected-error @below {{expected all_reduce to have a value partial over its axes, but got axes ["tp"] dim -1}}
  %y = plan.reshard %x all_reduce axes ["tp"] : tensor<8xf32, #plan.sh<dims=[[]]>> -> tensor<8xf32, #plan.sh<dims=[[]]>>
  return
}

// -----

// reshard_c3
func.func @gathers_outer_axis(%x: tensor<8xf32, #plan.sh<dims=[["dp","tp"]]>>) {
  // expected-error @below {{expected all_gather to have a dim whose inner axes are those gathered, but got axes ["dp"] dim 0}}
  %y = plan.reshard %x all_gather axes ["dp"] dim 0 : tensor<8xf32, #plan.sh<dims=[["dp","tp"]]>> -> tensor<8xf32, #plan.sh<dims=[["tp"]]>>
  return
}

// -----

// reshard_c3
func.func @slices_a_dim_that_is_not(%x: tensor<8xf32, #plan.sh<dims=[[]]>>) {
  // expected-error @below {{expected slice to have a dim of the tensor, but got axes ["tp"] dim 1}}
  %y = plan.reshard %x slice axes ["tp"] dim 1 : tensor<8xf32, #plan.sh<dims=[[]]>> -> tensor<8xf32, #plan.sh<dims=[["tp"]]>>
  return
}

// -----

// reshard_c4
func.func @slice_into_another_dim(%x: tensor<8x16xf32, #plan.sh<dims=[[],[]]>>) {
  // expected-error @below {{expected the result to have sharding #plan.sh<dims=[["tp"],[]]>, but got #plan.sh<dims=[[],["tp"]]>}}
  %y = plan.reshard %x slice axes ["tp"] dim 0 : tensor<8x16xf32, #plan.sh<dims=[[],[]]>> -> tensor<8x16xf32, #plan.sh<dims=[[],["tp"]]>>
  return
}
