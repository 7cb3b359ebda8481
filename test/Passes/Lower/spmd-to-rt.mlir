// RUN: shardwright-opt %s --sw-spmd-to-rt | FileCheck %s

// CHECK: module attributes {{.*}}sw.phase = "lowered"
module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {

// Kernels stand before the functions; the two equal norms below share one.
// CHECK: rt.kernel @rms_norm.0
// CHECK: model.rms_norm
// CHECK-NOT: plan.axes
// CHECK: rt.yield
// CHECK: rt.kernel @swiglu.add.0
// CHECK: model.swiglu
// CHECK: model.add
// CHECK: rt.kernel @column_sum.0{{.*}}rt.accumulate
// CHECK: rt.kernel @rope.0
// CHECK: model.rope {{.*}}plan.axes = {s = ["tp"]}
// CHECK-NOT: rt.kernel

// CHECK: rt.func @projections.none.forward
// CHECK-NEXT: rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 0> sizes 16 x 60 x 24 : f32 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <params, 512> -> <stream_out, 0> sizes 16 x 24 x 60 : f32 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <params, 0> -> <workspace, 8192> sizes 16 x 24 x 60 : f32{{$}}
// CHECK-NEXT: rt.matmul <workspace, 0>, <stream_in, 0> -> <grads, 0> sizes 60 x 24 x 16 : f32 {accumulate, transpose_a}
model.kind @projections.none.forward(
    %x: tensor<8x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<3x4x5x24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>},
    %o: tensor<24x3x4x5xf32> {model.arg = #model.arg<parameter, 1>, spmd.address = #rt.addr<params, 512>})
    -> (tensor<8x2x24xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_out, 0>},
        tensor<3x4x5x24xf32> {model.res = #model.res<parameter_grad, 0>, spmd.address = #rt.addr<grads, 0>})
    attributes {kind = "projections", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %q = model.contract %x, %w in attention {plan.axes = {}, spec = "sbh,ngdh->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<3x4x5x24xf32>) -> tensor<8x2x3x4x5xf32>
  %y = model.contract %q, %o in attention {plan.axes = {}, spec = "sbngd,hngd->sbh", spmd.address = [#rt.addr<stream_out, 0>]}
      : (tensor<8x2x3x4x5xf32>, tensor<24x3x4x5xf32>) -> tensor<8x2x24xf32>
  %dx = model.contract %q, %w in attention {plan.axes = {}, spec = "sbngd,ngdh->sbh", spmd.address = [#rt.addr<workspace, 8192>]}
      : (tensor<8x2x3x4x5xf32>, tensor<3x4x5x24xf32>) -> tensor<8x2x24xf32>
  %dw = model.contract %q, %x in attention {plan.axes = {}, spec = "sbngd,sbh->ngdh", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xf32>, tensor<8x2x24xf32>) -> tensor<3x4x5x24xf32>
  model.return %y, %dw : tensor<8x2x24xf32>, tensor<3x4x5x24xf32>
}

// Conv1D of GPT-2 keeps the weight as [in, out].
// CHECK: rt.func @conv1d.none.forward
// CHECK-NEXT: rt.matmul {{.*}} sizes 16 x 60 x 24 : f64{{$}}
// CHECK-NEXT: rt.matmul <stream_in, 0>, <workspace, 0> -> <grads, 0> sizes 24 x 60 x 16 : f64 {accumulate, transpose_a}
model.kind @conv1d.none.forward(
    %x: tensor<8x2x24xf64> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<24x3x4x5xf64> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<24x3x4x5xf64> {model.res = #model.res<parameter_grad, 0>, spmd.address = #rt.addr<grads, 0>})
    attributes {kind = "conv1d", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %q = model.contract %x, %w in attention {plan.axes = {}, spec = "sbh,hngd->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf64>, tensor<24x3x4x5xf64>) -> tensor<8x2x3x4x5xf64>
  %dw = model.contract %q, %x in attention {plan.axes = {}, spec = "sbngd,sbh->hngd", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xf64>, tensor<8x2x24xf64>) -> tensor<24x3x4x5xf64>
  model.return %dw : tensor<24x3x4x5xf64>
}

// Gradients of bf16 values are f32.
// CHECK: rt.func @mixed.none.forward
// CHECK-NEXT: rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 0> sizes 16 x 60 x 24 : bf16 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <stream_in, 0> -> <grads, 0> sizes 60 x 24 x 16 : bf16 {accumulate, result_dtype = f32, transpose_a}
model.kind @mixed.none.forward(
    %x: tensor<8x2x24xbf16> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<3x4x5x24xbf16> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<3x4x5x24xf32> {model.res = #model.res<parameter_grad, 0>, spmd.address = #rt.addr<grads, 0>})
    attributes {kind = "mixed", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %q = model.contract %x, %w in attention {plan.axes = {}, spec = "sbh,ngdh->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xbf16>, tensor<3x4x5x24xbf16>) -> tensor<8x2x3x4x5xbf16>
  %dw = model.contract %q, %x in attention {plan.axes = {}, spec = "sbngd,sbh->ngdh", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xbf16>, tensor<8x2x24xbf16>) -> tensor<3x4x5x24xf32>
  model.return %dw : tensor<3x4x5x24xf32>
}

// CHECK: rt.func @kernels.none.forward
// CHECK-NEXT: rt.launch @rms_norm.0 [#rt.addr<stream_in, 0>, #rt.addr<params, 0>] -> [#rt.addr<workspace, 0>, #rt.addr<saved, 0>]
// CHECK-NEXT: rt.launch @rms_norm.0 [#rt.addr<workspace, 0>, #rt.addr<params, 0>] -> [#rt.addr<workspace, 2048>, #rt.addr<saved, 256>]
// CHECK-NEXT: rt.launch @swiglu.add.0 [#rt.addr<workspace, 0>, #rt.addr<workspace, 2048>] -> [#rt.addr<workspace, 4096>, #rt.addr<stream_out, 0>]
// CHECK-NEXT: rt.launch @column_sum.0 [#rt.addr<stream_out, 0>] -> [#rt.addr<grads, 0>]
model.kind @kernels.none.forward(
    %x: tensor<8x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2x24xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_out, 0>},
        tensor<24xf32> {model.res = #model.res<parameter_grad, 0>, spmd.address = #rt.addr<grads, 0>})
    attributes {kind = "kernels", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %a, %r = model.rms_norm %x, %w in stream label "one" {letters = "sbh", eps = 1.0e-5, plan.axes = {b = ["dp"]},
      spmd.address = [#rt.addr<workspace, 0>, #rt.addr<saved, 0>], fusion_group = 0}
      : (tensor<8x2x24xf32>, tensor<24xf32>) -> (tensor<8x2x24xf32>, tensor<8x2xf32>)
  %c, %t = model.rms_norm %a, %w in stream label "two" {plan.axes = {}, letters = "sbh", eps = 1.0e-5,
      spmd.address = [#rt.addr<workspace, 2048>, #rt.addr<saved, 256>], fusion_group = 1}
      : (tensor<8x2x24xf32>, tensor<24xf32>) -> (tensor<8x2x24xf32>, tensor<8x2xf32>)
  %u = model.swiglu %a, %c in mlp {plan.axes = {}, letters = "sbf", spmd.address = [#rt.addr<workspace, 4096>], fusion_group = 2}
      : (tensor<8x2x24xf32>, tensor<8x2x24xf32>) -> tensor<8x2x24xf32>
  %y = model.add %u, %a in stream {plan.axes = {}, letters = "sbh", spmd.address = [#rt.addr<stream_out, 0>], fusion_group = 2}
      : (tensor<8x2x24xf32>, tensor<8x2x24xf32>) -> tensor<8x2x24xf32>
  %g = model.column_sum %y in stream {plan.axes = {}, spec = "sbh->h", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x24xf32>) -> tensor<24xf32>
  model.return %y, %g : tensor<8x2x24xf32>, tensor<24xf32>
}

// A result that an argument already is gets copied to its place.
// CHECK: rt.func @collectives.none.forward
// CHECK-NEXT: rt.all_gather <stream_in, 0> -> <workspace, 0> axes ["tp"] count 192 : f32
// CHECK-NEXT: rt.launch @rope.0
// CHECK-NEXT: rt.all_reduce <workspace, 4096> -> <workspace, 4096> axes ["dp", "tp"] max count 768 : f32
// CHECK-NEXT: rt.reduce_scatter <workspace, 4096> -> <stream_out, 0> axes ["tp"] sum count 768 : f32
// CHECK-NEXT: rt.slice <workspace, 0> -> <workspace, 8192> axes ["tp"] rows 32 stride 96 part 24
// CHECK-NEXT: rt.slice <stream_in, 0> -> <saved, 0> axes [] rows 1 stride 768 part 768
model.kind @collectives.none.forward(
    %x: tensor<4x2x24xf32> {model.arg = #model.arg<stream_in, 0>, spmd.address = #rt.addr<stream_in, 0>})
    -> (tensor<4x2x24xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_out, 0>},
        tensor<4x2x24xf32> {model.res = #model.res<saved, 0>, spmd.address = #rt.addr<saved, 0>})
    attributes {kind = "collectives", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %g = spmd.all_gather %x axes ["tp"] dim 0 {spmd.address = [#rt.addr<workspace, 0>]} : tensor<4x2x24xf32> -> tensor<16x2x24xf32>
  %p = model.rope %g in attention {letters = "sbd", theta = 1.0e4, plan.axes = {s = ["tp"], b = ["dp"]}, spmd.address = [#rt.addr<workspace, 4096>]}
      : (tensor<16x2x24xf32>) -> tensor<16x2x24xf32>
  %m = spmd.all_reduce %p axes ["dp", "tp"] max {spmd.address = [#rt.addr<workspace, 4096>]} : tensor<16x2x24xf32> -> tensor<16x2x24xf32>
  %s = spmd.reduce_scatter %m axes ["tp"] dim 0 {spmd.address = [#rt.addr<stream_out, 0>]} : tensor<16x2x24xf32> -> tensor<4x2x24xf32>
  %c = spmd.slice %g axes ["tp"] dim 2 {spmd.address = [#rt.addr<workspace, 8192>]} : tensor<16x2x24xf32> -> tensor<16x2x6xf32>
  model.return %s, %x : tensor<4x2x24xf32>, tensor<4x2x24xf32>
}

model.param @projections.0 : tensor<3x4x5x24xf32> in stream init zeros {kind = "projections", index = 0, letters = "hfng", hf_name = "0", hf_shape = array<i64: 3, 4, 5, 24>, hf_strides = array<i64: 480, 120, 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @projections.1 : tensor<24x3x4x5xf32> in stream init zeros {kind = "projections", index = 1, letters = "hfng", hf_name = "1", hf_shape = array<i64: 24, 3, 4, 5>, hf_strides = array<i64: 60, 20, 5, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @conv1d.0 : tensor<24x3x4x5xf64> in stream init zeros {kind = "conv1d", index = 0, letters = "hfng", hf_name = "0", hf_shape = array<i64: 24, 3, 4, 5>, hf_strides = array<i64: 60, 20, 5, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @mixed.0 : tensor<3x4x5x24xbf16> in stream init zeros {kind = "mixed", index = 0, letters = "hfng", hf_name = "0", hf_shape = array<i64: 3, 4, 5, 24>, hf_strides = array<i64: 480, 120, 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
model.param @kernels.0 : tensor<24xf32> in stream init zeros {kind = "kernels", index = 0, letters = "h", hf_name = "0", hf_shape = array<i64: 24>, hf_strides = array<i64: 1>, hf_offset = 0, init_scale = 0.0, decay = false}
spmd.stage @stage0 {index = 0, runs = [["projections.none", 1, 0], ["conv1d.none", 1, 0], ["mixed.none", 1, 0], ["kernels.none", 1, 0], ["collectives.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}
