// RUN: shardwright-opt %s --sw-spmd-to-rt | FileCheck %s

// CHECK: module attributes {{.*}}sw.phase = "lowered"
module attributes {plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>,
                   sw.phase = "allocated"} {

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

// CHECK: rt.func @projections
// CHECK-NEXT: rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 0> sizes 16 x 60 x 24 : f32 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <params, 512> -> <stream_out, 0> sizes 16 x 24 x 60 : f32 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <params, 0> -> <workspace, 8192> sizes 16 x 24 x 60 : f32{{$}}
// CHECK-NEXT: rt.matmul <workspace, 0>, <stream_in, 0> -> <grads, 0> sizes 60 x 24 x 16 : f32 {accumulate, transpose_a}
model.kind @projections(
    %x: tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<3x4x5x24xf32> {spmd.address = #rt.addr<params, 0>},
    %o: tensor<24x3x4x5xf32> {spmd.address = #rt.addr<params, 512>})
    -> (tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_out, 0>},
        tensor<3x4x5x24xf32> {spmd.address = #rt.addr<grads, 0>}) {
  %q = model.contract %x, %w in attention {spec = "sbh,ngdh->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf32>, tensor<3x4x5x24xf32>) -> tensor<8x2x3x4x5xf32>
  %y = model.contract %q, %o in attention {spec = "sbngd,hngd->sbh", spmd.address = [#rt.addr<stream_out, 0>]}
      : (tensor<8x2x3x4x5xf32>, tensor<24x3x4x5xf32>) -> tensor<8x2x24xf32>
  %dx = model.contract %q, %w in attention {spec = "sbngd,ngdh->sbh", spmd.address = [#rt.addr<workspace, 8192>]}
      : (tensor<8x2x3x4x5xf32>, tensor<3x4x5x24xf32>) -> tensor<8x2x24xf32>
  %dw = model.contract %q, %x in attention {spec = "sbngd,sbh->ngdh", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xf32>, tensor<8x2x24xf32>) -> tensor<3x4x5x24xf32>
  model.return %y, %dw : tensor<8x2x24xf32>, tensor<3x4x5x24xf32>
}

// Conv1D of GPT-2 keeps the weight as [in, out].
// CHECK: rt.func @conv1d
// CHECK-NEXT: rt.matmul {{.*}} sizes 16 x 60 x 24 : f64{{$}}
// CHECK-NEXT: rt.matmul <stream_in, 0>, <workspace, 0> -> <grads, 0> sizes 24 x 60 x 16 : f64 {accumulate, transpose_a}
model.kind @conv1d(
    %x: tensor<8x2x24xf64> {spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<24x3x4x5xf64> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<24x3x4x5xf64> {spmd.address = #rt.addr<grads, 0>}) {
  %q = model.contract %x, %w in attention {spec = "sbh,hngd->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xf64>, tensor<24x3x4x5xf64>) -> tensor<8x2x3x4x5xf64>
  %dw = model.contract %q, %x in attention {spec = "sbngd,sbh->hngd", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xf64>, tensor<8x2x24xf64>) -> tensor<24x3x4x5xf64>
  model.return %dw : tensor<24x3x4x5xf64>
}

// Gradients of bf16 values are f32.
// CHECK: rt.func @mixed
// CHECK-NEXT: rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 0> sizes 16 x 60 x 24 : bf16 {transpose_b}
// CHECK-NEXT: rt.matmul <workspace, 0>, <stream_in, 0> -> <grads, 0> sizes 60 x 24 x 16 : bf16 {accumulate, result_dtype = f32, transpose_a}
model.kind @mixed(
    %x: tensor<8x2x24xbf16> {spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<3x4x5x24xbf16> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<3x4x5x24xf32> {spmd.address = #rt.addr<grads, 0>}) {
  %q = model.contract %x, %w in attention {spec = "sbh,ngdh->sbngd", spmd.address = [#rt.addr<workspace, 0>]}
      : (tensor<8x2x24xbf16>, tensor<3x4x5x24xbf16>) -> tensor<8x2x3x4x5xbf16>
  %dw = model.contract %q, %x in attention {spec = "sbngd,sbh->ngdh", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x3x4x5xbf16>, tensor<8x2x24xbf16>) -> tensor<3x4x5x24xf32>
  model.return %dw : tensor<3x4x5x24xf32>
}

// CHECK: rt.func @kernels
// CHECK-NEXT: rt.launch @rms_norm.0 [#rt.addr<stream_in, 0>, #rt.addr<params, 0>] -> [#rt.addr<workspace, 0>, #rt.addr<saved, 0>]
// CHECK-NEXT: rt.launch @rms_norm.0 [#rt.addr<workspace, 0>, #rt.addr<params, 0>] -> [#rt.addr<workspace, 2048>, #rt.addr<saved, 256>]
// CHECK-NEXT: rt.launch @swiglu.add.0 [#rt.addr<workspace, 0>, #rt.addr<workspace, 2048>] -> [#rt.addr<workspace, 4096>, #rt.addr<stream_out, 0>]
// CHECK-NEXT: rt.launch @column_sum.0 [#rt.addr<stream_out, 0>] -> [#rt.addr<grads, 0>]
model.kind @kernels(
    %x: tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>},
    %w: tensor<24xf32> {spmd.address = #rt.addr<params, 0>})
    -> (tensor<8x2x24xf32> {spmd.address = #rt.addr<stream_out, 0>},
        tensor<24xf32> {spmd.address = #rt.addr<grads, 0>}) {
  %a, %r = model.rms_norm %x, %w in stream label "one" {letters = "sbh", eps = 1.0e-5, plan.axes = {b = ["dp"]},
      spmd.address = [#rt.addr<workspace, 0>, #rt.addr<saved, 0>], fusion_group = 0}
      : (tensor<8x2x24xf32>, tensor<24xf32>) -> (tensor<8x2x24xf32>, tensor<8x2xf32>)
  %c, %t = model.rms_norm %a, %w in stream label "two" {letters = "sbh", eps = 1.0e-5,
      spmd.address = [#rt.addr<workspace, 2048>, #rt.addr<saved, 256>], fusion_group = 1}
      : (tensor<8x2x24xf32>, tensor<24xf32>) -> (tensor<8x2x24xf32>, tensor<8x2xf32>)
  %u = model.swiglu %a, %c in mlp {letters = "sbf", spmd.address = [#rt.addr<workspace, 4096>], fusion_group = 2}
      : (tensor<8x2x24xf32>, tensor<8x2x24xf32>) -> tensor<8x2x24xf32>
  %y = model.add %u, %a in stream {letters = "sbh", spmd.address = [#rt.addr<stream_out, 0>], fusion_group = 2}
      : (tensor<8x2x24xf32>, tensor<8x2x24xf32>) -> tensor<8x2x24xf32>
  %g = model.column_sum %y in stream {spec = "sbh->h", spmd.address = [#rt.addr<grads, 0>]}
      : (tensor<8x2x24xf32>) -> tensor<24xf32>
  model.return %y, %g : tensor<8x2x24xf32>, tensor<24xf32>
}

// A result that an argument already is gets copied to its place.
// CHECK: rt.func @collectives
// CHECK-NEXT: rt.all_gather <stream_in, 0> -> <workspace, 0> axes ["tp"] count 192 : f32
// CHECK-NEXT: rt.launch @rope.0
// CHECK-NEXT: rt.all_reduce <workspace, 4096> -> <workspace, 4096> axes ["dp", "tp"] max count 768 : f32
// CHECK-NEXT: rt.reduce_scatter <workspace, 4096> -> <stream_out, 0> axes ["tp"] sum count 768 : f32
// CHECK-NEXT: rt.slice <workspace, 0> -> <workspace, 8192> axes ["tp"] rows 32 stride 96 part 24
// CHECK-NEXT: rt.slice <stream_in, 0> -> <saved, 0> axes [] rows 1 stride 768 part 768
model.kind @collectives(
    %x: tensor<4x2x24xf32> {spmd.address = #rt.addr<stream_in, 0>})
    -> (tensor<4x2x24xf32> {spmd.address = #rt.addr<stream_out, 0>},
        tensor<4x2x24xf32> {spmd.address = #rt.addr<saved, 0>}) {
  %g = spmd.all_gather %x axes ["tp"] dim 0 {spmd.address = [#rt.addr<workspace, 0>]} : tensor<4x2x24xf32> -> tensor<16x2x24xf32>
  %p = model.rope %g in attention {letters = "sbd", theta = 1.0e4, plan.axes = {s = ["tp"], b = ["dp"]}, spmd.address = [#rt.addr<workspace, 4096>]}
      : (tensor<16x2x24xf32>) -> tensor<16x2x24xf32>
  %m = spmd.all_reduce %p axes ["dp", "tp"] max {spmd.address = [#rt.addr<workspace, 4096>]} : tensor<16x2x24xf32> -> tensor<16x2x24xf32>
  %s = spmd.reduce_scatter %m axes ["tp"] dim 0 {spmd.address = [#rt.addr<stream_out, 0>]} : tensor<16x2x24xf32> -> tensor<4x2x24xf32>
  %c = spmd.slice %g axes ["tp"] dim 2 {spmd.address = [#rt.addr<workspace, 8192>]} : tensor<16x2x24xf32> -> tensor<16x2x6xf32>
  model.return %s, %x : tensor<4x2x24xf32>, tensor<4x2x24xf32>
}
}
