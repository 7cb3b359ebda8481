//===- Kernels.cu - The runtime's own device kernels ----------------------===//
//
// No atomics: every result depends on its inputs alone. The attention kernels
// are the plain reference and the fallback for what cuDNN refuses: they keep no
// s x t matrix, and no tensor core works for them.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/backend/cuda/Kernels.h"

#include <cuda_bf16.h>

// The tests compile this file for the host too, where threads of a block take
// turns (cts/cuda): there shared memory is static.
#ifdef __CUDACC__
#define SW_SHARED __shared__
#else
#define SW_SHARED static
#endif

using namespace shardwright::runtime::kernels;

namespace {

// What a type is computed in.
template <typename T> struct Compute {
  using type = float;
};
template <> struct Compute<double> {
  using type = double;
};

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T, typename C> __device__ inline T narrow(C x) {
  return static_cast<T>(x);
}
template <> __device__ inline __nv_bfloat16 narrow(float x) {
  return __float2bfloat16_rn(x);
}

/// Sum over the lanes of a warp, the same in all of them.
template <typename C> __device__ inline C warpSum(C x) {
  for (int mask = 16; mask > 0; mask /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}

/// Sum over the threads of a block, in thread 0; the order is fixed.
__device__ double blockSum(double x) {
  SW_SHARED double parts[threads / warpThreads];
  x = warpSum(x);
  if (threadIdx.x % warpThreads == 0)
    parts[threadIdx.x / warpThreads] = x;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (unsigned i = 0; i < threads / warpThreads; ++i)
      sum += parts[i];
  return sum;
}

// ---- Embedding ----------------------------------------------------------- //

template <typename T> __device__ void embeddingForward(EmbeddingForward x) {
  const int64_t token = blockIdx.x;
  const int64_t row = x.ids[token] - x.firstRow;
  const bool here = row >= 0 && row < x.rows;
  const T *source = static_cast<const T *>(x.table) + row * x.width;
  T *target = static_cast<T *>(x.output) + token * x.width;
  for (int64_t i = threadIdx.x; i < x.width; i += blockDim.x)
    target[i] = here ? source[i] : T(0);
}

template <typename T, typename G>
__device__ void embeddingBackward(EmbeddingBackward x) {
  const int64_t first = blockIdx.x;
  const int64_t row = x.ids[first] - x.firstRow;
  if (!x.isFirst[first] || row < 0 || row >= x.rows)
    return;
  using C = typename Compute<G>::type;
  const T *source = static_cast<const T *>(x.gradOutput);
  G *target = static_cast<G *>(x.gradTable) + row * x.width;
  for (int64_t i = threadIdx.x; i < x.width; i += blockDim.x) {
    C sum = widen(target[i]);
    for (int64_t token = first; token >= 0; token = x.next[token])
      sum += static_cast<C>(widen(source[token * x.width + i]));
    target[i] = narrow<G>(sum);
  }
}

// ---- Attention ----------------------------------------------------------- //

constexpr int perLane = largestHead / static_cast<int>(warpThreads);

/// Number of keys that query `s` attends to, and the first of them.
__device__ inline int64_t keysOf(const Attention &x, int64_t s) {
  if (!x.causal)
    return x.t;
  const int64_t keys = s + 1 + x.t - x.s;
  return keys < 0 ? 0 : keys > x.t ? x.t : keys;
}
__device__ inline int64_t firstKeyOf(const Attention &x, int64_t s) {
  const int64_t first = keysOf(x, s) - x.window;
  return x.window > 0 && first > 0 ? first : 0;
}

template <typename T, typename C>
__device__ inline void loadRow(const void *base, int64_t at, int64_t d,
                               C (&row)[perLane]) {
  const T *from = static_cast<const T *>(base) + at;
#pragma unroll
  for (int i = 0; i < perLane; ++i) {
    const int64_t column = i * warpThreads + threadIdx.x % warpThreads;
    row[i] = column < d ? widen(from[column]) : C(0);
  }
}
template <typename T, typename C>
__device__ inline void storeRow(void *base, int64_t at, int64_t d,
                                const C (&row)[perLane]) {
  T *to = static_cast<T *>(base) + at;
#pragma unroll
  for (int i = 0; i < perLane; ++i) {
    const int64_t column = i * warpThreads + threadIdx.x % warpThreads;
    if (column < d)
      to[column] = narrow<T>(row[i]);
  }
}
template <typename C>
__device__ inline C dot(const C (&a)[perLane], const C (&b)[perLane]) {
  C sum = 0;
#pragma unroll
  for (int i = 0; i < perLane; ++i)
    sum += a[i] * b[i];
  return warpSum(sum);
}

/// Score of a pair after soft-cap and bias, and the derivative of the former.
template <typename C>
__device__ inline C scoreOf(const Attention &x, C product, int64_t head,
                            int64_t s, int64_t key, C &slope) {
  C score = product * static_cast<C>(x.scale);
  slope = 1;
  if (x.softcap > 0) {
    const C cap = static_cast<C>(x.softcap);
    const C bounded = tanh(score / cap);
    score = cap * bounded;
    slope = C(1) - bounded * bounded;
  }
  if (x.slopes)
    score += static_cast<C>(x.slopes[head]) *
             static_cast<C>(key - (s + x.t - x.s));
  return score;
}

/// Index of this warp, or -1 past `count`.
__device__ inline int64_t warpIndex(int64_t count) {
  const int64_t index =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) /
      warpThreads;
  return index < count ? index : -1;
}

/// (s, b, n, g) of a query from its number in memory order.
struct Query {
  int64_t number, s, bn, head;
};
__device__ inline Query queryAt(const Attention &x, int64_t number) {
  const int64_t bng = number % (x.b * x.n * x.g);
  return {number, number / (x.b * x.n * x.g), bng / x.g, bng % (x.n * x.g)};
}

template <typename T> __device__ void attentionForward(Attention x) {
  using C = typename Compute<T>::type;
  const int64_t index = warpIndex(x.s * x.b * x.n * x.g);
  if (index < 0)
    return;
  const Query query = queryAt(x, index);
  C q[perLane], o[perLane] = {}, row[perLane];
  loadRow<T>(x.q, query.number * x.d, x.d, q);
  C maximum = -INFINITY, sum = 0, unused;
  for (int64_t key = firstKeyOf(x, query.s); key < keysOf(x, query.s); ++key) {
    const int64_t at = (key * x.b * x.n + query.bn) * x.d;
    loadRow<T>(x.k, at, x.d, row);
    const C score =
        scoreOf(x, dot(q, row), query.head, query.s, key, unused);
    const C larger = score > maximum ? score : maximum;
    const C keep = exp(maximum - larger), weight = exp(score - larger);
    maximum = larger;
    sum = sum * keep + weight;
    loadRow<T>(x.v, at, x.d, row);
#pragma unroll
    for (int i = 0; i < perLane; ++i)
      o[i] = o[i] * keep + weight * row[i];
  }
  const C factor = sum > 0 ? C(1) / sum : C(0);
#pragma unroll
  for (int i = 0; i < perLane; ++i)
    o[i] *= factor;
  storeRow<T>(x.o, query.number * x.d, x.d, o);
  if (threadIdx.x % warpThreads == 0)
    static_cast<C *>(x.lse)[query.number] = maximum + log(sum);
}

/// What the gradient of a (query, key) pair needs: the weight p and
/// ds = p * (do.v - do.o) * slope * scale.
template <typename T, typename C>
__device__ inline void pairGradient(const Attention &x, const Query &query,
                                    int64_t key, const C (&q)[perLane],
                                    const C (&gradO)[perLane],
                                    const C (&k)[perLane],
                                    const C (&v)[perLane], C delta, C &p,
                                    C &ds) {
  C slope;
  const C score = scoreOf(x, dot(q, k), query.head, query.s, key, slope);
  p = exp(score - static_cast<const C *>(x.lse)[query.number]);
  ds = p * (dot(gradO, v) - delta) * slope * static_cast<C>(x.scale);
}

template <typename T> __device__ void attentionGradQ(Attention x) {
  using C = typename Compute<T>::type;
  const int64_t index = warpIndex(x.s * x.b * x.n * x.g);
  if (index < 0)
    return;
  const Query query = queryAt(x, index);
  C q[perLane], gradO[perLane], gradQ[perLane] = {}, k[perLane], v[perLane];
  loadRow<T>(x.q, query.number * x.d, x.d, q);
  loadRow<T>(x.gradO, query.number * x.d, x.d, gradO);
  loadRow<T>(x.o, query.number * x.d, x.d, v);
  const C delta = dot(gradO, v);
  for (int64_t key = firstKeyOf(x, query.s); key < keysOf(x, query.s); ++key) {
    const int64_t at = (key * x.b * x.n + query.bn) * x.d;
    loadRow<T>(x.k, at, x.d, k);
    loadRow<T>(x.v, at, x.d, v);
    C p, ds;
    pairGradient<T>(x, query, key, q, gradO, k, v, delta, p, ds);
#pragma unroll
    for (int i = 0; i < perLane; ++i)
      gradQ[i] += ds * k[i];
  }
  storeRow<T>(x.gradQ, query.number * x.d, x.d, gradQ);
}

template <typename T> __device__ void attentionGradKv(Attention x) {
  using C = typename Compute<T>::type;
  const int64_t index = warpIndex(x.t * x.b * x.n);
  if (index < 0)
    return;
  const int64_t key = index / (x.b * x.n), bn = index % (x.b * x.n);
  C k[perLane], v[perLane], gradK[perLane] = {}, gradV[perLane] = {};
  loadRow<T>(x.k, index * x.d, x.d, k);
  loadRow<T>(x.v, index * x.d, x.d, v);
  for (int64_t s = 0; s < x.s; ++s) {
    if (key < firstKeyOf(x, s) || key >= keysOf(x, s))
      continue;
    for (int64_t member = 0; member < x.g; ++member) {
      const Query query =
          queryAt(x, (s * x.b * x.n + bn) * x.g + member);
      C q[perLane], gradO[perLane], o[perLane], p, ds;
      loadRow<T>(x.q, query.number * x.d, x.d, q);
      loadRow<T>(x.gradO, query.number * x.d, x.d, gradO);
      loadRow<T>(x.o, query.number * x.d, x.d, o);
      pairGradient<T>(x, query, key, q, gradO, k, v, dot(gradO, o), p, ds);
#pragma unroll
      for (int i = 0; i < perLane; ++i) {
        gradK[i] += ds * q[i];
        gradV[i] += p * gradO[i];
      }
    }
  }
  storeRow<T>(x.gradK, index * x.d, x.d, gradK);
  storeRow<T>(x.gradV, index * x.d, x.d, gradV);
}

template <typename T> __device__ double squares(const Squares &x) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * squaresOfBlock;
  const int64_t last =
      first + squaresOfBlock < x.count ? first + squaresOfBlock : x.count;
  double sum = 0;
  for (int64_t i = first + threadIdx.x; i < last; i += threads) {
    const double value = widen(static_cast<const T *>(x.values)[i]);
    sum += value * value;
  }
  return blockSum(sum);
}

} // namespace

extern "C" {

__global__ void sw_embedding_forward_2(EmbeddingForward x) {
  embeddingForward<uint16_t>(x);
}
__global__ void sw_embedding_forward_4(EmbeddingForward x) {
  embeddingForward<uint32_t>(x);
}
__global__ void sw_embedding_forward_8(EmbeddingForward x) {
  embeddingForward<uint64_t>(x);
}

__global__ void sw_embedding_links(EmbeddingLinks x) {
  SW_SHARED int32_t tile[threads];
  const int64_t me = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  const int32_t id = me < x.tokens ? x.ids[me] : 0;
  int32_t next = -1, isFirst = 1;
  for (int64_t base = 0; base < x.tokens; base += threads) {
    if (base + threadIdx.x < x.tokens)
      tile[threadIdx.x] = x.ids[base + threadIdx.x];
    __syncthreads();
    const int64_t length =
        x.tokens - base < threads ? x.tokens - base : threads;
    for (int64_t i = 0; i < length; ++i)
      if (tile[i] == id) {
        const int64_t other = base + i;
        if (other < me)
          isFirst = 0;
        else if (other > me && next < 0)
          next = static_cast<int32_t>(other);
      }
    __syncthreads();
  }
  if (me < x.tokens) {
    x.next[me] = next;
    x.isFirst[me] = isFirst;
  }
}

__global__ void sw_embedding_backward_bf16(EmbeddingBackward x) {
  embeddingBackward<__nv_bfloat16, float>(x);
}
__global__ void sw_embedding_backward_bf16_bf16(EmbeddingBackward x) {
  embeddingBackward<__nv_bfloat16, __nv_bfloat16>(x);
}
__global__ void sw_embedding_backward_f32(EmbeddingBackward x) {
  embeddingBackward<float, float>(x);
}
__global__ void sw_embedding_backward_f64(EmbeddingBackward x) {
  embeddingBackward<double, double>(x);
}

__global__ void sw_squares_bf16(Squares x) {
  const double sum = squares<__nv_bfloat16>(x);
  if (threadIdx.x == 0)
    x.partial[blockIdx.x] = sum;
}
__global__ void sw_squares_f32(Squares x) {
  const double sum = squares<float>(x);
  if (threadIdx.x == 0)
    x.partial[blockIdx.x] = sum;
}
__global__ void sw_squares_f64(Squares x) {
  const double sum = squares<double>(x);
  if (threadIdx.x == 0)
    x.partial[blockIdx.x] = sum;
}
__global__ void sw_sum(Sum x) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < x.count; i += threads)
    sum += x.partial[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    *x.sum = sum;
}

__global__ void sw_scalars(Scalars x) {
  if (threadIdx.x < sizeof(x.values) / sizeof(x.values[0]))
    x.target[threadIdx.x] = x.values[threadIdx.x];
}

__global__ void sw_transpose_f32(Transpose x) {
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index < x.rows * x.columns)
    x.output[index] = x.input[index % x.rows * x.columns + index / x.rows];
}

#define SW_ATTENTION(suffix, T)                                                \
  __global__ void sw_attention_forward_##suffix(Attention x) {                 \
    attentionForward<T>(x);                                                    \
  }                                                                            \
  __global__ void sw_attention_grad_q_##suffix(Attention x) {                  \
    attentionGradQ<T>(x);                                                      \
  }                                                                            \
  __global__ void sw_attention_grad_kv_##suffix(Attention x) {                 \
    attentionGradKv<T>(x);                                                     \
  }
SW_ATTENTION(bf16, __nv_bfloat16)
SW_ATTENTION(f32, float)
SW_ATTENTION(f64, double)
#undef SW_ATTENTION

} // extern "C"
