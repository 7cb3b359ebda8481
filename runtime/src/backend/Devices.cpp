//===- Devices.cpp - Which backend computes for a program -----------------===//
#include "runtime/src/backend/cuda/MemoryBesideArena.h"
#include "runtime/src/backend/cuda/OpenCudaDevice.h"
#include "runtime/src/backend/host/HostDevice.h"

namespace shardwright::runtime {

DeviceFactory deviceFactoryFor(const sw_rt_program &program,
                               const DeviceOptions &options) {
  if (program.device_code)
    prepareCuda();
  return [&program, options](sw_rt_context &context, sw_rt_status &failure,
                             std::string &why) -> std::unique_ptr<Device> {
    if (program.device_code)
      return openCudaDevice(context, &program, options, failure, why);
    return std::make_unique<HostDevice>(context, &program);
  };
}

std::vector<MemoryTerm> memoryOfDevice(const Stage &stage) {
  return stage.program.device_code ? memoryBesideArena(stage)
                                   : std::vector<MemoryTerm>();
}

} // namespace shardwright::runtime
