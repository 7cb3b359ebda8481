//===- Arena.h - The one allocation of a rank -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_ARENA_H
#define SHARDWRIGHT_RUNTIME_TRAIN_ARENA_H

#include "runtime/src/Device.h"

#include <array>
#include <string>

namespace shardwright::runtime {

/// Holds the parts of sw_rt_arena one after the other with a canary before,
/// between and behind them. Everything starts as poison (all bits one: NaN in
/// f32 and f64), so what was never written is seen in results and in the
/// high-water mark.
class Arena {
public:
  enum Part {
    Parameters,
    Gradients,
    Optimizer,
    Slots,
    P2p,
    Comm,
    Workspace,
    Parts
  };
  static const char *name(Part part);

  Arena() = default;
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  /// Takes the memory from `device`, which must outlive this. Returns false with
  /// `why` if it is not to be had.
  bool create(const sw_rt_arena &layout, Device &device, std::string &why);
  char *at(Part part) const { return base + offset[part]; }
  int64_t bytes(Part part) const { return size[part]; }
  int64_t totalBytes() const;
  /// Bytes of the part up to the last one that was ever written.
  int64_t highWater(Part part) const;
  /// Parts with a damaged canary in front or behind, joined by ", "; "" if all
  /// are whole.
  std::string damaged() const;

private:
  /// Whether bytes [first, last) from the base are all `value`; false also if
  /// they cannot be read.
  bool holds(int64_t first, int64_t last, unsigned char value) const;

  Device *device = nullptr;
  char *base = nullptr;
  int64_t allocated = 0;
  std::array<int64_t, Parts> offset{}, size{};
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_ARENA_H
