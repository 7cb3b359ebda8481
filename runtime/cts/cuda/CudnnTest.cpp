//===- CudnnTest.cpp - cuDNN has engines for our attention graphs ---------===//
//
// cuDNN chooses engines for a GPU that it is told of, so this needs the library
// and no GPU: it shows that the graphs are of the form in which cuDNN
// recognizes flash attention. Nothing is run.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/backend/cuda/CudnnAttention.h"

#include <catch2/catch.hpp>

#include <cmath>

#include <dlfcn.h>

using namespace shardwright::runtime;

namespace {

struct Device {
  const char *name;
  int version, processors, sharedOptin, sharedMemory;
};
// Compute capability times 100, multiprocessors, shared memory that a block may
// opt into and that a multiprocessor has, in bytes. Sources: NVIDIA's A100 and
// H100 architecture whitepapers; CUDA C++ programming guide, technical
// specifications per compute capability.
const Device devices[] = {{"NVIDIA A100-SXM4-80GB", 800, 108, 166912, 167936},
                          {"NVIDIA H100 80GB HBM3", 900, 132, 232448, 233472}};

std::string propertiesOf(const Device &device) {
  auto field = [](const char *name, int64_t value) {
    return std::string(",\"") + name + "\":" + std::to_string(value);
  };
  return std::string("{\"deviceName\":\"") + device.name + "\"" +
         field("cudaDeviceId", 0) + field("deviceVer", device.version) +
         field("driverVer", 13000) +
         field("multiProcessorCount", device.processors) +
         field("regsPerBlock", 65536) + field("smClockRateKHz", 1980000) +
         field("memClockRateKHz", 2619000) + field("l2CacheSize", 50 << 20) +
         field("warpSize", 32) + field("maxSharedMemoryPerBlock", 49152) +
         field("maxSharedMemoryPerBlockOptin", device.sharedOptin) +
         field("reservedSharedMemoryPerBlock", 1024) +
         field("maxSharedMemoryPerSM", device.sharedMemory) +
         field("maxRegistersPerSM", 65536) + field("pciDeviceId", 0) +
         field("maxCtasPerSM", 32) + field("maxThreadsPerBlock", 1024) +
         field("maxThreadsPerSM", 2048) + field("isTccDriver", 0) +
         field("supportCoopLaunch", 1) +
         field("totalGlobalMem", int64_t(80) << 30) +
         ",\"maxGridSize\":[2147483647,65535,65535],"
         "\"maxBlockSize\":[1024,1024,64]}";
}

sw_rt_attention_shape shapeOf(int64_t s, int64_t b, int64_t n, int64_t g,
                              int64_t d, int64_t window, int32_t causal) {
  sw_rt_attention_shape shape{};
  shape.s = shape.t = s;
  shape.b = b;
  shape.n = n;
  shape.g = g;
  shape.d = d;
  shape.scale = 1 / std::sqrt(double(d));
  shape.causal = causal;
  shape.window = window;
  return shape;
}

} // namespace

TEST_CASE("cuDNN has engines for attention of usual shapes") {
  std::string why;
  const CudaDnn *library = CudaDnn::load(why);
  if (!library || library->version < 90800) {
    WARN("not tested, cuDNN 9.8 or later is not here: " << why);
    return;
  }
  // Its engines want the driver's library there, were it the toolkit's stub.
  if (!dlopen("libcuda.so.1", RTLD_NOW)) {
    WARN("not tested, there is no libcuda.so.1");
    return;
  }
  for (const Device &device : devices) {
    INFO(device.name);
    cudnnBackendDescriptor_t properties = nullptr;
    REQUIRE(library->cudnnBackendCreateDescriptor(
                CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties) ==
            CUDNN_STATUS_SUCCESS);
    const std::string text = propertiesOf(device);
    REQUIRE(library->cudnnBackendSetAttribute(
                properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()),
                text.data()) == CUDNN_STATUS_SUCCESS);
    REQUIRE(library->cudnnBackendFinalize(properties) == CUDNN_STATUS_SUCCESS);
    const CudnnTarget target{library, nullptr, properties};
    for (const sw_rt_attention_shape &shape :
         {shapeOf(4096, 1, 8, 4, 128, 0, 1), shapeOf(2048, 2, 16, 1, 64, 0, 1),
          shapeOf(1024, 4, 12, 1, 64, 0, 0),
          shapeOf(4096, 1, 8, 4, 128, 1024, 1)}) {
      INFO("s " << shape.s << " n " << shape.n << " g " << shape.g << " d "
                << shape.d << " window " << shape.window << " causal "
                << shape.causal);
      for (bool isBackward : {false, true}) {
        const int64_t engines =
            CudnnAttention::enginesFor(target, shape, isBackward, why);
        INFO((isBackward ? "backward: " : "forward: ") << why);
        CHECK(engines > 0);
      }
    }
    // Heads that no kernel takes: a test that cannot say no would say nothing.
    const sw_rt_attention_shape odd = shapeOf(1024, 1, 4, 1, 2048, 0, 1);
    CHECK(CudnnAttention::enginesFor(target, odd, true, why) == 0);
    library->cudnnBackendDestroyDescriptor(properties);
  }
}
