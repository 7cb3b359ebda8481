//===- HostCompute.h - Products, attention, embeddings on the CPU -*- C++ -*-=//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_HOSTCOMPUTE_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_HOSTCOMPUTE_H

#include "runtime/src/Device.h"

namespace shardwright::runtime {

// In f32, f64 and, rounding each result once, bf16; the gradient of a bf16
// embedding is added to an f32 table. Other types poison the context.
void hostMatmul(sw_rt_context &context, const MatmulCall &call);
void hostAttentionForward(sw_rt_context &context, const AttentionCall &call);
void hostAttentionBackward(sw_rt_context &context, const AttentionCall &call);
/// Of any type: it only moves rows.
void hostEmbeddingForward(const EmbeddingCall &call, const void *table,
                          void *output);
void hostEmbeddingBackward(sw_rt_context &context, const EmbeddingCall &call,
                           const void *gradOutput, void *gradTable);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_HOSTCOMPUTE_H
