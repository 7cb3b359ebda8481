//===- OpenCudaDevice.cpp - The GPU of a rank, if there is one ------------===//
#include "runtime/src/backend/cuda/OpenCudaDevice.h"
#include "runtime/src/backend/cuda/CudaDevice.h"

#include <cstdlib>

namespace shardwright::runtime {

// Streams that share a queue wait for one another: a call of NCCL that waits for
// a peer could so hold up the one that the peer waits for. 32 is the most; 8 is
// the default. Source: CUDA C++ programming guide, CUDA environment variables.
void prepareCuda() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

std::unique_ptr<Device> openCudaDevice(sw_rt_context &context,
                                       const sw_rt_program *program,
                                       const DeviceOptions &options,
                                       sw_rt_status &failure,
                                       std::string &why) {
  failure = SW_RT_UNSUPPORTED;
  CudaDevice::Libraries libraries{};
  libraries.driver = CudaDriver::load(why);
  if (!libraries.driver)
    return nullptr;
  libraries.blas = CudaBlas::load(why);
  if (!libraries.blas)
    return nullptr;
  libraries.nccl = CudaNccl::load(libraries.whyNoNccl);
  if (!libraries.nccl && context.mesh.ranks() > 1) {
    why = libraries.whyNoNccl;
    return nullptr;
  }
  std::string unused; // without cuDNN attention runs on our own kernels
  libraries.dnn = CudaDnn::load(unused);
  auto device =
      std::make_unique<CudaDevice>(context, libraries, program, options);
  if (!device->open(failure, why))
    return nullptr;
  return device;
}

int gpuCount() {
  std::string unused;
  int count = 0;
  const CudaDriver *driver = CudaDriver::load(unused);
  return driver && driver->cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

} // namespace shardwright::runtime
