//===- CudnnAttention.cpp - Flash attention of cuDNN ----------------------===//
//
// The forms of the two graphs are what cuDNN 9 documents for fused flash
// attention (developer guide, Graph API, "Fused Flash Attention fprop" and
// "bprop"): other ways to write the same function are not recognized.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/backend/cuda/CudnnAttention.h"
#include "runtime/src/backend/cuda/MemoryBesideArena.h"

#include <limits>

namespace shardwright::runtime {
namespace {

constexpr cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT,
                          i32 = CUDNN_DATA_INT32, flag = CUDNN_DATA_BOOLEAN;

} // namespace

CudnnGraph::Id CudnnAttention::outside(int64_t heads, int64_t positions,
                                       bool exchanged) {
  // Memory is [position, b, heads, d].
  const int64_t d = shape.d, row = shape.b * heads * d;
  if (exchanged)
    return graph.tensor({{shape.b, heads, d, positions},
                         {heads * d, d, 1, row},
                         bf16,
                         /*isVirtual=*/false});
  return graph.tensor({{shape.b, heads, positions, d},
                       {heads * d, d, row, 1},
                       bf16,
                       /*isVirtual=*/false});
}

CudnnGraph::Id CudnnAttention::scores(cudnnDataType_t type) {
  const int64_t heads = shape.n * shape.g, s = shape.s, t = shape.t;
  return graph.tensor(
      {{shape.b, heads, s, t}, {heads * s * t, s * t, t, 1}, type});
}

CudnnGraph::Id CudnnAttention::statistics(bool isVirtual) {
  const int64_t heads = shape.n * shape.g, s = shape.s;
  return graph.tensor(
      {{shape.b, heads, s, 1}, {heads * s, s, 1, 1}, f32, isVirtual});
}

CudnnGraph::Id CudnnAttention::masked(CudnnGraph::Id input) {
  CudnnGraph::Id last = input;
  const CudnnGraph::Id lowest =
      graph.number(-std::numeric_limits<float>::infinity());
  // A pair stays where comparison(left, right) holds.
  auto keepWhere = [&](cudnnPointwiseMode_t comparison, CudnnGraph::Id left,
                       CudnnGraph::Id right) {
    const CudnnGraph::Id keeps = scores(flag), output = scores(f32);
    graph.pointwise(comparison, flag, keeps, left, right);
    graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, f32, output, last, lowest,
                    keeps);
    last = output;
  };
  auto index = [&](int64_t axis) {
    const CudnnGraph::Id result = scores(i32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, f32, result, last, -1, -1, axis);
    return result;
  };
  if (shape.causal) {
    const CudnnGraph::Id row = index(2), column = index(3);
    keepWhere(CUDNN_POINTWISE_CMP_GE, row, column);
  }
  if (shape.window > 0) { // column + window > row
    const CudnnGraph::Id row = index(2), column = index(3), end = scores(f32);
    graph.pointwise(CUDNN_POINTWISE_ADD, f32, end, column,
                    graph.number(static_cast<float>(shape.window)), -1, 3);
    keepWhere(CUDNN_POINTWISE_CMP_GT, end, row);
  }
  return last;
}

void CudnnAttention::addForward() {
  const int64_t heads = shape.n * shape.g;
  q = outside(heads, shape.s, false);
  k = outside(shape.n, shape.t, true);
  v = outside(shape.n, shape.t, false);
  o = outside(heads, shape.s, false);
  stats = statistics(false);
  const CudnnGraph::Id product = scores(f32), scaled = scores(f32);
  graph.matmul(q, k, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, scaled, product,
                  graph.number(static_cast<float>(shape.scale)));
  const CudnnGraph::Id score = masked(scaled);
  const CudnnGraph::Id maximum = statistics(true), below = scores(f32),
                       weight = scores(f32), sum = statistics(true),
                       logarithm = statistics(true), weights = scores(bf16);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, maximum, score);
  graph.pointwise(CUDNN_POINTWISE_SUB, f32, below, score, maximum);
  graph.pointwise(CUDNN_POINTWISE_EXP, f32, weight, below);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, sum, weight);
  graph.pointwise(CUDNN_POINTWISE_LOG, f32, logarithm, sum);
  graph.pointwise(CUDNN_POINTWISE_ADD, f32, stats, maximum, logarithm);
  graph.pointwise(CUDNN_POINTWISE_DIV, f32, weights, weight, sum);
  graph.matmul(weights, v, o);
}

void CudnnAttention::addBackward() {
  const int64_t heads = shape.n * shape.g, d = shape.d, s = shape.s,
                t = shape.t;
  q = outside(heads, s, false);
  k = outside(shape.n, t, true);
  v = outside(shape.n, t, true);
  o = outside(heads, s, false);
  gradO = outside(heads, s, false);
  gradQ = outside(heads, s, false);
  gradK = outside(shape.n, t, false);
  gradV = outside(shape.n, t, false);
  stats = statistics(false);
  const CudnnGraph::Id scale = graph.number(static_cast<float>(shape.scale));

  // sums = row sums of do * o
  const CudnnGraph::Id both = graph.tensor(
      {{shape.b, heads, s, d}, {heads * s * d, s * d, heads * d, 1}, f32});
  const CudnnGraph::Id unscaled = statistics(true);
  sums = statistics(false);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, both, gradO, o);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, unscaled, both);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, sums, unscaled, graph.number(1));

  // p = exp(mask(q k^T * scale - stats)); dv = p^T do
  const CudnnGraph::Id product = scores(f32), scaled = scores(f32),
                       below = scores(f32), weight = scores(f32);
  graph.matmul(q, k, product);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, scaled, product, scale);
  graph.pointwise(CUDNN_POINTWISE_SUB, f32, below, scaled, stats);
  graph.pointwise(CUDNN_POINTWISE_EXP, f32, weight, masked(below));
  auto exchangedScores = [&] {
    return graph.tensor(
        {{shape.b, heads, t, s}, {heads * s * t, s * t, 1, t}, bf16});
  };
  // x^T y of every query head, summed over the heads of a group.
  auto gradientOfKeys = [&](CudnnGraph::Id x, CudnnGraph::Id y,
                            CudnnGraph::Id result) {
    const CudnnGraph::Id exchanged = exchangedScores();
    graph.reshape(exchanged, x);
    if (shape.g == 1)
      return graph.matmul(exchanged, y, result);
    const CudnnGraph::Id ofHeads = graph.tensor(
        {{shape.b, heads, t, d}, {heads * t * d, t * d, d, 1}, bf16});
    graph.matmul(exchanged, y, ofHeads);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, result, ofHeads);
  };
  gradientOfKeys(weight, gradO, gradV);

  // ds = (do v^T - sums) * p * scale; dk = ds^T q; dq = ds k
  const CudnnGraph::Id gradP = scores(f32), centered = scores(f32),
                       weighted = scores(f32), gradS = scores(f32);
  graph.matmul(gradO, v, gradP);
  graph.pointwise(CUDNN_POINTWISE_SUB, f32, centered, gradP, sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, weighted, centered, weight);
  graph.pointwise(CUDNN_POINTWISE_MUL, f32, gradS, weighted, scale);
  gradientOfKeys(gradS, q, gradK);
  const CudnnGraph::Id keys =
      graph.tensor({{shape.b, shape.n, t, d},
                    {shape.n * d, d, shape.b * shape.n * d, 1},
                    bf16});
  graph.reshape(keys, k);
  gradQSum = graph.tensor({{shape.b, heads, s, d},
                           {heads * s * d, s * d, d, 1},
                           f32,
                           /*isVirtual=*/false});
  graph.matmul(gradS, keys, gradQSum);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, f32, gradQ, gradQSum);
  const AttentionScratch scratch = attentionScratch(shape, true);
  accumulator = scratch.gradQ;
  rowSums = scratch.rowSums;
}

std::unique_ptr<CudnnAttention>
CudnnAttention::forward(const CudnnTarget &target,
                        const sw_rt_attention_shape &shape, std::string &why) {
  std::unique_ptr<CudnnAttention> result(new CudnnAttention(target, shape));
  result->addForward();
  return result->graph.build(why) ? std::move(result) : nullptr;
}

std::unique_ptr<CudnnAttention>
CudnnAttention::backward(const CudnnTarget &target,
                         const sw_rt_attention_shape &shape, std::string &why) {
  std::unique_ptr<CudnnAttention> result(new CudnnAttention(target, shape));
  result->addBackward();
  return result->graph.build(why) ? std::move(result) : nullptr;
}

int64_t CudnnAttention::enginesFor(const CudnnTarget &target,
                                   const sw_rt_attention_shape &shape,
                                   bool isBackward, std::string &why) {
  CudnnAttention attention(target, shape);
  isBackward ? attention.addBackward() : attention.addForward();
  return attention.graph.findEngines(why);
}

int64_t CudnnAttention::scratchBytes() const {
  return accumulator + rowSums + graph.workspaceBytes();
}

cudnnStatus_t CudnnAttention::runForward(const void *queries, const void *keys,
                                         const void *values, void *output,
                                         void *statisticsMemory,
                                         char *scratch) {
  return graph.run({{q, queries},
                    {k, keys},
                    {v, values},
                    {o, output},
                    {stats, statisticsMemory}},
                   scratch);
}

cudnnStatus_t CudnnAttention::runBackward(
    const void *gradOutput, const void *queries, const void *keys,
    const void *values, const void *output, const void *statisticsMemory,
    void *gradQueries, void *gradKeys, void *gradValues, char *scratch) {
  return graph.run({{gradO, gradOutput},
                    {q, queries},
                    {k, keys},
                    {v, values},
                    {o, output},
                    {stats, statisticsMemory},
                    {gradQ, gradQueries},
                    {gradK, gradKeys},
                    {gradV, gradValues},
                    {gradQSum, scratch},
                    {sums, scratch + accumulator}},
                   scratch + accumulator + rowSums);
}

} // namespace shardwright::runtime
