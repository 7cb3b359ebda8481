//===- Init.h - Initial parameters ------------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_INIT_H
#define SHARDWRIGHT_RUNTIME_TRAIN_INIT_H

#include "runtime/src/train/Stage.h"

namespace shardwright::runtime {

/// Fills the parameters of a stage, of `dtype` f32 or f64: each element from its
/// Hugging Face name and index alone, so that every plan starts from the same
/// bits. Padding is 0.
void initParameters(const Stage &stage, uint64_t seed, sw_rt_dtype dtype,
                    void *parameters);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_INIT_H
