//===- Dump.h - Gradients and parameters as a safetensors file --*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_DUMP_H
#define SHARDWRIGHT_RUNTIME_TRAIN_DUMP_H

#include "runtime/src/train/Trainer.h"

namespace shardwright::runtime {

/// Writes `grad:<name>` (reduced gradients of the last step before clipping)
/// and `param:<name>` of every Hugging Face tensor, whole and unpadded, in its
/// own layout. Collective: every rank writes the elements that it owns into one
/// mapped file, so all ranks must see the same file system.
sw_rt_status dumpTensors(sw_rt_context &context, const Trainer &trainer,
                         const std::string &path);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_DUMP_H
