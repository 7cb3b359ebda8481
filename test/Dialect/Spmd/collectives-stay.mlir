// RUN: shardwright-opt %s -canonicalize -cse | FileCheck %s

// A collective is a meeting of ranks: no clean-up may drop one whose result is
// unused, nor merge two alike. A slice is local and may go.

// CHECK-LABEL: func.func @unused_and_equal_collectives_stay
func.func @unused_and_equal_collectives_stay(%x: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  // CHECK-NEXT: spmd.reduce_scatter
  %r = spmd.reduce_scatter %x axes ["tp"] dim 0
      : tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK-NEXT: %[[A:.*]] = spmd.all_reduce
  %a = spmd.all_reduce %x axes ["tp"] sum : tensor<8x16xf32> -> tensor<8x16xf32>
  // CHECK-NEXT: %[[B:.*]] = spmd.all_reduce
  %b = spmd.all_reduce %x axes ["tp"] sum : tensor<8x16xf32> -> tensor<8x16xf32>
  // CHECK-NOT: spmd.slice
  %s = spmd.slice %x axes ["tp"] dim 0 : tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK-NEXT: return %[[A]], %[[B]]
  return %a, %b : tensor<8x16xf32>, tensor<8x16xf32>
}
