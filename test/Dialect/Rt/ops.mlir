// RUN: shardwright-opt %s | FileCheck %s
// RUN: shardwright-opt %s -mlir-print-op-generic | shardwright-opt | FileCheck %s

// CHECK: rt.kernel @kernel0(%[[A:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT: %[[Y:.*]] = model.gelu %[[A]] in mlp
// CHECK-NEXT: rt.yield %[[Y]] : tensor<4x8xf32>
rt.kernel @kernel0(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = model.gelu %a in mlp {letters = "sf", approximate = true}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  rt.yield %y : tensor<4x8xf32>
}

// CHECK-LABEL: rt.func @dense.none.forward attributes {workspace_bytes = 512 : i64} {
rt.func @dense.none.forward attributes {workspace_bytes = 512 : i64} {
  // CHECK-NEXT: rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 128> sizes 4 x 8 x 16 : f32 {transpose_b}
  rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 128> sizes 4 x 8 x 16 : f32 {transpose_b}
  // CHECK-NEXT: rt.matmul <grad_in, 0>, <saved, 0> -> <grads, 0> sizes 4 x 8 x 16 : f64 {accumulate, transpose_a}
  rt.matmul <grad_in, 0>, <saved, 0> -> <grads, 0> sizes 4 x 8 x 16 : f64 {accumulate, transpose_a}
  // CHECK-NEXT: rt.matmul <grad_in, 0>, <saved, 0> -> <grads, 0> sizes 4 x 8 x 16 : bf16 {accumulate, result_dtype = f32}
  rt.matmul <grad_in, 0>, <saved, 0> -> <grads, 0> sizes 4 x 8 x 16 : bf16 {accumulate, result_dtype = f32}
  // CHECK-NEXT: rt.attention_fwd <saved, 0>, <saved, 768>, <saved, 1024> -> <workspace, 0>, <saved, 1280> shape [8, 8, 1, 2, 3, 4] : f32 {causal = true, scale = 5.000000e-01 : f64}
  rt.attention_fwd <saved, 0>, <saved, 768>, <saved, 1024> -> <workspace, 0>, <saved, 1280> shape [8, 8, 1, 2, 3, 4] : f32 {causal = true, scale = 0.5 : f64}
  // CHECK-NEXT: rt.attention_bwd <workspace, 0>, <saved, 0>, <saved, 768>, <saved, 1024>, <saved, 2048>, <saved, 1280> -> <workspace, 768>, <workspace, 1536>, <workspace, 1792> shape [8, 8, 1, 2, 3, 4] : f32 {causal = true, scale = 5.000000e-01 : f64}
  rt.attention_bwd <workspace, 0>, <saved, 0>, <saved, 768>, <saved, 1024>, <saved, 2048>, <saved, 1280> -> <workspace, 768>, <workspace, 1536>, <workspace, 1792> shape [8, 8, 1, 2, 3, 4] : f32 {causal = true, scale = 0.5 : f64}
  // CHECK-NEXT: rt.embedding_fwd <tokens, 0>, <shared_params, 0> -> <stream_out, 0> sizes 8 x 64 x 16 axes ["tp"] : f32
  rt.embedding_fwd <tokens, 0>, <shared_params, 0> -> <stream_out, 0> sizes 8 x 64 x 16 axes ["tp"] : f32
  // CHECK-NEXT: rt.embedding_bwd <tokens, 0>, <grad_in, 0> -> <shared_grads, 0> sizes 8 x 64 x 16 axes [] : f32
  rt.embedding_bwd <tokens, 0>, <grad_in, 0> -> <shared_grads, 0> sizes 8 x 64 x 16 axes [] : f32
  // CHECK-NEXT: rt.embedding_bwd <tokens, 0>, <grad_in, 0> -> <shared_grads, 0> sizes 8 x 64 x 16 axes [] : bf16 {table_dtype = f32}
  rt.embedding_bwd <tokens, 0>, <grad_in, 0> -> <shared_grads, 0> sizes 8 x 64 x 16 axes [] : bf16 {table_dtype = f32}
  // CHECK-NEXT: rt.all_reduce <workspace, 0> -> <workspace, 0> axes ["tp"] sum count 64 : f32
  rt.all_reduce <workspace, 0> -> <workspace, 0> axes ["tp"] sum count 64 : f32
  // CHECK-NEXT: rt.all_gather <workspace, 0> -> <workspace, 256> axes ["tp"] count 64 : f32
  rt.all_gather <workspace, 0> -> <workspace, 256> axes ["tp"] count 64 : f32
  // CHECK-NEXT: rt.reduce_scatter <workspace, 0> -> <loss, 0> axes ["tp"] sum count 64 : f32
  rt.reduce_scatter <workspace, 0> -> <loss, 0> axes ["tp"] sum count 64 : f32
  // CHECK-NEXT: rt.slice <stream_in, 0> -> <grad_out, 0> axes ["tp"] rows 1 stride 512 part 256
  rt.slice <stream_in, 0> -> <grad_out, 0> axes ["tp"] rows 1 stride 512 part 256
  // CHECK-NEXT: rt.launch @kernel0 [#rt.addr<workspace, 0>] -> [#rt.addr<workspace, 256>]
  rt.launch @kernel0 [#rt.addr<workspace, 0>] -> [#rt.addr<workspace, 256>]
}
