//===- Diagnostics.cpp - Names of the refusals of a program ---------------===//
#include "runtime/src/train/Diagnostics.h"

namespace shardwright::runtime {

ExitCode exitCodeOf(Diag id) {
  switch (id) {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  case Diag::id:                                                               \
    return Exit##kind;
#include "runtime/src/train/Diagnostics.def"
  }
  return ExitBug;
}

namespace {

/// Of a long line both ends, so that people see what was wanted and where; files
/// may say anything, and are quoted.
std::string cut(const std::string &text) {
  constexpr size_t longest = 1000, begin = 750, end = 200;
  if (text.size() <= longest)
    return text;
  return text.substr(0, begin) + " ... (" +
         std::to_string(text.size() - begin - end) + " bytes left out) ... " +
         text.substr(text.size() - end);
}

} // namespace

std::string errorLine(Diag id, const std::string &message) {
  const char *name = "";
  switch (id) {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  case Diag::id:                                                               \
    name = #id;                                                                \
    break;
#include "runtime/src/train/Diagnostics.def"
  }
  return "error: " + cut(message) + " [" + name + "]";
}

Diag diagOf(sw_rt_status status) {
  switch (status) {
  case SW_RT_ABORTED:
  case SW_RT_TIMEOUT:
    return Diag::run_lost_rank;
  case SW_RT_OUT_OF_MEMORY:
    return Diag::run_memory;
  case SW_RT_NOT_FINITE:
    return Diag::run_not_finite;
  case SW_RT_IO:
    return Diag::run_file;
  case SW_RT_UNSUPPORTED:
    return Diag::run_unsupported;
  case SW_RT_OK:
  case SW_RT_INVALID_ARGUMENT:
  case SW_RT_MISMATCH:
    return Diag::run_defect;
  }
  return Diag::run_defect;
}

} // namespace shardwright::runtime
