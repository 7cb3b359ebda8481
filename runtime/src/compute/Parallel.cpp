//===- Parallel.cpp - Generated kernels on the threads of a rank ----------===//
#include "runtime/src/Context.h"

#include <algorithm>

extern "C" void sw_rt_parallel(sw_rt_context *context, sw_rt_range range,
                               void *const *arguments, int64_t extent,
                               int64_t grain) {
  context->pool.run((extent + grain - 1) / grain, [&](int64_t index, int) {
    const int64_t first = index * grain;
    range(arguments, first, std::min(extent, first + grain));
  });
}
