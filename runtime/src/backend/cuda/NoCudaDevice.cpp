//===- NoCudaDevice.cpp - For builds without NVIDIA's toolkit -------------===//
#include "runtime/src/backend/cuda/OpenCudaDevice.h"

namespace shardwright::runtime {

std::unique_ptr<Device> openCudaDevice(sw_rt_context &, const sw_rt_program *,
                                       const DeviceOptions &,
                                       sw_rt_status &failure,
                                       std::string &why) {
  failure = SW_RT_UNSUPPORTED;
  why = "expected a runtime that was built with nvcc and the headers of CUDA, "
        "cuBLASLt, cuDNN and NCCL, but this one was built without them";
  return nullptr;
}

void prepareCuda() {}

int gpuCount() { return 0; }

} // namespace shardwright::runtime
