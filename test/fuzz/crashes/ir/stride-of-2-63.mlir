
// param_c5
// expected-error @below {{expected index to be at least in 0, but got -1}}
model.param @p : tensor<32x16xf32> in mlp init normal {kind = "k", index = -1 : i64, letters = "fh", hf_name = "w", hf_strides = array<i64: 16, 9223372036854775807>, hf_offset = 0 : i64, hf_shape = array<i64: 32, 16>, init_scale = 1.0 : f64, decay = true}
