//===- TinyKernels.h - Functions of the tiny program ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_TINY_TINYKERNELS_H
#define SHARDWRIGHT_RUNTIME_CTS_TINY_TINYKERNELS_H

#include "runtime/cts/tiny/TinyProgram.h"

#include <atomic>

namespace shardwright::runtime::cts {

/// What the functions of the tiny program know at compile time in a real one.
struct TinyShape {
  TinyPlan plan;
  int64_t tokens, ffn, vocab, paddedVocab; ///< local, but paddedVocab
  uint32_t tpAxis;
  /// Offsets in elements from the start of their blocks.
  int64_t scale, up, gate, down, table, head;
  double lossScale;
  std::atomic<int> forwards{0};
};
extern TinyShape tinyShape;

struct TinyFunctions {
  sw_rt_function embedForward, embedWeightGrad;
  sw_rt_function layerForward, layerDataGrad, layerWeightGrad;
  sw_rt_function headForward, headDataGrad, headWeightGrad;
  sw_rt_update update;
};
template <typename T> TinyFunctions tinyFunctions();

/// Elements that the functions keep in workspace and saved buffers.
int64_t tinyWorkspaceElements();
int64_t tinyLayerSavedElements();
int64_t tinyHeadSavedElements();

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_TINY_TINYKERNELS_H
