//===- TraceFile.h - A predicted step as a chrome trace ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRACEFILE_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRACEFILE_H

#include "tools/shardwright/Question.h"

#include <string>

namespace shardwright::tools {

/// Beyond this many actions a trace is more than viewers take.
inline constexpr int64_t kMostTracedActions = 1'000'000;

/// Whether a step of `plan` is short enough for --trace `path`.
bool checkTrace(const std::string &path, const cost::Plan &plan,
                cost::Failure &failure);

/// The step of traceStep as chrome://tracing and Perfetto read it, a line an
/// event, in microseconds. A process is one rank of a pipeline stage, named as
/// in the trace of a compiled program; its threads: 0 what it is at, 1 and 2
/// what it sends beside that.
std::string traceText(const Question &question, const cost::Plan &plan);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_TRACEFILE_H
