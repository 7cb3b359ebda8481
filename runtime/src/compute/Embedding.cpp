//===- Embedding.cpp - Rows of a table by id, and their gradient ----------===//
#include "runtime/src/Context.h"
#include "runtime/src/Convert.h"
#include "runtime/src/compute/HostCompute.h"

#include <cstring>

using namespace shardwright::runtime;

namespace {

float valueOf(float value) { return value; }
double valueOf(double value) { return value; }
float valueOf(uint16_t bf16) { return fromBf16(bf16); }

/// Gradients of type From are added to a table of T.
template <typename T, typename From = T>
void addRows(const int32_t *ids, int64_t tokens, const void *source,
             int64_t firstRow, int64_t rows, int64_t width, void *table) {
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t row = ids[i] - firstRow;
    if (row < 0 || row >= rows)
      continue;
    T *__restrict target = static_cast<T *>(table) + row * width;
    const From *__restrict from =
        static_cast<const From *>(source) + i * width;
    for (int64_t j = 0; j < width; ++j)
      target[j] += valueOf(from[j]);
  }
}

} // namespace

void shardwright::runtime::hostEmbeddingForward(const EmbeddingCall &call,
                                                const void *table,
                                                void *output) {
  const size_t bytes = static_cast<size_t>(call.width * byteWidth(call.dtype));
  for (int64_t i = 0; i < call.tokens; ++i) {
    const int64_t row = call.ids[i] - call.firstRow;
    char *target = static_cast<char *>(output) + static_cast<size_t>(i) * bytes;
    if (row >= 0 && row < call.rows)
      std::memcpy(target,
                  static_cast<const char *>(table) +
                      static_cast<size_t>(row) * bytes,
                  bytes);
    else
      std::memset(target, 0, bytes);
  }
}

void shardwright::runtime::hostEmbeddingBackward(sw_rt_context &context,
                                                 const EmbeddingCall &call,
                                                 const void *gradOutput,
                                                 void *gradTable) {
  if (call.dtype == SW_RT_BF16 && call.tableDtype == SW_RT_F32)
    addRows<float, uint16_t>(call.ids, call.tokens, gradOutput, call.firstRow,
                             call.rows, call.width, gradTable);
  else if (call.tableDtype != call.dtype)
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a host embedding gradient of ") +
                     name(call.dtype) + " to be added to the same, but got " +
                     name(call.tableDtype));
  else if (call.dtype == SW_RT_F32)
    addRows<float>(call.ids, call.tokens, gradOutput, call.firstRow, call.rows,
                   call.width, gradTable);
  else if (call.dtype == SW_RT_F64)
    addRows<double>(call.ids, call.tokens, gradOutput, call.firstRow, call.rows,
                    call.width, gradTable);
  else
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a host embedding gradient in f32 or "
                             "f64, but got ") +
                     name(call.dtype));
}
