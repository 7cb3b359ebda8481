//===- Embedding.cpp - Rows of a table by id, and their gradient ----------===//
#include "runtime/src/Context.h"

#include <cstring>

using namespace shardwright::runtime;

namespace {

template <typename T>
void addRows(const int32_t *ids, int64_t tokens, const void *source,
             int64_t firstRow, int64_t rows, int64_t width, void *table) {
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t row = ids[i] - firstRow;
    if (row < 0 || row >= rows)
      continue;
    T *__restrict target = static_cast<T *>(table) + row * width;
    const T *__restrict from = static_cast<const T *>(source) + i * width;
    for (int64_t j = 0; j < width; ++j)
      target[j] += from[j];
  }
}

} // namespace

extern "C" {

void sw_rt_embedding_fwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const int32_t *ids, int64_t tokens, const void *table,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *output) {
  const int64_t start = nowNanoseconds();
  const size_t bytes = static_cast<size_t>(width * byteWidth(dtype));
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t row = ids[i] - first_row;
    char *target = static_cast<char *>(output) + static_cast<size_t>(i) * bytes;
    if (row >= 0 && row < rows)
      std::memcpy(target,
                  static_cast<const char *>(table) +
                      static_cast<size_t>(row) * bytes,
                  bytes);
    else
      std::memset(target, 0, bytes);
  }
  context->trace.add("embedding_fwd", "compute", start);
}

void sw_rt_embedding_bwd(sw_rt_context *context, sw_rt_dtype dtype,
                         sw_rt_dtype table_dtype, const int32_t *ids,
                         int64_t tokens, const void *d_output,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *d_table) {
  const int64_t start = nowNanoseconds();
  if (table_dtype != dtype)
    context->fail(SW_RT_UNSUPPORTED,
                  std::string("expected a host embedding gradient of ") +
                      name(dtype) + " to be added to the same, but got " +
                      name(table_dtype));
  else if (dtype == SW_RT_F32)
    addRows<float>(ids, tokens, d_output, first_row, rows, width, d_table);
  else if (dtype == SW_RT_F64)
    addRows<double>(ids, tokens, d_output, first_row, rows, width, d_table);
  else
    context->fail(SW_RT_UNSUPPORTED,
                  std::string("expected a host embedding gradient in f32 or "
                              "f64, but got ") +
                      name(dtype));
  context->trace.add("embedding_bwd", "compute", start);
}

} // extern "C"
