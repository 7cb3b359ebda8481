//===- Artifact.cpp - Folders and programs that are written ---------------===//
#include "compiler/Driver/Artifact.h"

#include "compiler/Codegen/Link.h"
#include "compiler/Files/OutputFile.h"
#include "cost_model/base/Format.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace shardwright {

bool makeFolder(const std::string &path, cost::Failure &failure) {
  std::error_code error = sys::fs::create_directories(path);
  // It takes a file for a folder that is there already.
  if (!error && !sys::fs::is_directory(path))
    error = std::make_error_code(std::errc::not_a_directory);
  return !error || refuseOutput(path, error.message(), failure);
}

/// Links, and tells a linker for which there was no room (that says so in words
/// of its own, or dies in a mapped file) from one that we gave nonsense.
static bool linkWithRoom(const std::string &object, const std::string &runtime,
                         const std::string &linked, const std::string &path,
                         cost::Failure &failure) {
  cost::Failure linking;
  if (codegen::linkExecutable(object, runtime, linked, linking))
    return true;
  uint64_t objectBytes = 0, runtimeBytes = 0;
  if (linking.messages.front().id == cost::Diag::internal_error &&
      !sys::fs::file_size(object, objectBytes) &&
      !sys::fs::file_size(runtime, runtimeBytes)) {
    // A program has no more than what it is linked of. The linker has files of
    // its own in the folder of `object`, too.
    const auto most = static_cast<int64_t>(objectBytes + runtimeBytes);
    for (const std::string &place : {path, object})
      if (const std::string why = whyNoRoom(place, most); !why.empty())
        return refuseOutput(place,
                            why + " (linking takes up to " +
                                cost::bytesText(cost::Bytes(most)) + " there)",
                            failure);
  }
  failure = linking;
  return false;
}

bool writeExecutable(const std::string &path, std::string_view object,
                     cost::Failure &failure) {
  std::string runtime;
  if (!codegen::findRuntime(runtime, failure))
    return false;
  SmallString<128> objectPath;
  int descriptor = -1;
  if (std::error_code error = sys::fs::createTemporaryFile(
          "shardwright", "o", descriptor, objectPath)) {
    sys::path::system_temp_directory(/*erasedOnReboot=*/true, objectPath);
    return refuseOutput(objectPath.str().str(), error.message(), failure);
  }
  FileRemover removeObject(objectPath);
  {
    raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
    stream.close();
    if (stream.has_error()) {
      const std::string why = stream.error().message();
      stream.clear_error();
      return refuseOutput(objectPath.str().str(), why, failure);
    }
  }
  // Beside the output, so that the rename stays on one file system.
  const std::string target = behindLinks(path);
  SmallString<128> linked;
  sys::fs::createUniquePath(target + ".tmp-%%%%%%%%", linked,
                            /*MakeAbsolute=*/false);
  FileRemover removeLinked(linked);
  if (!linkWithRoom(objectPath.str().str(), runtime, linked.str().str(), path,
                    failure))
    return false;
  if (std::error_code error = sys::fs::rename(linked, target))
    return refuseOutput(path, error.message(), failure);
  removeLinked.releaseFile();
  return true;
}

} // namespace shardwright
