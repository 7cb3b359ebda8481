//===- Data.cpp - Tokens of a file, and which of them a step takes --------===//
#include "runtime/src/train/Data.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwright::runtime {

/// FNV-1a of all bytes, or of 1,024 pages from the first to the last.
static uint64_t digestOf(const unsigned char *bytes, size_t count) {
  constexpr size_t page = 4096, pages = 1024;
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      hash = (hash ^ bytes[i]) * 0x100000001b3;
  };
  if (count <= page * pages) {
    add(0, count);
    return hash;
  }
  for (size_t i = 0; i < pages; ++i) {
    const size_t begin = (count - page) / (pages - 1) * i;
    add(begin, begin + page);
  }
  add(count - page, count);
  return hash;
}

TokenFile::~TokenFile() {
  if (mapped)
    munmap(const_cast<unsigned char *>(bytes), mapped);
}

bool TokenFile::open(const std::string &file, int64_t vocab, int64_t sequence,
                     std::string &why) {
  path = file;
  wide = file.size() >= 4 && file.compare(file.size() - 4, 4, ".bin") == 0;
  const int descriptor =
      // A pipe is refused below, and not waited for.
      ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) {
    why = "expected --data to be a readable file, but '" + file +
          "' is not: " + std::strerror(errno);
    if (descriptor >= 0)
      close(descriptor);
    return false;
  }
  if (!S_ISREG(status.st_mode)) {
    why =
        "expected --data to be a file, but '" + file + "' is not a regular one";
    close(descriptor);
    return false;
  }
  if (!wide && vocab < 256) {
    why = "expected a .bin of u16 tokens for the vocabulary of " +
          std::to_string(vocab) + ", because bytes need 256, but got '" + file +
          "'";
    close(descriptor);
    return false;
  }
  if (wide && status.st_size % 2 != 0) {
    why = "expected the size of '" + file +
          "' to be even (u16 tokens), but got " +
          std::to_string(status.st_size) + " bytes";
    close(descriptor);
    return false;
  }
  tokens = status.st_size / (wide ? 2 : 1);
  if (tokens < sequence + 2) {
    why = "expected '" + file + "' to hold at least " +
          std::to_string(sequence + 2) + " tokens (sequence " +
          std::to_string(sequence) + " + 2), but got " + std::to_string(tokens);
    close(descriptor);
    return false;
  }
  void *map = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ,
                   MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (map == MAP_FAILED) {
    why = "expected '" + file +
          "' to be mapped, but got: " + std::strerror(errno);
    return false;
  }
  mapped = static_cast<size_t>(status.st_size);
  bytes = static_cast<const unsigned char *>(map);
  char digest[17];
  std::snprintf(digest, sizeof digest, "%016llx",
                static_cast<unsigned long long>(digestOf(bytes, mapped)));
  fingerprint = std::to_string(tokens) + " tokens, " + digest;
  return true;
}

int32_t Batches::fill(int64_t step, int64_t first, int64_t count, int64_t vocab,
                      int32_t *tokens, int32_t *labels) const {
  int32_t outside = -1;
  for (int64_t j = 0; j < count; ++j) {
    const uint64_t draw = static_cast<uint64_t>(step * globalBatch + first + j);
    const int64_t start = static_cast<int64_t>(
        random.bits(draw) % static_cast<uint64_t>(file.size() - sequence - 1));
    for (int64_t s = 0; s < sequence; ++s) {
      tokens[s * count + j] = file[start + s];
      labels[s * count + j] = file[start + s + 1];
      for (int32_t token : {tokens[s * count + j], labels[s * count + j]})
        if (token >= vocab && outside < 0)
          outside = token;
    }
  }
  return outside;
}

} // namespace shardwright::runtime
