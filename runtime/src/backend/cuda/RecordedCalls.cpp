//===- RecordedCalls.cpp - How far a replayed step has come ---------------===//
#include "runtime/src/backend/cuda/RecordedCalls.h"

namespace shardwright::runtime {
namespace {

/// Later calls of a step are not marked.
constexpr size_t mostMarked = 65536;

} // namespace

RecordedCalls::~RecordedCalls() {
  if (marks)
    gpu.getDriver().cuMemFreeHost(const_cast<unsigned char *>(marks));
}

void RecordedCalls::prepare() {
  const CudaDriver &driver = gpu.getDriver();
  void *memory = nullptr;
  if (marks || driver.cuMemHostAlloc(&memory, mostMarked,
                                     CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
    return;
  if (driver.cuMemHostGetDevicePointer(&marksOnDevice, memory, 0) !=
      CUDA_SUCCESS) {
    driver.cuMemFreeHost(memory);
    return;
  }
  marks = static_cast<unsigned char *>(memory);
}

sw_rt_status RecordedCalls::add(const void *channel, const std::string &what,
                                CUstream stream) {
  if (!marks || calls.size() == mostMarked)
    return SW_RT_OK;
  calls.push_back({channel, what + " in the recorded step"});
  return gpu.check(gpu.getDriver().cuMemsetD8Async(
                       marksOnDevice + (calls.size() - 1), 1, 1, stream),
                   "cuMemsetD8Async");
}

void RecordedCalls::restart() {
  for (size_t i = 0; i < calls.size(); ++i)
    marks[i] = 0;
}

std::string RecordedCalls::unfinished(const void *channel) const {
  for (size_t i = 0; i < calls.size(); ++i)
    if (!marks[i] && (!channel || calls[i].channel == channel))
      return calls[i].what;
  return {};
}

} // namespace shardwright::runtime
