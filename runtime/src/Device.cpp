//===- Device.cpp - Memory of a device as the CPU sees it -----------------===//
#include "runtime/src/Device.h"

namespace shardwright::runtime {

DeviceMemory::~DeviceMemory() {
  if (memory)
    device->release(memory, bytes);
}

bool DeviceMemory::create(Device &owner, int64_t size, std::string &why) {
  device = &owner;
  bytes = size;
  memory = device->allocate(bytes, why);
  return memory != nullptr;
}

Mirror::Mirror(Device &device, void *memory, int64_t bytes, bool read)
    : device(device), memory(static_cast<char *>(memory)), bytes(bytes) {
  if (device.isHost())
    return;
  copy.resize(static_cast<size_t>(bytes));
  if (read)
    status = device.toHost(copy.data(), memory, bytes);
}

sw_rt_status Mirror::write() {
  return device.isHost() ? SW_RT_OK
                         : device.toDevice(memory, copy.data(), bytes);
}

} // namespace shardwright::runtime
