//===- ReadText.h - The text of an input file -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_FILES_READTEXT_H
#define SHARDWRIGHT_COMPILER_FILES_READTEXT_H

#include "cost_model/base/Failure.h"

#include <cstdint>
#include <string>

namespace shardwright {

/// Rows of a million runs.
constexpr int64_t largestText = int64_t(256) << 20;

/// The whole text of a file of at most `most` bytes. Folders, and devices and
/// pipes, which may never end or never begin, are refused unread, but for those
/// that a shell hands over: its stdin, and <(command).
bool readText(const std::string &path, std::string &text,
              cost::Failure &failure, int64_t most = largestText);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_FILES_READTEXT_H
