// RUN: shardwright-opt %s -split-input-file -sw-verify-phase | FileCheck %s
// RUN: shardwright-opt %s -split-input-file -sw-verify-phase > %t.once
// RUN: shardwright-opt %s -split-input-file > %t.none
// RUN: diff %t.none %t.once

// One module of each phase that keeps its contract; the pass changes nothing.

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "imported"
module attributes {sw.phase = "imported", model.program = #program} {
  model.param @dense.norm : tensor<16xf32> in stream init ones {kind = "dense", index = 0 : i64, letters = "h", hf_name = "layers.{}.norm.weight", hf_strides = array<i64: 1>, hf_offset = 0 : i64, hf_shape = array<i64: 16>, init_scale = 0.0 : f64, decay = false}
  model.kind @dense(%x: tensor<8x1x16xf32> {model.arg = #model.arg<stream_in, 0>}, %w: tensor<16xf32> {model.arg = #model.arg<parameter, 0>}) -> (tensor<8x1x16xf32> {model.res = #model.res<stream_out, 0>}) {
    %y, %r = model.rms_norm %x, %w in stream {letters = "sbh", eps = 1.0e-5 : f64} : (tensor<8x1x16xf32>, tensor<16xf32>) -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
    model.return %y : tensor<8x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "differentiated"
module attributes {sw.phase = "differentiated", model.program = #program} {
  model.param @dense.norm : tensor<16xf32> in stream init ones {kind = "dense", index = 0 : i64, letters = "h", hf_name = "layers.{}.norm.weight", hf_strides = array<i64: 1>, hf_offset = 0 : i64, hf_shape = array<i64: 16>, init_scale = 0.0 : f64, decay = false}
  model.kind @dense.none.forward(%x: tensor<8x1x16xf32> {model.arg = #model.arg<stream_in, 0>}, %w: tensor<16xf32> {model.arg = #model.arg<parameter, 0>}) -> (tensor<8x1x16xf32> {model.res = #model.res<stream_out, 0>}, tensor<8x1xf32> {model.res = #model.res<saved, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    %y, %r = model.rms_norm %x, %w in stream {letters = "sbh", eps = 1.0e-5 : f64} : (tensor<8x1x16xf32>, tensor<16xf32>) -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
    model.return %y, %r : tensor<8x1x16xf32>, tensor<8x1xf32>
  }
  model.stack [["dense", 2]]
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "planned"
module attributes {sw.phase = "planned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<8x2x16xf32, #plan.sh<dims=[["tp"],["dp"],[]]>> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    %y = plan.reshard %x all_gather axes ["tp"] dim 0 : tensor<8x2x16xf32, #plan.sh<dims=[["tp"],["dp"],[]]>> -> tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
    %z = model.gelu %y in mlp {letters = "sbh", approximate = true, plan.axes = {b = ["dp"]}} : (tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>) -> tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
    model.return %z : tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "partitioned"
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<8x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    %y = spmd.all_gather %x axes ["tp"] dim 0 : tensor<4x1x16xf32> -> tensor<8x1x16xf32>
    %z = model.gelu %y in mlp {letters = "sbh", approximate = true, plan.axes = {b = ["dp"]}} : (tensor<8x1x16xf32>) -> tensor<8x1x16xf32>
    model.return %z : tensor<8x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "scheduled"
module attributes {sw.phase = "scheduled", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>]}
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "allocated"
module attributes {sw.phase = "allocated", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 0 : i64} {
    %z = model.gelu %x in mlp {letters = "sbh", approximate = true, plan.axes = {}, spmd.address = [#rt.addr<stream_out, 0>]} : (tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    model.return %z : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>], arena = {total = 4096 : i64}}
}

// -----

#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}

// CHECK: sw.phase = "lowered"
module attributes {sw.phase = "lowered", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  rt.kernel @kernel0(%x: tensor<4x1x16xf32>) -> tensor<4x1x16xf32> {
    %z = model.gelu %x in mlp {letters = "sbh", approximate = true} : (tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    rt.yield %z : tensor<4x1x16xf32>
  }
  rt.func @dense.none.forward {
    rt.launch @kernel0 [#rt.addr<stream_in, 0>] -> [#rt.addr<stream_out, 0>]
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>], arena = {total = 4096 : i64}}
}
