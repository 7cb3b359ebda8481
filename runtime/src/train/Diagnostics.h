//===- Diagnostics.h - Names of the refusals of a program -------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_DIAGNOSTICS_H
#define SHARDWRIGHT_RUNTIME_TRAIN_DIAGNOSTICS_H

#include "runtime/include/shardwright_rt.h"

#include <string>

namespace shardwright::runtime {

/// Exit codes of every program of the project.
enum ExitCode : int {
  ExitOk = 0,
  ExitBug = 1,
  ExitNo = 2, ///< an honest no: a check failed, a rank is gone
  ExitUnsupported = 3,
  ExitInput = 4,
  ExitUsage = 5,
};

/// One for every entry of Diagnostics.def.
enum class Diag {
#define DIAGNOSTIC(id, section, kind, cause, cure) id,
#include "runtime/src/train/Diagnostics.def"
};

ExitCode exitCodeOf(Diag id);
/// "error: MESSAGE [run_flag]"
std::string errorLine(Diag id, const std::string &message);
/// The refusal that a run which ended in `status` is; not of SW_RT_OK.
Diag diagOf(sw_rt_status status);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_DIAGNOSTICS_H
