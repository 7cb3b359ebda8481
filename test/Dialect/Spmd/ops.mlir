// RUN: shardwright-opt %s | FileCheck %s
// RUN: shardwright-opt %s -mlir-print-op-generic | shardwright-opt | FileCheck %s

module attributes {plan.mesh = #plan.mesh<[pp=1,dp=3,tp=2]>} {

// CHECK: spmd.stage @stage0 {arena = {total = 4096 : i64}, index = 0 : i64, runs = {{\[\[}}"embed.none", 1, 0], ["dense.full", 4, 0]], schedule = [#spmd.action<forward, 0, 1>, #spmd.action<send_forward, 3, 0, chunk 1>, #spmd.action<step, 0, 0>], slots = array<i64: 2>}
spmd.stage @stage0 {index = 0 : i64,
    runs = [["embed.none", 1, 0], ["dense.full", 4, 0]],
    schedule = [#spmd.action<forward, 0, 1>,
                #spmd.action<send_forward, 3, 0, chunk 1>,
                #spmd.action<step, 0, 0>],
    slots = array<i64: 2>, arena = {total = 4096 : i64}}

// CHECK: spmd.stage @stage1 {index = 1 : i64, runs = {{\[\[}}"dense.full", 4, 0, 0], ["dense.full", 2, 8, 1]], schedule = [#spmd.action<forward, 0, 1 leaves 1>, #spmd.action<send_forward, 3, 0, chunk 1 takes 2 peer 0>, #spmd.action<backward_data, 0, 0 takes 2 leaves 3>, #spmd.action<step, 0, 0>], slots = array<i64: 2, 1>}
spmd.stage @stage1 {index = 1 : i64,
    runs = [["dense.full", 4, 0, 0], ["dense.full", 2, 8, 1]],
    schedule = [#spmd.action<forward, 0, 1 leaves 1>,
                #spmd.action<send_forward, 3, 0, chunk 1 takes 2 peer 0>,
                #spmd.action<backward_data, 0, 0, chunk 0 takes 2 leaves 3>,
                #spmd.action<step, 0, 0>],
    slots = array<i64: 2, 1>}

// CHECK-LABEL: func.func @every_collective
func.func @every_collective(%x: tensor<8x6x16xf32>, %s: tensor<8x6xf32>) {
  // CHECK: spmd.all_reduce %{{.*}} axes ["tp"] sum : tensor<8x6x16xf32> -> tensor<8x6x16xf32>
  %a = spmd.all_reduce %x axes ["tp"] sum
      : tensor<8x6x16xf32> -> tensor<8x6x16xf32>
  // CHECK: spmd.all_reduce %{{.*}} axes ["dp", "tp"] max : tensor<8x6xf32> -> tensor<8x6xf32>
  %m = spmd.all_reduce %s axes ["dp", "tp"] max
      : tensor<8x6xf32> -> tensor<8x6xf32>
  // CHECK: spmd.reduce_scatter %{{.*}} axes ["tp"] dim 0 : tensor<8x6x16xf32> -> tensor<4x6x16xf32>
  %r = spmd.reduce_scatter %x axes ["tp"] dim 0
      : tensor<8x6x16xf32> -> tensor<4x6x16xf32>
  // CHECK: spmd.all_gather %{{.*}} axes ["tp"] dim 0 : tensor<4x6x16xf32> -> tensor<8x6x16xf32>
  %g = spmd.all_gather %r axes ["tp"] dim 0
      : tensor<4x6x16xf32> -> tensor<8x6x16xf32>
  // CHECK: spmd.slice %{{.*}} axes ["dp"] dim 1 : tensor<8x6x16xf32> -> tensor<8x2x16xf32>
  %l = spmd.slice %x axes ["dp"] dim 1
      : tensor<8x6x16xf32> -> tensor<8x2x16xf32>
  return
}
}
