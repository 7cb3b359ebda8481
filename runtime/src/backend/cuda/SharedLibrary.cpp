//===- SharedLibrary.cpp - A library opened at run time -------------------===//
#include "runtime/src/backend/cuda/SharedLibrary.h"

#include <cstdlib>
#include <dlfcn.h>

namespace shardwright::runtime {
namespace {

/// Folders besides the loader's own in which toolkits put their libraries.
std::string besideLoader(const char *name, void *&handle) {
  std::string tried;
  const char *home = std::getenv("CUDA_HOME");
  for (const std::string &folder :
       {home ? std::string(home) + "/lib64" : std::string(),
        std::string("/usr/local/cuda/lib64")}) {
    if (folder.empty())
      continue;
    tried = folder + "/" + name;
    handle = dlopen(tried.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle)
      return tried;
  }
  return {};
}

} // namespace

bool SharedLibrary::open(std::initializer_list<const char *> names,
                         const char *meaning, std::string &why) {
  what = meaning;
  std::string reason;
  for (const char *candidate : names) {
    handle = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      name = candidate;
      return true;
    }
    const char *said = dlerror();
    if (reason.empty())
      reason = said ? said : "unknown reason";
    // The driver belongs to the kernel module and is the loader's business.
    if (std::string(candidate).rfind("libcuda.", 0) != 0)
      name = besideLoader(candidate, handle);
    if (handle)
      return true;
  }
  why = "expected " + what + " (" + *names.begin() +
        ") to load, but got: " + reason;
  return false;
}

void *SharedLibrary::find(const char *symbol, std::string &why) const {
  void *address = dlsym(handle, symbol);
  if (!address)
    why = "expected '" + name + "' to be " + what + " with '" + symbol +
          "', but it lacks it";
  return address;
}

} // namespace shardwright::runtime
