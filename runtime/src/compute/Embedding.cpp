//===- Embedding.cpp - Rows of a table by id, and their gradient ----------===//
#include "runtime/src/Context.h"
#include "runtime/src/Convert.h"
#include "runtime/src/compute/HostCompute.h"

#include <algorithm>
#include <cstring>
#include <vector>

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

/// As addRows, to a table of bf16: tokens of a row are added to it in f32, in
/// their order, and the sum is rounded once.
void addRowsToBf16(const EmbeddingCall &call, const void *source, void *table) {
  std::vector<int64_t> order; // by row, then by token
  for (int64_t i = 0; i < call.tokens; ++i)
    if (call.ids[i] >= call.firstRow &&
        call.ids[i] < call.firstRow + call.rows)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return call.ids[a] < call.ids[b];
  });
  std::vector<float> sum(static_cast<size_t>(call.width));
  for (auto token = order.begin(); token != order.end();) {
    const int32_t id = call.ids[*token];
    uint16_t *target = static_cast<uint16_t *>(table) +
                       (id - call.firstRow) * call.width;
    std::transform(target, target + call.width, sum.begin(), fromBf16);
    for (; token != order.end() && call.ids[*token] == id; ++token) {
      const uint16_t *from =
          static_cast<const uint16_t *>(source) + *token * call.width;
      for (size_t j = 0; j < sum.size(); ++j)
        sum[j] += fromBf16(from[j]);
    }
    std::transform(sum.begin(), sum.end(), target, toBf16);
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
  else if (call.dtype == SW_RT_BF16 && call.tableDtype == SW_RT_BF16)
    addRowsToBf16(call, gradOutput, gradTable);
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
                 std::string("expected a host embedding gradient in f32, "
                             "f64 or bf16, but got ") +
                     name(call.dtype));
}
