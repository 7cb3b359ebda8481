//===- TinyProgram.h - A hand-written compiled program ----------*- C++ -*-===//
//
// What the compiler emits, written by hand for a small residual network, so
// that the runtime is tested without a compiler: real functions, real tables,
// every degree of parallelism that the runtime knows.
//
//   embed: x[t] = table[token t]
//   layer: u = x * scale; h = tanh(u up^T) + u gate^T; y = x + h down^T
//   head:  mean cross entropy of x head^T
//
// up and gate are rows of one fused Hugging Face tensor, down is stored
// transposed there, scale is replicated over tp with partial gradients (as
// norms are under sequence parallelism), the vocabulary is padded.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_TINY_TINYPROGRAM_H
#define SHARDWRIGHT_RUNTIME_CTS_TINY_TINYPROGRAM_H

#include "runtime/include/shardwright_program.h"

#include <string>

namespace shardwright::runtime::cts {

struct TinyPlan {
  int64_t dp = 1, tp = 1, pp = 1, zero = 0, micro = 1;
  int64_t chunks = 1; ///< vp, of each stage; at most a layer each
  int64_t layers = 4;
  bool tied = false;     ///< head shares the table of embed
  bool oneFOneB = false; ///< only for pp = 2 and one chunk
  bool singlePrecision = false;
  /// Carries device code (of no use), so it wants a GPU.
  bool device = false;
  /// A fault for the tests: "", "stall" (rank 1 sleeps in step 2), "canary",
  /// "nan", "mismatch".
  std::string fault;
};

/// "dp=2,tp=2,zero=1,tied" into a plan. Returns false if it is none.
bool parseTinyPlan(const std::string &text, TinyPlan &plan);

/// Fixed facts of the model.
constexpr int64_t tinySequence = 6, tinyHidden = 8, tinyFfn = 12,
                  tinyVocab = 37, tinyGlobalBatch = 8;

/// Tables that live until the next call.
const sw_rt_program &tinyProgram(const TinyPlan &plan);

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_TINY_TINYPROGRAM_H
