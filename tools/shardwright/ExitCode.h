//===- ExitCode.h - What the process says to its caller ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXITCODE_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXITCODE_H

#include "cost_model/base/Failure.h"

namespace shardwright::tools {

/// Stable: scripts branch on them. Numbers of cost::FailureKind, and Done.
enum class ExitCode {
  Done = 0,
  Bug = 1,         ///< ours
  No = 2,          ///< an honest no: nothing fits, a check failed
  Unsupported = 3, ///< valid, but not handled yet
  Input = 4,       ///< a file is wrong
  Usage = 5,       ///< a flag is wrong
};

constexpr ExitCode exitCode(cost::FailureKind kind) {
  return static_cast<ExitCode>(kind);
}

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_EXITCODE_H
