//===- Devices.cpp - Which backend computes for a program -----------------===//
#include "runtime/src/backend/host/HostDevice.h"

namespace shardwright::runtime {

DeviceFactory deviceFactoryFor(const sw_rt_program &program) {
  return [&program](sw_rt_context &context, sw_rt_status &, std::string &)
             -> std::unique_ptr<Device> {
    return std::make_unique<HostDevice>(context, &program);
  };
}

} // namespace shardwright::runtime
