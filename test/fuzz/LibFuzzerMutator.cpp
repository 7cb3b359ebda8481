//===- LibFuzzerMutator.cpp - Edits of text for libFuzzer -----------------===//
//
// libFuzzer edits bytes, and text so edited seldom gets beyond a parser. Half
// of the edits are therefore those of Mutate.h; libFuzzer still chooses what to
// edit and keeps what reaches new code.
//
//===----------------------------------------------------------------------===//
#include "test/fuzz/Mutate.h"

#include <algorithm>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  using namespace shardwright::fuzz;
  Random random(seed);
  if (size == 0 || random.oneIn(2))
    return LLVMFuzzerMutate(data, size, maxSize);
  const std::string text = mutate({std::string(data, data + size)}, random);
  const size_t kept = std::min(text.size(), maxSize);
  std::copy_n(text.begin(), kept, data);
  return kept;
}
