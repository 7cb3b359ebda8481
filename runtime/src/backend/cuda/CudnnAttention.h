//===- CudnnAttention.h - Flash attention of cuDNN --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNATTENTION_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNATTENTION_H

#include "runtime/include/shardwright_rt.h"
#include "runtime/src/backend/cuda/CudnnGraph.h"

#include <memory>

namespace shardwright::runtime {

/// One direction of one shape in bf16, as the graph of operations in which
/// cuDNN recognizes flash attention. Statistics (log of the sum of
/// exponentials) are f32 [b, heads, s] there, packed.
class CudnnAttention {
public:
  /// Null with `why` if cuDNN has no engine for the shape.
  static std::unique_ptr<CudnnAttention>
  forward(const CudnnTarget &target, const sw_rt_attention_shape &shape,
          std::string &why);
  static std::unique_ptr<CudnnAttention>
  backward(const CudnnTarget &target, const sw_rt_attention_shape &shape,
           std::string &why);

  /// Engines that cuDNN has for a shape; 0 with `why`.
  static int64_t enginesFor(const CudnnTarget &target,
                            const sw_rt_attention_shape &shape, bool isBackward,
                            std::string &why);

  /// Scratch memory of a run: cuDNN's workspace and what the graph keeps.
  int64_t scratchBytes() const;
  /// Bytes at the start of the scratch memory that must be 0.
  int64_t zeroedBytes() const { return accumulator; }
  cudnnStatus_t runForward(const void *q, const void *k, const void *v, void *o,
                           void *stats, char *scratch);
  cudnnStatus_t runBackward(const void *gradO, const void *q, const void *k,
                            const void *v, const void *o, const void *stats,
                            void *gradQ, void *gradK, void *gradV,
                            char *scratch);

private:
  CudnnAttention(const CudnnTarget &target, const sw_rt_attention_shape &shape)
      : graph(target), shape(shape) {}
  void addForward();
  void addBackward();
  /// Masks scores that lie above the diagonal or before the window.
  CudnnGraph::Id masked(CudnnGraph::Id scores);
  CudnnGraph::Id scores(cudnnDataType_t type);
  CudnnGraph::Id statistics(bool isVirtual);
  /// Input or output of the program: [b, heads, positions, d], or its last two
  /// dims exchanged.
  CudnnGraph::Id outside(int64_t heads, int64_t positions, bool exchanged);

  CudnnGraph graph;
  sw_rt_attention_shape shape;
  CudnnGraph::Id q = 0, k = 0, v = 0, o = 0, stats = 0;
  CudnnGraph::Id gradO = 0, gradQ = 0, gradK = 0, gradV = 0;
  CudnnGraph::Id sums = 0, gradQSum = 0;
  int64_t accumulator = 0; ///< bytes of gradQSum, in f32
  int64_t rowSums = 0;     ///< bytes of sums, f32
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNATTENTION_H
