// RUN: shardwright-opt %s --sw-spmd-to-rt -split-input-file -verify-diagnostics

// A batched product is no single matrix product.
model.kind @a_letter_of_the_result_is_in_both_operands(
    %x: tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<8x24xf32> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2xf32> {spmd.address = #rt.addr<workspace, 0>}) {
  // expected-error @below {{is no matrix product ('sbh,sh->sb'): expected each letter of the result in one operand, but 's' is in both}}
  %z = model.contract %x, %y in mlp {spec = "sbh,sh->sb", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<8x24xf32>) -> tensor<8x2xf32>
  model.return %z : tensor<8x2xf32>
}

// -----

model.kind @letters_of_an_operand_are_mixed_in_the_result(
    %x: tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<6x24xf32> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x6x2xf32> {spmd.address = #rt.addr<workspace, 0>}) {
  // expected-error @below {{is no matrix product ('sbh,fh->sfb'): expected the result 'sfb' to be 'sbf' or 'fsb'}}
  %z = model.contract %x, %y in mlp {spec = "sbh,fh->sfb", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<6x24xf32>) -> tensor<8x6x2xf32>
  model.return %z : tensor<8x6x2xf32>
}

// -----

model.kind @an_operand_interleaves_what_it_keeps_and_what_is_summed(
    %x: tensor<8x24x2xf32> {spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<6x24xf32> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2x6xf32> {spmd.address = #rt.addr<workspace, 0>}) {
  // expected-error @below {{expected the operands to hold 'sb', 'h' and 'f' each in one block, but got 'shb' and 'fh'}}
  %z = model.contract %x, %y in mlp {spec = "shb,fh->sbf", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x24x2xf32>, tensor<6x24xf32>) -> tensor<8x2x6xf32>
  model.return %z : tensor<8x2x6xf32>
}

// -----

model.kind @parts_of_an_inner_dim_are_not_whole_buffers(
    %x: tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>})
    -> (tensor<8x2x48xf32> {spmd.address = #rt.addr<workspace, 0>}) {
  // expected-error @below {{expected dim 2 of 'tensor<8x2x24xf32>' to be the outermost}}
  %z = spmd.all_gather %x axes ["tp"] dim 2 {spmd.address = [#rt.addr<workspace, 0>]} : tensor<8x2x24xf32> -> tensor<8x2x48xf32>
  model.return %z : tensor<8x2x48xf32>
}

// -----

// expected-error @below {{expected 'spmd.address' on argument 0}}
model.kind @arguments_have_addresses(%x: tensor<8x2x24xf32>) {
  model.return
}

// -----

model.kind @an_attention_gradient_cannot_accumulate(
    %q: tensor<8x2x3x4x6xf32> {spmd.address = #rt.addr<workspace, 0>},
    %k: tensor<8x2x3x6xf32> {spmd.address = #rt.addr<workspace, 8192>}) {
  // expected-error @below {{expected a result that is overwritten, but its address #rt.addr<grads, 0> is accumulated}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64, spmd.address = [#rt.addr<grads, 0>, #rt.addr<saved, 4096>]}
      : (tensor<8x2x3x4x6xf32>, tensor<8x2x3x6xf32>, tensor<8x2x3x6xf32>) -> (tensor<8x2x3x4x6xf32>, tensor<8x2x3x4xf32>)
  model.return
}
