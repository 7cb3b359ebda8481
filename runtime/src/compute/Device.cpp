//===- Device.cpp - Calls that only programs for a device make ------------===//
#include "runtime/src/Context.h"

#include <cstring>

using namespace shardwright::runtime;

extern "C" {

sw_rt_status sw_rt_launch(sw_rt_context *context, const sw_rt_kernel *kernel,
                          void *const *) {
  return context->fail(SW_RT_UNSUPPORTED,
                       std::string("expected device kernel '") + kernel->name +
                           "' to run on a GPU, but this rank computes on the "
                           "host");
}

sw_rt_status sw_rt_copy_rows(sw_rt_context *, const void *input,
                             int64_t input_stride, void *output,
                             int64_t output_stride, int64_t row_bytes,
                             int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    std::memmove(static_cast<char *>(output) + row * output_stride,
                 static_cast<const char *>(input) + row * input_stride,
                 static_cast<size_t>(row_bytes));
  return SW_RT_OK;
}

} // extern "C"
