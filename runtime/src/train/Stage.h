//===- Stage.h - The part of a program that one rank runs -------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_STAGE_H
#define SHARDWRIGHT_RUNTIME_TRAIN_STAGE_H

#include "runtime/include/shardwright_program.h"
#include "runtime/src/Mesh.h"

#include <functional>
#include <string>
#include <vector>

namespace shardwright::runtime {

inline int64_t alignArena(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// One layer of a stage, in execution order within its chunk.
struct Layer {
  const sw_rt_kind *kind;
  int64_t number;       ///< for `{}` in names
  int64_t elements;     ///< offset of its parameter block
  int64_t streamOffset; ///< in a slot, of the stream that enters; -1 if none
  int64_t savedOffset;  ///< in a slot
};

/// Consecutive layers that a microbatch passes in one action.
struct Chunk {
  const sw_rt_chunk *tables;
  size_t firstLayer, endLayer; ///< in Stage::layers
  bool isFirst, isLast;        ///< whether it has the model's first, last layer
};

/// A parameter of a layer, or of the shared block.
struct ParameterView {
  const sw_rt_block *block;
  const sw_rt_parameter *parameter;
  int64_t blockElements;    ///< offset of the block in the stage
  int64_t layer;            ///< -1 for the shared block
  std::string name() const; ///< Hugging Face name with its layer number
  const sw_rt_bucket &bucket() const {
    return block->buckets[parameter->bucket];
  }
  int64_t localElements() const;
};

/// Elements [first, last) of a parameter's local part.
struct ElementRange {
  int64_t first, last;
};

Mesh meshOf(const sw_rt_program &program);

class Stage {
public:
  Stage(const sw_rt_program &program, const Mesh &mesh, int64_t rank);

  const sw_rt_program &program;
  const Mesh &mesh;
  int64_t rank;
  int64_t index; ///< of the stage
  const sw_rt_stage &tables;
  std::vector<Layer> layers; ///< of one chunk behind the other
  std::vector<Chunk> chunks;
  int64_t sharedElements = 0; ///< offset of the shared block
  int64_t streamBytes = 0;

  /// Whether it reads the tokens, and whether it makes the loss.
  bool isFirst() const { return has(&Chunk::isFirst); }
  bool isLast() const { return has(&Chunk::isLast); }
  uint32_t axis(int32_t number) const {
    return number < 0 ? 0 : uint32_t(1) << number;
  }
  uint32_t dpAxis() const { return axis(program.dp_axis); }
  int64_t dpRanks() const { return mesh.degree(dpAxis()); }
  /// Ranks over which optimizer state is sharded.
  int64_t zeroDegree() const { return program.zero ? dpRanks() : 1; }
  /// Rank of the same other coordinates on stage `peer`.
  int rankOn(int32_t peer) const;
  /// "" if the tables agree with each other, else what does not.
  std::string check() const;

  void forEachParameter(
      const std::function<void(const ParameterView &)> &visit) const;
  /// The part of a parameter's gradient (after reduction) that this rank and
  /// no other counts: its shard under ZeRO, all of it on the first of ranks
  /// that hold the same, nothing elsewhere.
  ElementRange ownedRange(const ParameterView &view) const;
  /// The part of a parameter whose optimizer state this rank holds, as others
  /// may, too.
  ElementRange stateRange(const ParameterView &view) const;
  /// Where the state of local element 0 would lie in master, m or v, in
  /// elements; below 0 if another rank holds it.
  int64_t stateOffset(const ParameterView &view) const;
  /// Local elements that lie on one line of the innermost dim.
  struct Line {
    int64_t local;   ///< first local element
    int64_t count;   ///< elements that are not padding
    int64_t padding; ///< elements behind them that are
    int64_t hf;      ///< Hugging Face index of the first
    int64_t stride;  ///< between Hugging Face indices
  };
  /// Visits the lines that cover local elements [range.first, range.last).
  template <typename Visit>
  void forEachLine(const ParameterView &view, ElementRange range,
                   const Visit &visit) const;

private:
  bool has(bool Chunk::*end) const;
  /// check() of the actions: indices that the tables have room for.
  std::string checkActions() const;
  Line lineAt(const ParameterView &view, int64_t local, int64_t last) const;
};

template <typename Visit>
void Stage::forEachLine(const ParameterView &view, ElementRange range,
                        const Visit &visit) const {
  for (int64_t local = range.first; local < range.last;) {
    const Line line = lineAt(view, local, range.last);
    visit(line);
    local += line.count + line.padding;
  }
}

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_STAGE_H
