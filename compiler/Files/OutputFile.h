//===- OutputFile.h - Files that the tools write ----------------*- C++ -*-===//
//
// One rule for every output: a file is replaced in one piece, or stays as it
// was, and nothing is left beside it; a link stays, and the file behind it is
// what is replaced; a device or a pipe is written to as it comes, but a pipe
// only if somebody reads it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_FILES_OUTPUTFILE_H
#define SHARDWRIGHT_COMPILER_FILES_OUTPUTFILE_H

#include "cost_model/base/Failure.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwright {

/// What `path` names behind its links, whether that is there or not.
std::string behindLinks(const std::string &path);

/// "PATH: cannot write: WHY", of errno where `why` is empty. Returns false.
bool refuseOutput(const std::string &path, const std::string &why,
                  cost::Failure &failure);

bool writeText(const std::string &path, std::string_view text,
               cost::Failure &failure);

/// Whether `path` could be written now: asked before long work. Leaves nothing
/// behind.
bool checkWritable(const std::string &path, cost::Failure &failure);

/// Why the folder of `path` takes no file of `bytes`: no such folder, no
/// permission, a full disk, a limit. Empty if it does. Leaves nothing behind.
std::string whyNoRoom(const std::string &path, int64_t bytes);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_FILES_OUTPUTFILE_H
