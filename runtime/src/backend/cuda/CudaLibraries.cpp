//===- CudaLibraries.cpp - Driver, cuBLASLt, cuDNN, NCCL at run time ------===//
#include "runtime/src/backend/cuda/CudaLibraries.h"
#include "runtime/src/backend/cuda/SharedLibrary.h"

namespace shardwright::runtime {
namespace {

template <typename Library> struct Loaded {
  Library library;
  std::string why; ///< empty: usable
};

std::string dotted(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// The member and the symbol are the name after cuda.h's renaming.
#define SW_CUDA_TEXT(name) #name
#define SW_CUDA_GET(function)                                                  \
  if (!shared.get(library.function, SW_CUDA_TEXT(function), loaded.why))       \
    return loaded;

Loaded<CudaDriver> loadDriver() {
  Loaded<CudaDriver> loaded;
  CudaDriver &library = loaded.library;
  SharedLibrary shared;
  if (!shared.open({"libcuda.so.1"}, "NVIDIA's driver", loaded.why))
    return loaded;
  SW_CUDA_DRIVER_FUNCTIONS(SW_CUDA_GET)
  if (CUresult result = library.cuInit(0); result != CUDA_SUCCESS) {
    loaded.why = "expected NVIDIA's driver to start, but got " +
                 library.text("cuInit", result);
    return loaded;
  }
  if (CUresult result = library.cuDriverGetVersion(&library.version);
      result != CUDA_SUCCESS) {
    loaded.why = "expected NVIDIA's driver to tell its version, but got " +
                 library.text("cuDriverGetVersion", result);
    return loaded;
  }
  if (library.version / 1000 < CUDA_VERSION / 1000)
    loaded.why = "expected a driver for CUDA " +
                 dotted(CUDA_VERSION / 1000, 0) +
                 " or later, with which this runtime was built, but it is for "
                 "CUDA " +
                 dotted(library.version / 1000, library.version % 1000 / 10);
  return loaded;
}

Loaded<CudaBlas> loadBlas() {
  Loaded<CudaBlas> loaded;
  CudaBlas &library = loaded.library;
  SharedLibrary shared;
  // The functions that are used have the same form in both major versions.
  if (!shared.open({"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLASLt",
                   loaded.why))
    return loaded;
  SW_CUDA_BLAS_FUNCTIONS(SW_CUDA_GET)
  library.version = library.cublasLtGetVersion();
  if (library.version < 120000)
    loaded.why = "expected cuBLASLt 12 or later, but '" + shared.getName() +
                 "' is version " + std::to_string(library.version);
  return loaded;
}

Loaded<CudaDnn> loadDnn() {
  Loaded<CudaDnn> loaded;
  CudaDnn &library = loaded.library;
  SharedLibrary shared;
  if (!shared.open({"libcudnn.so.9"}, "cuDNN 9", loaded.why))
    return loaded;
  SW_CUDA_DNN_FUNCTIONS(SW_CUDA_GET)
  library.version = library.cudnnGetVersion();
  if (library.version < 90000 || library.version >= 100000)
    loaded.why = "expected cuDNN 9, but '" + shared.getName() +
                 "' is version " + std::to_string(library.version);
  return loaded;
}

Loaded<CudaNccl> loadNccl() {
  Loaded<CudaNccl> loaded;
  CudaNccl &library = loaded.library;
  SharedLibrary shared;
  if (!shared.open({"libnccl.so.2"}, "NCCL 2", loaded.why))
    return loaded;
  SW_CUDA_NCCL_FUNCTIONS(SW_CUDA_GET)
  // 2.18 is the first whose communicators can be non-blocking and aborted while
  // they are made.
  if (library.ncclGetVersion(&library.version) != ncclSuccess ||
      library.version < NCCL_VERSION(2, 18, 0))
    loaded.why = "expected NCCL 2.18 or later, but '" + shared.getName() +
                 "' is version " + std::to_string(library.version);
  return loaded;
}

#undef SW_CUDA_GET
#undef SW_CUDA_TEXT

template <typename Library>
const Library *usable(const Loaded<Library> &loaded, std::string &why) {
  why = loaded.why;
  return loaded.why.empty() ? &loaded.library : nullptr;
}

} // namespace

const CudaDriver *CudaDriver::load(std::string &why) {
  static const Loaded<CudaDriver> loaded = loadDriver();
  return usable(loaded, why);
}

const CudaBlas *CudaBlas::load(std::string &why) {
  static const Loaded<CudaBlas> loaded = loadBlas();
  return usable(loaded, why);
}

const CudaDnn *CudaDnn::load(std::string &why) {
  static const Loaded<CudaDnn> loaded = loadDnn();
  return usable(loaded, why);
}

const CudaNccl *CudaNccl::load(std::string &why) {
  static const Loaded<CudaNccl> loaded = loadNccl();
  return usable(loaded, why);
}

std::string CudaDriver::text(const char *call, CUresult result) const {
  const char *name = nullptr, *meaning = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "unknown error";
  if (cuGetErrorString(result, &meaning) != CUDA_SUCCESS || !meaning)
    meaning = "no description";
  return std::string(call) + ": " + name + " (" + meaning + ")";
}

} // namespace shardwright::runtime
