//===- Link.cpp - Object file and runtime to an executable ----------------===//
#include "compiler/Codegen/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <optional>

using namespace llvm;

namespace shardwright::codegen {

static constexpr const char *kRuntimeName = "libshardwright_rt.a";

/// `folder` as seen from the folder of the running tool, with the runtime's name.
static std::string besideTool(StringRef folder) {
  SmallString<256> path(sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&findRuntime)));
  sys::path::remove_filename(path);
  sys::path::append(path, folder, kRuntimeName);
  sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

bool findRuntime(std::string &path, cost::Failure &failure) {
  // Never an absolute path: an installed tree may be moved.
  const std::string built = besideTool("../lib");
  const std::string installed = besideTool(SHARDWRIGHT_LIBRARIES);
  for (const std::string &candidate : {installed, built})
    if (sys::fs::exists(candidate)) {
      path = candidate;
      return true;
    }
  cost::refuse(failure, cost::Diag::no_runtime,
               "expected the runtime '" + installed + "'" +
                   (built == installed ? "" : " or '" + built + "'") +
                   ", but it does not exist: build or install shardwright_rt");
  return false;
}

/// A C++ compiler to link with: the runtime is C++ inside. Sanitizers of one
/// compiler do not link with another's, so there PATH only says whether any is
/// wanted.
static std::string findLinker() {
  for (const char *name : {"c++", "g++", "clang++"})
    if (ErrorOr<std::string> found = sys::findProgramByName(name))
#ifdef SHARDWRIGHT_LINKER
      return SHARDWRIGHT_LINKER;
#else
      return *found;
#endif
  return "";
}

static bool linksWithLld() {
  return static_cast<bool>(sys::findProgramByName("ld.lld"));
}

static std::string readAll(StringRef path) {
  auto file = MemoryBuffer::getFile(path, /*IsText=*/true);
  return file ? (*file)->getBuffer().rtrim().str() : "";
}

bool linkExecutable(const std::string &object, const std::string &runtime,
                    const std::string &output, cost::Failure &failure) {
  const std::string compiler = findLinker();
  if (compiler.empty()) {
    cost::refuse(failure, cost::Diag::no_linker,
                 "expected one of c++, g++ and clang++ in PATH to link with, "
                 "but got none");
    return false;
  }
  SmallVector<StringRef> arguments = {compiler, "-o", output, object, runtime};
  // One thread links as fast what is so small, and no limit of memory or threads
  // that we run under stops it.
  if (linksWithLld())
    arguments.append({"-fuse-ld=lld", "-Wl,--threads=1"});
  // libmvec holds the vector variants of exp, log, sin, cos and erf.
  for (StringRef library : {"-lopenblas", "-lmvec", "-lm", "-ldl", "-pthread"})
    arguments.push_back(library);
#ifdef SHARDWRIGHT_SANITIZE
  arguments.push_back("-fsanitize=" SHARDWRIGHT_SANITIZE);
#endif

  SmallString<128> log;
  if (std::error_code error =
          sys::fs::createTemporaryFile("shardwright-link", "log", log)) {
    sys::path::system_temp_directory(/*erasedOnReboot=*/true, log);
    return cost::refuse(failure, cost::Diag::output_unwritable,
                        log.str().str() + ": cannot write: " + error.message());
  }
  const std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log),
                                                StringRef(log)};
  std::string error;
  const int code =
      sys::ExecuteAndWait(compiler, arguments, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &error);
  std::string said = readAll(log);
  sys::fs::remove(log);
  if (code == 0)
    return true;
  cost::refuse(failure, cost::Diag::internal_error,
               "linking '" + output + "' with '" + compiler +
                   "' failed: " + (error.empty() ? said : error));
  return false;
}

} // namespace shardwright::codegen
