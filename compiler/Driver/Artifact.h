//===- Artifact.h - Folders and programs that are written -------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H
#define SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H

#include "cost_model/base/Failure.h"

#include <string>
#include <string_view>

namespace shardwright {

/// Creates the folder and those above it.
bool makeFolder(const std::string &path, cost::Failure &failure);

/// Links an object file's bytes into the executable `path`: a file, or a link to
/// one, which is replaced at the end or not at all.
bool writeExecutable(const std::string &path, std::string_view object,
                     cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_DRIVER_ARTIFACT_H
