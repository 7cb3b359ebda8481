//===- Mutate.h - Inputs that are almost right ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_FUZZ_MUTATE_H
#define SHARDWRIGHT_TEST_FUZZ_MUTATE_H

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright::fuzz {

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every
/// machine, and every seed is as good as any other.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  /// Below `bound`; 0 if that is 0.
  size_t below(size_t bound) {
    return bound == 0 ? 0 : static_cast<size_t>(next() % bound);
  }
  bool oneIn(size_t n) { return below(n) == 0; }

private:
  uint64_t state;
};

/// A changed copy of one of `seeds`, by one to four edits of JSON values and
/// keys (where a line or the whole is JSON), of tokens, or of bytes. Empty only
/// if the edits made it so.
std::string mutate(const std::vector<std::string> &seeds, Random &random);

} // namespace shardwright::fuzz

#endif // SHARDWRIGHT_TEST_FUZZ_MUTATE_H
