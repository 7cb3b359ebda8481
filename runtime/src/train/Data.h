//===- Data.h - Tokens of a file, and which of them a step takes -*- C++ -*-==//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_DATA_H
#define SHARDWRIGHT_RUNTIME_TRAIN_DATA_H

#include "runtime/src/train/Philox.h"

#include <cstddef>
#include <string>

namespace shardwright::runtime {

/// A mapped token file: the bytes of any file, or little-endian u16 of a .bin.
class TokenFile {
public:
  TokenFile() = default;
  ~TokenFile();
  TokenFile(const TokenFile &) = delete;
  TokenFile &operator=(const TokenFile &) = delete;

  /// Opens it for sequences of `sequence` tokens below `vocab`. Returns false
  /// with `why`.
  bool open(const std::string &path, int64_t vocab, int64_t sequence,
            std::string &why);
  int64_t size() const { return tokens; }
  int32_t operator[](int64_t index) const {
    const size_t i = static_cast<size_t>(index);
    return wide ? bytes[2 * i] | bytes[2 * i + 1] << 8 : bytes[i];
  }
  const std::string &getPath() const { return path; }
  /// Tells its tokens from those of other files: how many there are, and a
  /// digest of all of them, or of 4 MiB all over a larger file.
  const std::string &getFingerprint() const { return fingerprint; }

private:
  std::string path, fingerprint;
  const unsigned char *bytes = nullptr;
  size_t mapped = 0;
  int64_t tokens = 0;
  bool wide = false;
};

/// Draws the sequences of every step: sequence i of the global batch of step t
/// starts at Philox(seed, "data", t * batch + i) modulo (size - sequence - 1),
/// whatever the plan.
class Batches {
public:
  Batches(const TokenFile &file, uint64_t seed, int64_t sequence,
          int64_t globalBatch)
      : file(file), random(seed, "data"), sequence(sequence),
        globalBatch(globalBatch) {}

  /// Fills tokens and labels [sequence, count] with sequences first .. first +
  /// count of `step`. Returns the first token that is not below `vocab`, or -1.
  int32_t fill(int64_t step, int64_t first, int64_t count, int64_t vocab,
               int32_t *tokens, int32_t *labels) const;

private:
  const TokenFile &file;
  NamedRandom random;
  int64_t sequence, globalBatch;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_DATA_H
