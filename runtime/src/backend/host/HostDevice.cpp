//===- HostDevice.cpp - The CPU and its memory ----------------------------===//
#include "runtime/src/backend/host/HostDevice.h"
#include "runtime/src/Copy.h"
#include "runtime/src/compute/HostCompute.h"
#include "runtime/src/compute/SumOfSquares.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>

namespace shardwright::runtime {

char *HostDevice::allocate(int64_t bytes, std::string &why) {
  void *memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED)
    return static_cast<char *>(memory);
  why = std::string("the system refused: ") + std::strerror(errno);
  return nullptr;
}

void HostDevice::release(char *memory, int64_t bytes) {
  munmap(memory, static_cast<size_t>(bytes));
}

sw_rt_status HostDevice::fill(void *target, unsigned char value,
                              int64_t bytes) {
  forEachRange(context.pool, bytes, [&](int64_t first, int64_t last) {
    std::memset(static_cast<char *>(target) + first, value,
                static_cast<size_t>(last - first));
  });
  return SW_RT_OK;
}

sw_rt_status HostDevice::toDevice(void *target, const void *source,
                                  int64_t bytes) {
  copyBytes(target, source, bytes);
  return SW_RT_OK;
}

sw_rt_status HostDevice::toHost(void *target, const void *source,
                                int64_t bytes) {
  copyBytes(target, source, bytes);
  return SW_RT_OK;
}

sw_rt_status HostDevice::copyRows(const void *input, int64_t inputStride,
                                  void *output, int64_t outputStride,
                                  int64_t rowBytes, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    std::memmove(static_cast<char *>(output) + row * outputStride,
                 static_cast<const char *>(input) + row * inputStride,
                 static_cast<size_t>(rowBytes));
  return SW_RT_OK;
}

void HostDevice::matmul(const MatmulCall &call) { hostMatmul(context, call); }

void HostDevice::attentionForward(const AttentionCall &call) {
  hostAttentionForward(context, call);
}

void HostDevice::attentionBackward(const AttentionCall &call) {
  hostAttentionBackward(context, call);
}

void HostDevice::embeddingForward(const EmbeddingCall &call, const void *table,
                                  void *output) {
  hostEmbeddingForward(call, table, output);
}

void HostDevice::embeddingBackward(const EmbeddingCall &call,
                                   const void *gradOutput, void *gradTable) {
  hostEmbeddingBackward(context, call, gradOutput, gradTable);
}

sw_rt_status HostDevice::launch(const sw_rt_kernel &kernel, void *const *) {
  return context.fail(SW_RT_UNSUPPORTED,
                      std::string("expected device kernel '") + kernel.name +
                          "' to run on a GPU, but this rank computes on the "
                          "host");
}

sw_rt_status HostDevice::collective(const CollectiveCall &call) {
  switch (call.call) {
  case Call::AllReduce:
    return allReduce(context, *call.group, call.dtype, call.op, call.input,
                     call.output, call.count);
  case Call::AllGather:
    return allGather(context, *call.group, call.dtype, call.input, call.output,
                     call.count);
  case Call::ReduceScatter:
    return reduceScatter(context, *call.group, call.dtype, call.op, call.input,
                         call.output, call.count);
  case Call::AllToAll:
    return allToAll(context, *call.group, call.dtype, call.input, call.output,
                    call.count);
  case Call::Send:
    return send(context, call.peer, call.dtype, call.input, call.count);
  case Call::Recv:
    return receive(context, call.peer, call.dtype, call.output, call.count);
  case Call::Barrier:
    break;
  }
  return barrier(context, *call.group);
}

sw_rt_status HostDevice::sumOfSquares(sw_rt_dtype dtype,
                                      const std::vector<DeviceRange> &ranges,
                                      double &sum) {
  sum = 0;
  auto add = [&](const auto *type) {
    for (const DeviceRange &range : ranges)
      sum += runtime::sumOfSquares(
          context.pool, static_cast<decltype(type)>(range.at), range.count);
    return SW_RT_OK;
  };
  switch (dtype) {
  case SW_RT_F64:
    return add(static_cast<const double *>(nullptr));
  case SW_RT_F32:
    return add(static_cast<const float *>(nullptr));
  case SW_RT_BF16:
    return add(static_cast<const uint16_t *>(nullptr));
  case SW_RT_F16:
  case SW_RT_I32:
    break;
  }
  return context.fail(SW_RT_UNSUPPORTED,
                      std::string("expected squares of f64, f32 or bf16, but "
                                  "got ") +
                          runtime::name(dtype));
}

sw_rt_status HostDevice::update(const UpdateCall &call) {
  auto widthOf = [](int32_t dtype) {
    return byteWidth(static_cast<sw_rt_dtype>(dtype));
  };
  const int64_t masterWidth = widthOf(program->master_dtype),
                gradWidth = widthOf(program->grad_dtype),
                paramWidth = widthOf(program->param_dtype);
  forEachRange(context.pool, call.count, [&](int64_t begin, int64_t end) {
    auto at = [&](void *base, int64_t width) {
      return static_cast<char *>(base) + begin * width;
    };
    program->update(at(call.master, masterWidth), at(call.m, masterWidth),
                    at(call.v, masterWidth),
                    static_cast<const char *>(call.gradient) +
                        begin * gradWidth,
                    at(call.parameter, paramWidth), end - begin, call.scalars);
  });
  return SW_RT_OK;
}

} // namespace shardwright::runtime
