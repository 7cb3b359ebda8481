//===- Gpu.h - One GPU as a rank uses it: memory, stream, kernels -*- C++ -*-=//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPU_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPU_H

#include "runtime/src/Context.h"
#include "runtime/src/backend/cuda/CudaLibraries.h"

#include <unordered_map>

namespace shardwright::runtime {

/// The device, its primary context, the compute stream, and kernels by name.
/// A failure of a call poisons the context with the call, its meaning and this
/// rank. Used by the rank's thread alone.
class Gpu {
public:
  Gpu(sw_rt_context &context, const CudaDriver &driver)
      : context(context), driver(driver) {}
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  /// Takes the GPU of this rank: the only visible one, or number localRank.
  bool open(sw_rt_status &failure, std::string &why);
  /// Loads the image of `code` that this GPU runs.
  bool loadProgram(const sw_rt_device_code &code, std::string &why);
  /// Loads the runtime's own kernels (Kernels.cu).
  bool loadOwn(std::string &why);

  const std::string &getName() const { return name; }
  CUstream getStream() const { return stream; }
  bool freeMemory(int64_t &free, int64_t &total) const;

  /// Null with `why`.
  char *allocate(int64_t bytes, std::string &why);
  void release(char *memory);
  sw_rt_status fill(void *target, unsigned char value, int64_t bytes);
  /// The source must stay as it is until the stream has come here.
  sw_rt_status toDevice(void *target, const void *source, int64_t bytes);
  sw_rt_status toHost(void *target, const void *source, int64_t bytes);
  sw_rt_status copy(void *target, const void *source, int64_t bytes);
  sw_rt_status copyRows(const void *input, int64_t inputStride, void *output,
                        int64_t outputStride, int64_t rowBytes, int64_t rows);

  /// Launches a kernel whose parameters are at `parameters`.
  sw_rt_status launch(const std::string &entry, int64_t grid, unsigned block,
                      unsigned sharedBytes, void **parameters);
  /// Launches one of our kernels, which take one struct.
  template <typename Parameters>
  sw_rt_status launchOwn(const std::string &entry, int64_t grid, unsigned block,
                         Parameters parameters) {
    void *list[] = {&parameters};
    return grid > 0 ? launch(entry, grid, block, 0, list) : SW_RT_OK;
  }

  /// Memory that calls on the compute stream share: valid until the next call
  /// of scratch(). Grows in the first step only; null on failure.
  char *scratch(int64_t bytes);
  int64_t scratchBytes() const { return scratchSize; }

  /// SW_RT_OK, or the poison that `result` of `call` is.
  sw_rt_status check(CUresult result, const char *call);
  const CudaDriver &getDriver() const { return driver; }

private:
  bool load(const void *image, const char *what, std::string &why);

  sw_rt_context &context;
  const CudaDriver &driver;
  CUdevice device = 0;
  CUcontext primary = nullptr;
  CUstream stream = nullptr;
  std::string name;
  int capability = 0;
  std::vector<CUmodule> modules;
  std::unordered_map<std::string, CUfunction> functions;
  char *scratchMemory = nullptr;
  int64_t scratchSize = 0;
};

/// The runtime's own kernels as PTX text, zero-terminated.
const char *ownKernelsPtx();

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_GPU_H
