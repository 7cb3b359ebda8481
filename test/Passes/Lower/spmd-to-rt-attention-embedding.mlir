// RUN: shardwright-opt %s --sw-spmd-to-rt | FileCheck %s

module attributes {
  sw.phase = "allocated", plan.mesh = #plan.mesh<[pp=1,dp=2,tp=4]>, plan.text = "{}",
  model.program = {name = "m", family = "llama", sequence = 5, vocab = 13, layers = 1,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
// CHECK: rt.func @attention.none.forward
// CHECK-NEXT: rt.attention_fwd <workspace, 0>, <workspace, 8192>, <workspace, 12288> -> <saved, 0>, <saved, 4096> shape [8, 16, 2, 3, 4, 6] : f32 {causal = false, scale = 5.000000e-01 : f64}
// CHECK-NEXT: rt.attention_bwd <saved, 0>, <workspace, 0>, <workspace, 8192>, <workspace, 12288>, <saved, 0>, <saved, 4096> -> <workspace, 16384>, <workspace, 20480>, <workspace, 24576>
model.kind @attention.none.forward(
    %q: tensor<8x2x3x4x6xf32> {model.arg = #model.arg<kept, 0>, spmd.address = #rt.addr<workspace, 0>},
    %k: tensor<16x2x3x6xf32> {model.arg = #model.arg<kept, 1>, spmd.address = #rt.addr<workspace, 8192>},
    %v: tensor<16x2x3x6xf32> {model.arg = #model.arg<kept, 2>, spmd.address = #rt.addr<workspace, 12288>})
    -> (tensor<8x2x3x4x6xf32> {model.res = #model.res<saved, 0>, spmd.address = #rt.addr<saved, 0>})
    attributes {kind = "attention", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %o, %lse = model.attention %q, %k, %v in attention {plan.axes = {}, causal = false, scale = 0.5 : f64, spmd.address = [#rt.addr<saved, 0>, #rt.addr<saved, 4096>]}
      : (tensor<8x2x3x4x6xf32>, tensor<16x2x3x6xf32>, tensor<16x2x3x6xf32>) -> (tensor<8x2x3x4x6xf32>, tensor<8x2x3x4xf32>)
  %dq, %dk, %dv = model.attention_grad %o, %q, %k, %v, %o, %lse in attention {plan.axes = {}, causal = false, scale = 0.5 : f64,
      spmd.address = [#rt.addr<workspace, 16384>, #rt.addr<workspace, 20480>, #rt.addr<workspace, 24576>]}
      : (tensor<8x2x3x4x6xf32>, tensor<8x2x3x4x6xf32>, tensor<16x2x3x6xf32>, tensor<16x2x3x6xf32>, tensor<8x2x3x4x6xf32>, tensor<8x2x3x4xf32>)
      -> (tensor<8x2x3x4x6xf32>, tensor<16x2x3x6xf32>, tensor<16x2x3x6xf32>)
  model.return %o : tensor<8x2x3x4x6xf32>
}

// CHECK: rt.func @embedding.none.forward
// CHECK-NEXT: rt.embedding_fwd <tokens, 0>, <shared_params, 256> -> <stream_out, 0> sizes 16 x 32 x 24 axes ["tp"] : f32
// CHECK-NEXT: rt.embedding_bwd <tokens, 0>, <stream_out, 0> -> <shared_grads, 256> sizes 16 x 32 x 24 axes ["tp"] : f32
model.kind @embedding.none.forward(
    %ids: tensor<8x2xi32> {model.arg = #model.arg<tokens, 0>, spmd.address = #rt.addr<tokens, 0>},
    %table: tensor<32x24xf32> {model.arg = #model.arg<parameter, 0>, spmd.address = #rt.addr<shared_params, 256>})
    -> (tensor<8x2x24xf32> {model.res = #model.res<stream_out, 0>, spmd.address = #rt.addr<stream_out, 0>},
        tensor<32x24xf32> {model.res = #model.res<parameter_grad, 0>, spmd.address = #rt.addr<shared_grads, 256>})
    attributes {kind = "embedding", policy = #model.recompute<none>, part = #model.part<forward>, workspace_bytes = 65536} {
  %y = model.embedding %ids, %table in embed {plan.axes = {v = ["tp"]}, spmd.address = [#rt.addr<stream_out, 0>]}
      : (tensor<8x2xi32>, tensor<32x24xf32>) -> tensor<8x2x24xf32>
  %d = model.embedding_grad %ids, %y in embed {plan.axes = {v = ["tp"]}, spmd.address = [#rt.addr<shared_grads, 256>]}
      : (tensor<8x2xi32>, tensor<8x2x24xf32>) -> tensor<32x24xf32>
  model.return %y, %d : tensor<8x2x24xf32>, tensor<32x24xf32>
}

model.param @embedding.0 : tensor<32x24xf32> in stream init zeros {kind = "embedding", index = 0, letters = "hf", hf_name = "0", hf_shape = array<i64: 32, 24>, hf_strides = array<i64: 24, 1>, hf_offset = 0, init_scale = 0.0, decay = false}
spmd.stage @stage0 {index = 0, runs = [["attention.none", 1, 0], ["embedding.none", 1, 0]], schedule = [], slots = array<i64: 1>, arena = {}}
}
