// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// space_c1
model.kind @letter_unknown(%x: tensor<8x16xf32>) {
  // expected-error @below {{expected letters of operand 0 to be known, but got 'z'}}
  %y = model.gelu %x in mlp {letters = "sz", approximate = true} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  model.return
}

// -----

// space_c1
model.kind @letter_stands_twice(%x: tensor<8x8xf32>) {
  // expected-error @below {{expected letters of operand 0 to differ, but got "ss"}}
  %y = model.gelu %x in mlp {letters = "ss", approximate = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  model.return
}

// -----

// space_c2
model.kind @dim_without_letter(%x: tensor<8x1x16xf32>) {
  // expected-error @below {{expected operand 0 to have 2 dims ("sf"), but got 3}}
  %y = model.gelu %x in mlp {letters = "sf", approximate = true} : (tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// space_c3
model.kind @sizes_of_a_letter_differ(%x: tensor<8x1x16xf32>, %w: tensor<32x17xf32>) {
  // expected-error @below {{expected dim 'h' of operand 1 to equal that of operand 0 (16), but got 17}}
  %y = model.contract %x, %w in mlp {spec = "sbh,fh->sbf"} : (tensor<8x1x16xf32>, tensor<32x17xf32>) -> tensor<8x1x32xf32>
  model.return
}

// -----

// contract_c1
model.kind @letter_in_one_place(%x: tensor<8x1x16xf32>, %w: tensor<32xf32>) {
  // expected-error @below {{expected letter 'h' to stand in two of lhs, rhs and result, but got "sbh,f->sbf"}}
  %y = model.contract %x, %w in mlp {spec = "sbh,f->sbf"} : (tensor<8x1x16xf32>, tensor<32xf32>) -> tensor<8x1x32xf32>
  model.return
}

// -----

// contract_c2
model.kind @contract_spec_names_one_operand(%x: tensor<8x1x16xf32>, %w: tensor<32x16xf32>) {
  // expected-error @below {{expected spec to have the form "letters,letters->letters", but got "sbh->sbf"}}
  %y = model.contract %x, %w in mlp {spec = "sbh->sbf"} : (tensor<8x1x16xf32>, tensor<32x16xf32>) -> tensor<8x1x32xf32>
  model.return
}

// -----

// bias_add_c1
model.kind @bias_over_other_dims(%x: tensor<8x1x16xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected bias_letters to end letters ("sbh"), but got "s"}}
  %y = model.bias_add %x, %b in mlp {letters = "sbh", bias_letters = "s"} : (tensor<8x1x16xf32>, tensor<8xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// column_sum_c1
model.kind @column_sum_makes_a_letter(%x: tensor<8x1x16xf32>) {
  // expected-error @below {{expected letter 'f' of the result to stand in the input, but got "sbh->f"}}
  %y = model.column_sum %x in mlp {spec = "sbh->f"} : (tensor<8x1x16xf32>) -> tensor<16xf32>
  model.return
}

// -----

// column_sum_c2
model.kind @column_sum_without_arrow(%x: tensor<8x1x16xf32>) {
  // expected-error @below {{expected spec to have the form "letters->letters", but got "sbh"}}
  %y = model.column_sum %x in mlp {spec = "sbh"} : (tensor<8x1x16xf32>) -> tensor<16xf32>
  model.return
}

// -----

// norm_c1
model.kind @norm_without_rows(%x: tensor<16xf32>, %w: tensor<16xf32>) {
  // expected-error @below {{expected at least 2 letters, but got "h"}}
  %y, %r = model.rms_norm %x, %w in stream {letters = "h", eps = 1.0e-5 : f64} : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<f32>)
  model.return
}

// -----

// norm_c2
model.kind @rms_norm_without_eps(%x: tensor<8x1x16xf32>, %w: tensor<16xf32>) {
  // expected-error @below {{expected eps to be positive, but got}}
  %y, %r = model.rms_norm %x, %w in stream {letters = "sbh", eps = 0.0 : f64} : (tensor<8x1x16xf32>, tensor<16xf32>) -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
  model.return
}

// -----

// norm_c2
model.kind @layer_norm_with_negative_eps(%x: tensor<8x1x16xf32>, %w: tensor<16xf32>) {
  // expected-error @below {{expected eps to be positive, but got}}
  %y, %m, %r = model.layer_norm %x, %w, %w in stream {letters = "sbh", eps = -1.0 : f64} : (tensor<8x1x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x1x16xf32>, tensor<8x1xf32>, tensor<8x1xf32>)
  model.return
}

// -----

// rope_c1
model.kind @rope_without_positions(%x: tensor<1x2x4xf32>) {
  // expected-error @below {{expected letters to contain 's', but got "bnd"}}
  %y = model.rope %x in attention {letters = "bnd", theta = 1.0e+4 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  model.return
}

// -----

// rope_c2
model.kind @rope_of_an_odd_width(%x: tensor<8x1x2x5xf32>) {
  // expected-error @below {{expected the last dim to be even, but got 5}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64} : (tensor<8x1x2x5xf32>) -> tensor<8x1x2x5xf32>
  model.return
}

// -----

// rope_c3
model.kind @rope_without_theta(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected theta to be positive, but got}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 0.0 : f64} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// rope_c4
model.kind @rope_of_unknown_scaling(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected rope_type to be "linear", "llama3", "yarn" or "longrope", but got {factor = 2.000000e+00 : f64, rope_type = "ntk"}}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64, scaling = {rope_type = "ntk", factor = 2.0 : f64}} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// rope_c4
model.kind @llama3_scaling_without_its_numbers(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected scaling to have the number 'low_freq_factor', but got}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64, scaling = {rope_type = "llama3", factor = 2.0 : f64}} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// rope_c4
model.kind @llama3_scaling_without_positions(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected scaling to have the integer 'original_max_position_embeddings', but got}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64, scaling = {rope_type = "llama3", factor = 2.0 : f64, low_freq_factor = 1.0 : f64, high_freq_factor = 4.0 : f64}} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// rope_c4
model.kind @longrope_with_a_factor_too_few(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected scaling to have 2 'factors' above 0, but got}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64, scaling = {rope_type = "longrope", attention_factor = 1.0 : f64, factors = array<f64: 1.0>}} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// norm_c3
model.kind @norm_along_no_last_letters(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected columns to be the last letters of "sbnd" and not all, but got "n"}}
  %y = model.square_sum %x in attention {letters = "sbnd", columns = "n"} : (tensor<8x1x2x4xf32>) -> tensor<8x1x4xf32>
  model.return
}

// -----

// norm_c4
model.kind @rows_of_a_count_that_no_ranks_make(%x: tensor<8x1x2x4xf32>, %w: tensor<2x4xf32>, %sum: tensor<8x1xf32>) {
  // expected-error @below {{expected count to be a multiple of the elements of a row (8), but got 12}}
  %y, %r = model.rms_apply %x, %w, %sum in attention {letters = "sbnd", columns = "nd", eps = 1.0e-5 : f64, count = 12 : i64} : (tensor<8x1x2x4xf32>, tensor<2x4xf32>, tensor<8x1xf32>) -> (tensor<8x1x2x4xf32>, tensor<8x1xf32>)
  model.return
}

// -----

// rope_c5
model.kind @rope_of_more_than_a_head(%x: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected rotary_dim to be even and from 2 to 4, but got 6}}
  %y = model.rope %x in attention {letters = "sbnd", theta = 1.0e+4 : f64, rotary_dim = 6 : i64} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}

// -----

// attention_c2
model.kind @window_without_causal(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected window to be at least 1 and attention to be causal, but got 4 without causal}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = false, scale = 0.5 : f64, window = 4 : i64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// attention_c5
model.kind @chunk_with_window(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected chunk to be at least 1 and attention to be causal and without window, but got 4 with window}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64, window = 3 : i64, chunk = 4 : i64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// attention_c5
model.kind @chunk_of_nothing(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected chunk to be at least 1 and attention to be causal and without window, but got 0}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64, chunk = 0 : i64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// scale_positions_c1
model.kind @scale_without_positions(%x: tensor<1x2x4xf32>) {
  // expected-error @below {{expected letters to contain s, but got "bnd"}}
  %y = model.scale_positions %x in attention {letters = "bnd", floor = 8 : i64, strength = 0.1 : f64} : (tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  model.return
}

// -----

// scale_positions_c2
model.kind @scale_without_floor(%x: tensor<8x2x4xf32>) {
  // expected-error @below {{expected floor to be at least 1, but got 0}}
  %y = model.scale_positions %x in attention {letters = "snd", floor = 0 : i64, strength = 0.1 : f64} : (tensor<8x2x4xf32>) -> tensor<8x2x4xf32>
  model.return
}

// -----

// attention_c3
model.kind @softcap_of_nothing(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected softcap to be positive, but got}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64, softcap = 0.0 : f64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// attention_c4
model.kind @alibi_of_other_heads(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected alibi and alibi_heads together, a multiple of the query heads (6), but got 8}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64, alibi = 1.0 : f64, alibi_heads = 8 : i64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// softcap_c1
model.kind @negative_cap(%x: tensor<8x1x16xf32>) {
  // expected-error @below {{expected cap to be positive, but got -1}}
  %y = model.softcap %x in head {letters = "sbh", cap = -1.0 : f64} : (tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// add_positions_c2
model.kind @positions_before_the_table(%x: tensor<8x1x16xf32>, %t: tensor<12x16xf32>) {
  // expected-error @below {{expected offset to be at least 0, but got -1}}
  %y = model.add_positions %x, %t in embed {offset = -1 : i64} : (tensor<8x1x16xf32>, tensor<12x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// add_positions_c1
model.kind @positions_past_the_table(%x: tensor<8x1x16xf32>, %t: tensor<9x16xf32>) {
  // expected-error @below {{expected the table to have at least 10 rows, but got 9}}
  %y = model.add_positions %x, %t in embed {offset = 2 : i64} : (tensor<8x1x16xf32>, tensor<9x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// attention_c1
model.kind @causal_with_other_keys(%q: tensor<8x1x2x3x4xf32>, %k: tensor<9x1x2x4xf32>) {
  // expected-error @below {{expected causal attention to have as many keys as queries (8), but got 9}}
  %o, %lse = model.attention %q, %k, %k in attention {causal = true, scale = 0.5 : f64} : (tensor<8x1x2x3x4xf32>, tensor<9x1x2x4xf32>, tensor<9x1x2x4xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// add_positions_c1
model.kind @positions_run_out(%x: tensor<8x1x16xf32>, %table: tensor<7x16xf32>) {
  // expected-error @below {{expected the table to have at least 8 rows, but got 7}}
  %y = model.add_positions %x, %table in embed : (tensor<8x1x16xf32>, tensor<7x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// vocab_c1
model.kind @no_vocabulary(%logits: tensor<8x1x64xf32>) {
  // expected-error @below {{expected valid_vocab to be at least 1, but got 0}}
  %max = model.max_logit %logits in loss {valid_vocab = 0 : i64} : (tensor<8x1x64xf32>) -> tensor<8x1xf32>
  model.return
}

// -----

// The types themselves.
model.kind @ids_are_i32(%ids: tensor<8x1xf32>, %table: tensor<64x16xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor of i32 values}}
  %y = model.embedding %ids, %table in embed : (tensor<8x1xf32>, tensor<64x16xf32>) -> tensor<8x1x16xf32>
  model.return
}

// -----

// The types themselves.
model.kind @shapes_are_static(%x: tensor<?x16xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor of floating-point values}}
  %y = model.gelu %x in mlp {letters = "sf", approximate = true} : (tensor<?x16xf32>) -> tensor<?x16xf32>
  model.return
}

// -----

// kind_c1
// expected-error @below {{expected a body that ends in 'model.return', but got none}}
model.kind @ends_otherwise() {
  func.return
}

// -----

// kind_c2
// expected-error @below {{expected 'model.arg' of argument 0 to be #model.arg<...>, but got 3 : i64}}
model.kind @wrong_arg(%x: tensor<8xf32> {model.arg = 3 : i64}) {
  model.return
}

// -----

// kind_c2
// expected-error @below {{expected 'model.res' of result 0 to be #model.res<...>, but got "y"}}
model.kind @wrong_res(%x: tensor<8xf32>) -> (tensor<8xf32> {model.res = "y"}) {
  model.return %x : tensor<8xf32>
}

// -----

// return_c1
model.kind @returns_too_little(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected 1 operands as '@returns_too_little' has results, but got 0}}
  model.return
}

// -----

// return_c2
model.kind @returns_another_type(%x: tensor<8xf32>) -> tensor<9xf32> {
  // expected-error @below {{expected operand 0 to have type 'tensor<9xf32>', but got 'tensor<8xf32>'}}
  model.return %x : tensor<8xf32>
}

// -----

// param_c1
// expected-error @below {{expected one letter per dim (2), but got "fhd"}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = 0 : i64, letters = "fhd", hf_name = "w", hf_strides = array<i64: 16, 1>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// param_c2
// expected-error @below {{expected letters to be known and to differ, but got "hh"}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = 0 : i64, letters = "hh", hf_name = "w", hf_strides = array<i64: 16, 1>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// param_c3
// expected-error @below {{expected one stride per dim (2), but got 1}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = 0 : i64, letters = "fh", hf_name = "w", hf_strides = array<i64: 16>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// param_c6
// expected-error @below {{expected hf_shape, hf_strides and hf_offset to count fewer than 2^63 elements}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = 0 : i64, letters = "fh", hf_name = "w", hf_strides = array<i64: 16, 9223372036854775807>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// param_c4
// expected-error @below {{expected elements to lie inside the 512 of hf_shape, but got element 512}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = 0 : i64, letters = "fh", hf_name = "w", hf_strides = array<i64: 16, 1>, hf_offset = 1 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// param_c5
// expected-error @below {{expected index to be at least 0, but got -1}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = -1 : i64, letters = "fh", hf_name = "w", hf_strides = array<i64: 16, 1>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}

// -----

// stack_c1
// expected-error @below {{expected each run to be ["kind", count], but got ["dense"]}}
model.stack [["dense"]]

// -----

// stack_c2
// expected-error @below {{expected the count of "dense" to be at least 1, but got 0}}
model.stack [["dense", 0]]

// -----

// kind_c3
// expected-error @below {{expected a name, but got an empty one}}
model.kind @""(%x: tensor<5x1x4xf32> {model.arg = #model.arg<stream_in, 0>})
    -> (tensor<5x1x4xf32> {model.res = #model.res<stream_out, 0>}) {
  model.return %x : tensor<5x1x4xf32>
}
