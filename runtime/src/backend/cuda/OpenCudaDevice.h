//===- OpenCudaDevice.h - The GPU of a rank, if there is one ----*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_OPENCUDADEVICE_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_OPENCUDADEVICE_H

#include "runtime/src/Context.h"

namespace shardwright::runtime {

/// Sets what the driver reads from the environment when it starts, unless the user
/// has. Before any thread is made.
void prepareCuda();

/// Opens NVIDIA's libraries and this rank's GPU. Null with `why`, one line that
/// says what is missing, and `failure`. `program` may be null: no kernels then.
std::unique_ptr<Device> openCudaDevice(sw_rt_context &context,
                                       const sw_rt_program *program,
                                       const DeviceOptions &options,
                                       sw_rt_status &failure, std::string &why);

/// GPUs that this process sees; 0 without a driver.
int gpuCount();

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_OPENCUDADEVICE_H
