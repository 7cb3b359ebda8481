//===- Checkpoint.h - State of a training run in a file ---------*- C++ -*-===//
//
// safetensors of `master:`, `m:` and `v:` of every Hugging Face tensor, whole,
// in the master type, and what the run has to agree on. It knows nothing of the
// plan: a run may go on under another one, on other ranks.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_CHECKPOINT_H
#define SHARDWRIGHT_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/src/train/Data.h"
#include "runtime/src/train/Options.h"
#include "runtime/src/train/TensorFile.h"

namespace shardwright::runtime {

class Trainer;

/// Of one parameter: master copy and the moments of AdamW, as they lie in the
/// optimizer's part of the arena.
inline constexpr const char *statePrefixes[] = {"master:", "m:", "v:"};

/// A checkpoint to go on from.
class Checkpoint {
public:
  /// Returns false with `why`: unreadable, of another model, or of a run whose
  /// data `options` (the seed) and `data` would not continue.
  bool open(const std::string &path, const sw_rt_program &program,
            const Mesh &mesh, const Options &options, const TokenFile &data,
            std::string &why);
  int64_t getStep() const { return step; } ///< steps that were done
  /// Whole tensor `prefix` + `name`.
  const char *at(const std::string &prefix, const std::string &name) const {
    return file.at(file.getTensors().at(prefix + name));
  }

private:
  TensorReader file;
  int64_t step = 0;
};

/// Writes the state behind `step` steps. Collective.
sw_rt_status saveCheckpoint(sw_rt_context &context, const Trainer &trainer,
                            const Options &options, int64_t step);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_CHECKPOINT_H
