//===- Gpu.cpp - One GPU as a rank uses it --------------------------------===//
#include "runtime/src/backend/cuda/Gpu.h"

#include <algorithm>

namespace shardwright::runtime {
namespace {

CUdeviceptr pointer(const void *memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}
size_t size(int64_t bytes) { return static_cast<size_t>(bytes); }

std::string dotted(int capability) {
  return std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

} // namespace

Gpu::~Gpu() {
  if (!primary)
    return;
  driver.cuCtxSetCurrent(primary);
  for (CUmodule module : modules)
    driver.cuModuleUnload(module);
  if (scratchMemory)
    driver.cuMemFree(pointer(scratchMemory));
  if (stream)
    driver.cuStreamDestroy(stream);
  driver.cuDevicePrimaryCtxRelease(device);
}

bool Gpu::open(sw_rt_status &failure, std::string &why) {
  failure = SW_RT_UNSUPPORTED;
  int count = 0;
  if (CUresult result = driver.cuDeviceGetCount(&count);
      result != CUDA_SUCCESS || count == 0) {
    why = "expected at least one GPU, but got " +
          (result == CUDA_SUCCESS ? std::string("none")
                                  : driver.text("cuDeviceGetCount", result));
    return false;
  }
  // A launcher may show each process one GPU only: its own.
  const int ordinal = count == 1 ? 0 : context.localRank;
  if (ordinal >= count) {
    why = "expected a GPU for each rank of this host, but rank " +
          std::to_string(context.rank()) + " is number " +
          std::to_string(ordinal) + " here and there are " +
          std::to_string(count);
    return false;
  }
  auto want = [&](CUresult result, const char *call) {
    if (result == CUDA_SUCCESS)
      return true;
    why = "expected GPU " + std::to_string(ordinal) +
          " to be usable, but got " + driver.text(call, result);
    return false;
  };
  char text[128] = {};
  int major = 0, minor = 0;
  if (!want(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet") ||
      !want(driver.cuDeviceGetName(text, sizeof(text) - 1, device),
            "cuDeviceGetName") ||
      !want(driver.cuDeviceGetAttribute(
                &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            "cuDeviceGetAttribute") ||
      !want(driver.cuDeviceGetAttribute(
                &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
            "cuDeviceGetAttribute") ||
      !want(driver.cuDevicePrimaryCtxRetain(&primary, device),
            "cuDevicePrimaryCtxRetain") ||
      !want(driver.cuCtxSetCurrent(primary), "cuCtxSetCurrent") ||
      !want(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
            "cuStreamCreate"))
    return false;
  name = text;
  capability = 10 * major + minor;
  return true;
}

bool Gpu::loadProgram(const sw_rt_device_code &code, std::string &why) {
  const sw_rt_image *best = nullptr;
  std::string built;
  for (int32_t i = 0; i < code.num_images; ++i) {
    const sw_rt_image &image = code.images[i];
    const bool isCubin = image.kind == SW_RT_IMAGE_CUBIN;
    built += (built.empty() ? "" : ", ") + dotted(image.capability) +
             (isCubin ? "" : " or later");
    if (isCubin ? image.capability != capability
                : image.capability > capability)
      continue;
    if (!best || isCubin ||
        (best->kind == SW_RT_IMAGE_PTX && image.capability > best->capability))
      best = &image;
  }
  if (!best) {
    why = "expected a GPU of compute capability " +
          (built.empty() ? "that the program has code for" : built) +
          ", for which this program was built, but got '" + name + "' with " +
          dotted(capability);
    return false;
  }
  return load(best->data, "the program's device code", why);
}

bool Gpu::loadOwn(std::string &why) {
  constexpr int least = 80; // -arch of Kernels.cu
  if (capability < least) {
    why = "expected a GPU of compute capability " + dotted(least) +
          " or later, but got '" + name + "' with " + dotted(capability);
    return false;
  }
  return load(ownKernelsPtx(), "the runtime's kernels", why);
}

bool Gpu::load(const void *image, const char *what, std::string &why) {
  char log[1024] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  CUmodule module = nullptr;
  const CUresult result =
      driver.cuModuleLoadDataEx(&module, image, 2, options, values);
  if (result == CUDA_SUCCESS) {
    modules.push_back(module);
    return true;
  }
  std::string said(log);
  std::replace(said.begin(), said.end(), '\n', ' ');
  why = std::string("expected ") + what + " to load on '" + name +
        "', but got " + driver.text("cuModuleLoadDataEx", result) +
        (said.empty() ? "" : ": " + said);
  return false;
}

bool Gpu::freeMemory(int64_t &free, int64_t &total) const {
  size_t freeBytes = 0, totalBytes = 0;
  if (driver.cuMemGetInfo(&freeBytes, &totalBytes) != CUDA_SUCCESS)
    return false;
  free = static_cast<int64_t>(freeBytes);
  total = static_cast<int64_t>(totalBytes);
  return true;
}

char *Gpu::allocate(int64_t bytes, std::string &why) {
  CUdeviceptr memory = 0;
  // An allocation of nothing is an error to the driver.
  const CUresult result =
      driver.cuMemAlloc(&memory, size(std::max<int64_t>(bytes, 1)));
  if (result == CUDA_SUCCESS)
    return reinterpret_cast<char *>(memory);
  int64_t free = 0, total = 0;
  why = "'" + name + "' refused: " + driver.text("cuMemAlloc", result);
  if (freeMemory(free, total))
    why += ", with " + std::to_string(free) + " of " + std::to_string(total) +
           " bytes free";
  return nullptr;
}

void Gpu::release(char *memory) { driver.cuMemFree(pointer(memory)); }

sw_rt_status Gpu::check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return SW_RT_OK;
  // The driver reports a fault of a kernel at whatever call comes next.
  return context.fail(SW_RT_INVALID_ARGUMENT,
                      "expected '" + name + "' of rank " +
                          std::to_string(context.rank()) +
                          " to work, but got " + driver.text(call, result) +
                          ", from this call or one before it");
}

sw_rt_status Gpu::fill(void *target, unsigned char value, int64_t bytes) {
  return bytes == 0 ? SW_RT_OK
                    : check(driver.cuMemsetD8Async(pointer(target), value,
                                                   size(bytes), stream),
                            "cuMemsetD8Async");
}

sw_rt_status Gpu::toDevice(void *target, const void *source, int64_t bytes) {
  return bytes == 0 ? SW_RT_OK
                    : check(driver.cuMemcpyHtoDAsync(pointer(target), source,
                                                     size(bytes), stream),
                            "cuMemcpyHtoDAsync");
}

// To pageable memory it returns when the copy is done.
sw_rt_status Gpu::toHost(void *target, const void *source, int64_t bytes) {
  return bytes == 0 ? SW_RT_OK
                    : check(driver.cuMemcpyDtoHAsync(target, pointer(source),
                                                     size(bytes), stream),
                            "cuMemcpyDtoHAsync");
}

sw_rt_status Gpu::copy(void *target, const void *source, int64_t bytes) {
  return bytes == 0 || target == source
             ? SW_RT_OK
             : check(driver.cuMemcpyDtoDAsync(pointer(target), pointer(source),
                                              size(bytes), stream),
                     "cuMemcpyDtoDAsync");
}

sw_rt_status Gpu::copyRows(const void *input, int64_t inputStride, void *output,
                           int64_t outputStride, int64_t rowBytes,
                           int64_t rows) {
  if (rowBytes == 0 || rows == 0 ||
      (input == output && inputStride == outputStride))
    return SW_RT_OK;
  // Pitches are limited, lengths are not.
  if (rows == 1 || (inputStride == rowBytes && outputStride == rowBytes))
    return copy(output, input, rows * rowBytes);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = pointer(input);
  copy.srcPitch = size(inputStride);
  copy.dstDevice = pointer(output);
  copy.dstPitch = size(outputStride);
  copy.WidthInBytes = size(rowBytes);
  copy.Height = size(rows);
  return check(driver.cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
}

sw_rt_status Gpu::launch(const std::string &entry, int64_t grid, unsigned block,
                         unsigned sharedBytes, void **parameters) {
  if (context.status != SW_RT_OK)
    return SW_RT_ABORTED;
  CUfunction &function = functions[entry];
  for (size_t i = 0; !function && i < modules.size(); ++i)
    if (driver.cuModuleGetFunction(&function, modules[i], entry.c_str()) !=
        CUDA_SUCCESS)
      function = nullptr;
  if (!function)
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected the device code to have a kernel '" + entry +
                            "', but it has none");
  if (grid < 1 || grid > INT32_MAX || block < 1 || block > 1024)
    return context.fail(SW_RT_UNSUPPORTED,
                        "expected kernel '" + entry +
                            "' to have 1 to 2^31 - 1 blocks of 1 to 1024 "
                            "threads, but got " +
                            std::to_string(grid) + " of " +
                            std::to_string(block));
  return check(driver.cuLaunchKernel(function, static_cast<unsigned>(grid), 1,
                                     1, block, 1, 1, sharedBytes, stream,
                                     parameters, nullptr),
               "cuLaunchKernel");
}

char *Gpu::scratch(int64_t bytes) {
  if (bytes <= scratchSize)
    return scratchMemory;
  // Work in flight may use the old memory: freeing it waits for the device.
  if (scratchMemory)
    release(scratchMemory);
  scratchMemory = nullptr;
  scratchSize = 0;
  std::string why;
  scratchMemory = allocate(bytes, why);
  if (scratchMemory)
    scratchSize = bytes;
  else
    context.fail(SW_RT_OUT_OF_MEMORY, "expected " + std::to_string(bytes) +
                                          " bytes of scratch memory on rank " +
                                          std::to_string(context.rank()) +
                                          ", but " + why);
  return scratchMemory;
}

} // namespace shardwright::runtime
