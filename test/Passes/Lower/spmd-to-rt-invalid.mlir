// RUN: shardwright-opt %s --sw-spmd-to-rt -split-input-file -verify-diagnostics

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// A batched product is no single matrix product.
model.kind @a_letter_of_the_result_is_in_both_operands.none.forward(
    %x: tensor<8x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<8x24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2xf32> {model.res = #model.res<kept, 0>, spmd.address = #rt.addr<workspace, 0>})
    attributes {kind = "a_letter_of_the_result_is_in_both_operands", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  // expected-error @below {{is no matrix product ('sbh,sh->sb'): expected each letter of the result in one operand, but 's' is in both}}
  %z = model.contract %x, %y in mlp {plan.axes = {}, spec = "sbh,sh->sb", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<8x24xf32>) -> tensor<8x2xf32>
  model.return %z : tensor<8x2xf32>
}

model.param @a_letter_of_the_result_is_in_both_operands.0 : tensor<8x24xf32> in stream init zeros {kind = "a_letter_of_the_result_is_in_both_operands", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 8, 24>, hf_strides = array<i64: 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
spmd.stage @stage0 {index = 0, runs = [["a_letter_of_the_result_is_in_both_operands.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}

// -----

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.kind @letters_of_an_operand_are_mixed_in_the_result.none.forward(
    %x: tensor<8x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<6x24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x6x2xf32> {model.res = #model.res<kept, 0>, spmd.address = #rt.addr<workspace, 0>})
    attributes {kind = "letters_of_an_operand_are_mixed_in_the_result", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  // expected-error @below {{is no matrix product ('sbh,fh->sfb'): expected the result 'sfb' to be 'sbf' or 'fsb'}}
  %z = model.contract %x, %y in mlp {plan.axes = {}, spec = "sbh,fh->sfb", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<6x24xf32>) -> tensor<8x6x2xf32>
  model.return %z : tensor<8x6x2xf32>
}

model.param @letters_of_an_operand_are_mixed_in_the_result.0 : tensor<6x24xf32> in stream init zeros {kind = "letters_of_an_operand_are_mixed_in_the_result", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 6, 24>, hf_strides = array<i64: 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
spmd.stage @stage0 {index = 0, runs = [["letters_of_an_operand_are_mixed_in_the_result.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}

// -----

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.kind @an_operand_interleaves_what_it_keeps_and_what_is_summed.none.forward(
    %x: tensor<8x24x2xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %y: tensor<6x24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2x6xf32> {model.res = #model.res<kept, 0>, spmd.address = #rt.addr<workspace, 0>})
    attributes {kind = "an_operand_interleaves_what_it_keeps_and_what_is_summed", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  // expected-error @below {{expected the operands to hold 'sb', 'h' and 'f' each in one block, but got 'shb' and 'fh'}}
  %z = model.contract %x, %y in mlp {plan.axes = {}, spec = "shb,fh->sbf", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x24x2xf32>, tensor<6x24xf32>) -> tensor<8x2x6xf32>
  model.return %z : tensor<8x2x6xf32>
}

model.param @an_operand_interleaves_what_it_keeps_and_what_is_summed.0 : tensor<6x24xf32> in stream init zeros {kind = "an_operand_interleaves_what_it_keeps_and_what_is_summed", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 6, 24>, hf_strides = array<i64: 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
spmd.stage @stage0 {index = 0, runs = [["an_operand_interleaves_what_it_keeps_and_what_is_summed.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}

// -----

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.kind @parts_of_an_inner_dim_are_not_whole_buffers.none.forward(
    %x: tensor<8x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>})
    -> (tensor<8x2x96xf32> {model.res = #model.res<kept, 0>, spmd.address = #rt.addr<workspace, 0>})
    attributes {kind = "parts_of_an_inner_dim_are_not_whole_buffers", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  // expected-error @below {{expected dim 2 of 'tensor<8x2x24xf32>' to be the outermost}}
  %z = spmd.all_gather %x axes ["tp"] dim 2 {spmd.address = [#rt.addr<workspace, 0>]} : tensor<8x2x24xf32> -> tensor<8x2x96xf32>
  model.return %z : tensor<8x2x96xf32>
}

spmd.stage @stage0 {index = 0, runs = [["parts_of_an_inner_dim_are_not_whole_buffers.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}

// -----

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
model.kind @an_attention_gradient_cannot_accumulate.none.forward(
    %q: tensor<8x2x3x4x6xf32> {model.arg = #model.arg<kept, 0>, spmd.address = #rt.addr<workspace, 0>},
    %k: tensor<8x2x3x6xf32> {model.arg = #model.arg<kept, 1>, spmd.address = #rt.addr<workspace, 8192>})
    attributes {kind = "an_attention_gradient_cannot_accumulate", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  // expected-error @below {{expected a result that is overwritten, but its address #rt.addr<grads, 0> is accumulated}}
  %o, %lse = model.attention %q, %k, %k in attention {plan.axes = {}, causal = true, scale = 0.5 : f64, spmd.address = [#rt.addr<grads, 0>, #rt.addr<saved, 4096>]}
      : (tensor<8x2x3x4x6xf32>, tensor<8x2x3x6xf32>, tensor<8x2x3x6xf32>) -> (tensor<8x2x3x4x6xf32>, tensor<8x2x3x4xf32>)
  model.return
}

spmd.stage @stage0 {index = 0, runs = [["an_attention_gradient_cannot_accumulate.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}
