// RUN: shardwright-opt %s | FileCheck %s
// RUN: shardwright-opt %s -mlir-print-op-generic | shardwright-opt | FileCheck %s

// CHECK: module attributes {plan.mesh = #plan.mesh<[pp=2,dp=3,tp=4]>, plan.text = "{}"}
module attributes {plan.mesh = #plan.mesh<[pp = 2, dp = 3, tp = 4]>, plan.text = "{}"} {

// CHECK-LABEL: func.func private @encodings
// CHECK-SAME: tensor<8x16xf32, #plan.sh<dims={{\[\["}}dp"],[]]>>
// CHECK-SAME: tensor<8x16xf32, #plan.sh<dims={{\[\["}}dp","tp"],[]], partial=max["pp"]>>
func.func private @encodings(
    tensor<8x16xf32, #plan.sh<dims = [["dp"], []]>>,
    tensor<8x16xf32, #plan.sh<dims=[["dp", "tp"],[]], partial=max["pp"]>>)

// CHECK-LABEL: func.func @every_collective
func.func @every_collective(
    %p: tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]], partial=sum["tp"]>>) {
  // CHECK: plan.reshard %{{.*}} all_reduce axes ["tp"] : tensor<8x6x16xf32, #plan.sh<dims={{\[\[}}],["dp"],[]], partial=sum["tp"]>> -> tensor<8x6x16xf32, #plan.sh<dims={{\[\[}}],["dp"],[]]>>
  %r = plan.reshard %p all_reduce axes ["tp"]
      : tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]], partial=sum["tp"]>>
      -> tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
  // CHECK: %[[S:.*]] = plan.reshard %{{.*}} reduce_scatter axes ["tp"] dim 0 :
  %s = plan.reshard %p reduce_scatter axes ["tp"] dim 0
      : tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]], partial=sum["tp"]>>
      -> tensor<8x6x16xf32, #plan.sh<dims=[["tp"],["dp"],[]]>>
  // CHECK: plan.reshard %[[S]] all_gather axes ["tp"] dim 0 :
  %g = plan.reshard %s all_gather axes ["tp"] dim 0
      : tensor<8x6x16xf32, #plan.sh<dims=[["tp"],["dp"],[]]>>
      -> tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
  // CHECK: plan.reshard %{{.*}} slice axes ["tp"] dim 2 :
  %l = plan.reshard %g slice axes ["tp"] dim 2
      : tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],[]]>>
      -> tensor<8x6x16xf32, #plan.sh<dims=[[],["dp"],["tp"]]>>
  return
}

// An axis list may hold several axes; a gather undoes the inner ones.
// CHECK-LABEL: func.func @a_gather_undoes_inner_axes
func.func @a_gather_undoes_inner_axes(
    %x: tensor<12x16xf32, #plan.sh<dims=[["dp","tp"],[]]>>) {
  // CHECK: plan.reshard %{{.*}} all_gather axes ["tp"] dim 0 :
  %g = plan.reshard %x all_gather axes ["tp"] dim 0
      : tensor<12x16xf32, #plan.sh<dims=[["dp","tp"],[]]>>
      -> tensor<12x16xf32, #plan.sh<dims=[["dp"],[]]>>
  return
}
}
