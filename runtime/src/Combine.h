//===- Combine.h - Element-wise sum and maximum into a target ---*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMBINE_H
#define SHARDWRIGHT_RUNTIME_COMBINE_H

#include "runtime/include/shardwright_rt.h"
#include "runtime/src/Transport.h"

namespace shardwright::runtime {

/// The function for an operator and dtype; null if the host has none (f16).
/// bf16 adds in f32 and rounds to nearest even once a step. A maximum keeps a
/// NaN of either side.
CombineFunction combineFunction(sw_rt_op op, sw_rt_dtype dtype);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMBINE_H
