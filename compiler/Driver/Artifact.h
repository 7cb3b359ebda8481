//===- Artifact.h - Files that are written as a whole -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H
#define SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H

#include "cost_model/base/Failure.h"

#include <string>
#include <string_view>

namespace shardwright {

/// Writes `bytes` to a new file beside `path` and renames it.
bool writeFile(const std::string &path, std::string_view bytes,
               cost::Failure &failure);

/// Whether `path` could be written now: asked before long work. Leaves nothing
/// behind.
bool checkWritable(const std::string &path, cost::Failure &failure);

/// Creates the folder and those above it.
bool makeFolder(const std::string &path, cost::Failure &failure);

/// Links an object file's bytes into the executable `path`, which is replaced
/// at the end or not at all.
bool writeExecutable(const std::string &path, std::string_view object,
                     cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H
