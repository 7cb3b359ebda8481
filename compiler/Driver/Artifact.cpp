//===- Artifact.cpp - Files that are written as a whole -------------------===//
#include "compiler/Driver/Artifact.h"

#include "compiler/Codegen/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace shardwright {

static bool cannotWrite(const std::string &path, const std::string &why,
                        cost::Failure &failure) {
  return cost::refuse(failure, cost::Diag::output_unwritable,
                      path + ": cannot be written: " + why);
}

bool writeFile(const std::string &path, std::string_view bytes,
               cost::Failure &failure) {
  Error error = writeToOutput(path, [&](raw_ostream &stream) {
    stream << bytes;
    return Error::success();
  });
  return !error || cannotWrite(path, toString(std::move(error)), failure);
}

bool checkWritable(const std::string &path, cost::Failure &failure) {
  if (sys::fs::is_directory(path))
    return cannotWrite(
        path, std::make_error_code(std::errc::is_a_directory).message(),
        failure);
  // Pipes and devices are written directly,
  if (path == "-" ||
      (sys::fs::exists(path) && !sys::fs::is_regular_file(path)))
    return true;
  // files are renamed from a new one beside them.
  SmallString<128> probe;
  if (std::error_code error =
          sys::fs::createUniqueFile(path + ".tmp-%%%%%%%%", probe))
    return cannotWrite(path, error.message(), failure);
  sys::fs::remove(probe);
  return true;
}

bool makeFolder(const std::string &path, cost::Failure &failure) {
  std::error_code error = sys::fs::create_directories(path);
  // It takes a file for a folder that is there already.
  if (!error && !sys::fs::is_directory(path))
    error = std::make_error_code(std::errc::not_a_directory);
  return !error || cannotWrite(path, error.message(), failure);
}

bool writeExecutable(const std::string &path, std::string_view object,
                     cost::Failure &failure) {
  std::string runtime;
  if (!codegen::findRuntime(runtime, failure))
    return false;
  SmallString<128> objectPath;
  int descriptor = -1;
  if (std::error_code error = sys::fs::createTemporaryFile(
          "shardwright", "o", descriptor, objectPath))
    return cannotWrite("a temporary object file", error.message(), failure);
  FileRemover removeObject(objectPath);
  {
    raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
    stream.close();
    if (stream.has_error()) {
      const std::string why = stream.error().message();
      stream.clear_error();
      return cannotWrite(objectPath.str().str(), why, failure);
    }
  }
  // Beside the output, so that the rename stays on one file system.
  SmallString<128> linked;
  sys::fs::createUniquePath(path + ".tmp-%%%%%%%%", linked,
                            /*MakeAbsolute=*/false);
  FileRemover removeLinked(linked);
  if (!codegen::linkExecutable(objectPath.str().str(), runtime,
                               linked.str().str(), failure))
    return false;
  if (std::error_code error = sys::fs::rename(linked, path))
    return cannotWrite(path, error.message(), failure);
  removeLinked.releaseFile();
  return true;
}

} // namespace shardwright
