// RUN: shardwright-opt %s -split-input-file -verify-diagnostics -sw-verify-phase
// RUN: not shardwright-opt %S/verify-phase.mlir -split-input-file -sw-verify-phase=phase=planned 2>&1 | FileCheck %s

// phase_c1
// CHECK: expected phase 'planned', but got "imported"

// One breach of each contract; names of cases are the labels.

// phase_c1
// expected-error @below {{expected the module attribute 'sw.phase', but got none}}
module attributes {} {
}

// -----

// phase_c1
// expected-error @below {{expected 'sw.phase' to be a phase, but got "nonsense"}}
module attributes {sw.phase = "nonsense"} {
}

// -----

// phase_c2
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  // expected-error @below {{phase 'imported': expected no op of dialect 'spmd', but got 'spmd.stage'}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c2
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "lowered", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  rt.func @dense.none.forward {
  }
  // expected-error @below {{phase 'lowered': expected every kind to be lowered, but got '@dense.none.data_grad'}}
  model.kind @dense.none.data_grad(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>], arena = {}}
}

// -----

// phase_c2
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  // expected-error @below {{phase 'partitioned': expected no encoding of a tensor type, but got 'tensor<4xf32, #plan.sh<dims=[[]]>>'}}
  model.kind @dense.none.forward(%x: tensor<4xf32, #plan.sh<dims=[[]]>> {model.arg = #model.arg<stream_in, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    // expected-error @below {{phase 'partitioned': expected no op of dialect 'plan', but got 'plan.reshard'}}
    // expected-error @below {{phase 'partitioned': expected no encoding of a tensor type, but got}}
    %y = plan.reshard %x slice axes ["tp"] dim 0 : tensor<4xf32, #plan.sh<dims=[[]]>> -> tensor<4xf32, #plan.sh<dims=[["tp"]]>>
    model.return
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c3
// expected-error @below {{phase 'imported': expected the module attribute 'model.program', but got none}}
module attributes {sw.phase = "imported"} {
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c3
// expected-error @below {{phase 'imported': expected 'model.program' to have 'ffn', but got only}}
module attributes {sw.phase = "imported", model.program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16}} {
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c4
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
// expected-error @below {{phase 'imported': expected one 'model.stack', but got 0}}
module attributes {sw.phase = "imported", model.program = #program} {
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
}

// -----

// phase_c4
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "differentiated", model.program = #program} {
  model.kind @dense.full.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<full>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'differentiated': expected a 'model.kind' '@dense.none.forward' for 'dense', but got none}}
  model.stack [["dense", 2]]
}

// -----

// phase_c5
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
// expected-error @below {{phase 'partitioned': expected the module attribute 'plan.mesh', but got none}}
module attributes {sw.phase = "partitioned", model.program = #program, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c5
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
// expected-error @below {{phase 'partitioned': expected the module attribute 'plan.text', but got none}}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c5
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "planned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  // expected-error @below {{phase 'planned': expected every tensor type to carry #plan.sh, but got 'tensor<4x1x16xf32>'}}
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c5
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    // expected-error @below {{phase 'partitioned': expected 'plan.axes' on 'model.gelu', but got none}}
    %z = model.gelu %x in mlp {letters = "sbh", approximate = true} : (tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c6
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
// expected-error @below {{phase 'partitioned': expected one 'spmd.stage' per coordinate of 'pp' (1), but got 0}}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
}

// -----

// phase_c6
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'partitioned': expected index 0, but got 1}}
  spmd.stage @stage0 {index = 1 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c7
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  // expected-error @below {{phase 'partitioned': expected a function '@dense.none.forward' for the run ["dense.none", 2, 0], but got none}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c8
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  // expected-error @below {{phase 'imported': expected no part and no policy, but got both or one}}
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c8
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  // expected-error @below {{phase 'partitioned': expected 'kind', 'policy' and 'part', but got not all}}
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense"} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c8
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "partitioned", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'partitioned': expected the name '@dense.none.forward', but got '@forward'}}
  model.kind @forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c9
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  // expected-error @below {{phase 'imported': expected 'model.arg' on argument 0, but got none}}
  model.kind @dense(%x: tensor<4x1x16xf32> ) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c9
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  // expected-error @below {{phase 'imported': expected 'model.res' on result 0, but got none}}
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> )  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c9
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  // expected-error @below {{phase 'imported': expected a 'model.param' with kind 'dense' and index 3 for argument 0, but got none}}
  model.kind @dense(%x: tensor<4x1x16xf32> {model.arg = #model.arg<parameter, 3>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<4x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c9
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "imported", model.program = #program} {
  model.param @dense.norm : tensor<17xf32> in stream init ones {kind = "dense", index = 0 : i64, letters = "h", hf_name = "w", hf_strides = array<i64: 1>, hf_offset = 0 : i64, hf_shape = array<i64: 17>, init_scale = 0.0 : f64, decay = false}
  // expected-error @below {{phase 'imported': expected argument 0 to have the type of '@dense.norm' ('tensor<17xf32>'), but got 'tensor<16xf32>'}}
  model.kind @dense(%x: tensor<16xf32> {model.arg = #model.arg<parameter, 0>}) -> (tensor<16xf32> {model.res = #model.res<stream_out, 0>})  {
    model.return %x : tensor<16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c9
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "differentiated", model.program = #program} {
  // expected-error @below {{phase 'differentiated': expected argument 0 to have an index from 0 to 2147483647, but got -1}}
  // expected-error @below {{phase 'differentiated': expected result 0 to have an index from 0 to 2147483647, but got 4294967296}}
  model.kind @dense.none.forward(%x: tensor<8x1x16xf32> {model.arg = #model.arg<saved, -1>}) -> (tensor<8x1x16xf32> {model.res = #model.res<saved, 4294967296>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<8x1x16xf32>
  }
  model.stack [["dense", 2]]
}

// -----

// phase_c10
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "scheduled", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'scheduled': expected 'schedule' and 'slots', but got no 'schedule'}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]]}
}

// -----

// phase_c10
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "scheduled", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'scheduled': expected at least 1 of 'slots', but got 0}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 0>, schedule = []}
}

// -----

// phase_c10
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "scheduled", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'scheduled': expected 'slots' of 2 chunks, but got those of 1}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 1, 0, 0], ["dense.none", 1, 1, 1]], slots = array<i64: 1>, schedule = []}
}

// -----

// phase_c11
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "allocated", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_in, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 0 : i64} {
    model.return %x : tensor<4x1x16xf32>
  }
  // expected-error @below {{phase 'allocated': expected 'arena', but got none}}
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>]}
}

// -----

// phase_c11
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "allocated", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  // expected-error @below {{phase 'allocated': expected 'spmd.address' on argument 0, but got none}}
  // expected-error @below {{phase 'allocated': expected 'spmd.address' on result 0, but got none}}
  // expected-error @below {{phase 'allocated': expected 'workspace_bytes', but got none}}
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>} {
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>], arena = {}}
}

// -----

// phase_c11
#program = {name = "tiny", family = "llama", sequence = 8, vocab = 64, layers = 2, heads = 6, kv_heads = 2, head_dim = 4, hidden = 16, ffn = 32}
module attributes {sw.phase = "allocated", model.program = #program, plan.mesh = #plan.mesh<[pp=1,dp=2,tp=2]>, plan.text = "{}"} {
  model.kind @dense.none.forward(%x: tensor<4x1x16xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>}) -> (tensor<4x1x16xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_in, 0>}) attributes {kind = "dense", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 0 : i64} {
    // expected-error @below {{phase 'allocated': expected 'spmd.address' with 1 #rt.addr, but got []}}
    %z = model.gelu %x in mlp {letters = "sbh", approximate = true, plan.axes = {}, spmd.address = []} : (tensor<4x1x16xf32>) -> tensor<4x1x16xf32>
    model.return %x : tensor<4x1x16xf32>
  }
  spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]], slots = array<i64: 1>, schedule = [#spmd.action<forward, 0, 0>], arena = {}}
}
