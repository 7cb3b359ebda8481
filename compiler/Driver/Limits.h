//===- Limits.h - Ends of memory and of files -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_DRIVER_LIMITS_H
#define SHARDWRIGHT_COMPILER_DRIVER_LIMITS_H

namespace shardwright {

/// From here on this process, the tool `tool`, ends with one message and an exit
/// code of the catalogue where memory ends (`out_of_memory`), whoever asked for
/// it, and learns from a failed write, not from a signal, where `ulimit -f` does.
/// Behind llvm::InitLLVM, which has handlers of its own.
void heedLimits(const char *tool);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_DRIVER_LIMITS_H
