//===- Trainer.h - Runs optimizer steps of one rank -------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_TRAINER_H
#define SHARDWRIGHT_RUNTIME_TRAIN_TRAINER_H

#include "runtime/src/Context.h"
#include "runtime/src/train/Arena.h"
#include "runtime/src/train/Checkpoint.h"
#include "runtime/src/train/Data.h"
#include "runtime/src/train/Options.h"
#include "runtime/src/train/Stage.h"

namespace shardwright::runtime {

/// What a step measures; the same on every rank.
struct StepResult {
  double loss = 0;
  double gradientNorm = 0; ///< before clipping
};

/// Walks the action table of its stage: one loop for every schedule.
class Trainer {
public:
  Trainer(sw_rt_context &context, const sw_rt_program &program,
          const Options &options, const TokenFile &data);

  /// Allocates the arena and makes the initial parameters and state, or takes
  /// them from `checkpoint`, if that is not null.
  sw_rt_status prepare(const Checkpoint *checkpoint);
  /// Runs step `number`, from 0.
  sw_rt_status step(int64_t number, StepResult &result);
  /// Fails if a canary of the arena is damaged.
  sw_rt_status checkArena();

  const Stage &getStage() const { return stage; }
  const TokenFile &getData() const { return data; }
  const Arena &getArena() const { return arena; }
  /// Reduced, unclipped gradients of the last step.
  char *gradients() const { return arena.at(Arena::Gradients); }
  char *parameters() const { return arena.at(Arena::Parameters); }
  /// Master copies, then m, then v, of optimizer_elements each.
  char *optimizer() const { return arena.at(Arena::Optimizer); }

private:
  sw_rt_status run(const sw_rt_action &action);
  sw_rt_status forward(const sw_rt_action &action);
  sw_rt_status backward(const sw_rt_action &action);
  sw_rt_status call(sw_rt_function function, sw_rt_phase phase,
                    const Layer &layer, sw_rt_frame &frame);
  sw_rt_status loadBatch();
  sw_rt_status initialState(const Checkpoint *checkpoint);
  sw_rt_status loadMoments(const Checkpoint &checkpoint);
  /// Copies `range` of whole tensor `prefix` + its name to this rank's elements,
  /// the first of all of them at `local`. Fails the context at what is no number.
  void load(const Checkpoint &checkpoint, const char *prefix,
            const ParameterView &view, ElementRange range, char *local);
  int64_t tokensAt(int64_t microbatch) const {
    return 2 * microbatch * inputBytes;
  }
  /// One stat value.
  char *loss() const {
    return inputs.at() + static_cast<int64_t>(batch.size());
  }
  const Chunk &chunkOf(const sw_rt_action &action) const {
    return stage.chunks[static_cast<size_t>(action.chunk)];
  }
  sw_rt_frame frameOf(size_t layer, const sw_rt_action &action);
  /// A buffer of p2p; null of number -1.
  char *border(int32_t number) const;
  char *slot(const sw_rt_action &action) const;
  char *stream(size_t layer, const sw_rt_action &action) const;
  char *streamOut(size_t layer, const sw_rt_action &action) const;
  char *gradientIn(size_t layer, const sw_rt_action &action) const;
  char *gradientOut(size_t layer, const sw_rt_action &action) const;

  /// Whether gradients of a chunk's layers are reduced as soon as `action`, the
  /// last to add to them, has made them: beside the backward of what follows.
  bool reducesEarly(const sw_rt_action &action) const;
  sw_rt_status reduceGradients();
  sw_rt_status reduceBlock(const sw_rt_block &block, int64_t elements,
                           uint32_t owners);
  sw_rt_status finishStep();
  sw_rt_status squaredNorm(double &sum);
  sw_rt_status updateBlock(const sw_rt_block &block, int64_t elements,
                           double scale);
  sw_rt_status gatherBlock(const sw_rt_block &block, int64_t elements);
  /// Visits the blocks of the layers, then the shared one.
  template <typename Visit> sw_rt_status forEachBlock(const Visit &visit);

  sw_rt_context &context;
  const sw_rt_program &program;
  const Options &options;
  const TokenFile &data;
  Batches batches;
  Stage stage;
  Arena arena;
  /// Tokens and labels of every microbatch of a step, inputBytes apart.
  std::vector<char> batch;
  DeviceMemory inputs; ///< the same on the device, then the loss
  Ledger recorded;     ///< of the part of a step that the device replays
  int64_t number = 0;           ///< of the step
  /// By chunk the backward after which every gradient of its layers is whole.
  std::vector<const sw_rt_action *> lastBackwards;
  StepResult result;
  int64_t paramWidth, gradWidth, masterWidth, inputBytes;
};

template <typename Visit>
sw_rt_status Trainer::forEachBlock(const Visit &visit) {
  for (const Layer &layer : stage.layers)
    if (sw_rt_status status =
            visit(layer.kind->block, layer.elements, uint32_t(0)))
      return status;
  if (stage.tables.shared.num_buckets == 0)
    return SW_RT_OK;
  return visit(stage.tables.shared, stage.sharedElements,
               stage.tables.shared_owners);
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_TRAINER_H
