//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_PHILOX_H
#define SHARDWRIGHT_RUNTIME_TRAIN_PHILOX_H

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwright::runtime {

/// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
/// easy as 1, 2, 3", SC 2011: a bijection of the counter for every key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// Numbers that belong to a name: parameters by their Hugging Face name, the
/// data by "data". The n-th is the same wherever and whenever it is drawn.
class NamedRandom {
public:
  NamedRandom(uint64_t seed, std::string_view name);
  /// Words 0 (low) and 1 (high) of draw `index`.
  uint64_t bits(uint64_t index) const;
  /// In (0, 1), never an end: 53 bits and a half.
  double uniform(uint64_t index) const;
  /// Normal with mean 0 and deviation 1, by inversion.
  double normal(uint64_t index) const;

private:
  std::array<uint32_t, 2> key;
};

/// Inverse of the normal distribution function: Wichura, Algorithm AS 241
/// (PPND16), Applied Statistics 37(3), 1988; relative error about 1e-16.
double inverseNormal(double probability);

/// FNV-1a, 64 bits.
uint64_t fnv1a(std::string_view text);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_PHILOX_H
