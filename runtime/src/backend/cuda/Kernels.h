//===- Kernels.h - The runtime's own device kernels -------------*- C++ -*-===//
//
// Kernels.cu is compiled to PTX when the runtime is built and carried in it.
// Everything here is a plain struct that a launch passes by value, so that host
// and device code cannot disagree about parameters.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_KERNELS_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_KERNELS_H

#include <stdint.h>

namespace shardwright::runtime::kernels {

constexpr unsigned threads = 256; ///< of a block, except where said
constexpr unsigned warpThreads = 32;

/// sw_embedding_forward_{2,4,8} (bytes of an element): block i writes row i.
struct EmbeddingForward {
  const int32_t *ids;
  const void *table;
  void *output;
  int64_t firstRow, rows, width;
};

/// sw_embedding_links: for each token the next one with the same id, or -1;
/// `isFirst` is 1 for tokens with none of the same id before them.
struct EmbeddingLinks {
  const int32_t *ids;
  int32_t *next, *isFirst;
  int64_t tokens;
};

/// sw_embedding_backward_{bf16_bf16,bf16,f32,f64} (to a table of bf16, f32, f32,
/// f64): block i, if token i is the first of its id, adds the rows of all tokens
/// of that id in order; a sum to bf16 is in f32 and rounded once.
struct EmbeddingBackward {
  const int32_t *ids, *next, *isFirst;
  const void *gradOutput;
  void *gradTable;
  int64_t firstRow, rows, width;
};

/// Elements whose squares one block adds.
constexpr int64_t squaresOfBlock = 32768;
/// sw_squares_{bf16,f32,f64}: partial[firstPartial + block].
struct Squares {
  const void *values;
  double *partial;
  int64_t count;
};
/// sw_sum: one block adds `count` partials into sum[0].
struct Sum {
  const double *partial;
  double *sum;
  int64_t count;
};

/// sw_transpose_f32: output[columns, rows] of input[rows, columns].
struct Transpose {
  const float *input;
  float *output;
  int64_t rows, columns;
};

/// sw_scalars: thread i of one block writes values[i]. A launch carries them: a
/// copy from the host may read its source late.
struct Scalars {
  double values[8];
  double *target;
};

constexpr int largestHead = 256; ///< of the attention kernels

/// sw_attention_{forward,grad_q,grad_kv}_{bf16,f32,f64}: one warp per query
/// (s, b, head), or per key (t, b, n). `slopes`: of linear biases, one a query
/// head, or null. Layouts as sw_rt_attention_shape.
struct Attention {
  const void *q, *k, *v, *gradO;
  void *o, *gradQ, *gradK, *gradV;
  void *lse; ///< f64 if the type is, else f32
  const double *slopes;
  int64_t s, t, b, n, g, d, window;
  double scale, softcap;
  int32_t causal;
  int32_t reserved;
};

} // namespace shardwright::runtime::kernels

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_KERNELS_H
