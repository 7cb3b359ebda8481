//===- Calls.cpp - Compute of generated code: booked, traced, handed on ---===//
#include "runtime/src/Context.h"
#include "runtime/src/compute/Attention.h"

#include <algorithm>

using namespace shardwright::runtime;

extern "C" {

void sw_rt_matmul(sw_rt_context *context, sw_rt_dtype dtype,
                  sw_rt_dtype c_dtype, int32_t transpose_a, int32_t transpose_b,
                  int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                  void *c, int32_t accumulate) {
  if (std::max({m, n, k}) > INT32_MAX) {
    context->fail(SW_RT_UNSUPPORTED,
                  "expected extents of a matmul to be below 2^31, but got " +
                      std::to_string(std::max({m, n, k})));
    return;
  }
  const int64_t start = nowNanoseconds();
  context->device->matmul({dtype, c_dtype, transpose_a != 0, transpose_b != 0,
                           m, n, k, a, b, c, accumulate != 0});
  context->ledger.flops[context->phase] += 2 * m * n * k;
  if (context->trace.isEnabled())
    context->trace.add("matmul", "compute", start,
                       "{\"m\": " + std::to_string(m) +
                           ", \"n\": " + std::to_string(n) +
                           ", \"k\": " + std::to_string(k) + "}");
}

void sw_rt_attention_fwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const sw_rt_attention_shape *shape, const void *q,
                         const void *k, const void *v, void *o, void *lse) {
  const int64_t start = nowNanoseconds();
  context->device->attentionForward({dtype, *shape, q, k, v, o, lse});
  const AttentionTiling tiling(*shape);
  context->ledger.flops[context->phase] +=
      4 * tiling.heads() * shape->g * shape->d * tiling.pairs();
  context->trace.add("attention_fwd", "compute", start);
}

void sw_rt_attention_bwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const sw_rt_attention_shape *shape, const void *d_o,
                         const void *q, const void *k, const void *v,
                         const void *o, const void *lse, void *dq, void *dk,
                         void *dv) {
  const int64_t start = nowNanoseconds();
  context->device->attentionBackward(
      {dtype, *shape, q, k, v, const_cast<void *>(o), const_cast<void *>(lse),
       d_o, dq, dk, dv});
  const AttentionTiling tiling(*shape);
  context->ledger.flops[context->phase] +=
      10 * tiling.heads() * shape->g * shape->d * tiling.pairs();
  context->trace.add("attention_bwd", "compute", start);
}

void sw_rt_embedding_fwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const int32_t *ids, int64_t tokens, const void *table,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *output) {
  const int64_t start = nowNanoseconds();
  context->device->embeddingForward(
      {dtype, dtype, ids, tokens, first_row, rows, width}, table, output);
  context->trace.add("embedding_fwd", "compute", start);
}

void sw_rt_embedding_bwd(sw_rt_context *context, sw_rt_dtype dtype,
                         sw_rt_dtype table_dtype, const int32_t *ids,
                         int64_t tokens, const void *d_output,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *d_table) {
  const int64_t start = nowNanoseconds();
  context->device->embeddingBackward(
      {dtype, table_dtype, ids, tokens, first_row, rows, width}, d_output,
      d_table);
  context->trace.add("embedding_bwd", "compute", start);
}

sw_rt_status sw_rt_launch(sw_rt_context *context, const sw_rt_kernel *kernel,
                          void *const *arguments) {
  if (context->status != SW_RT_OK)
    return SW_RT_ABORTED;
  const int64_t start = nowNanoseconds();
  const sw_rt_status status = context->device->launch(*kernel, arguments);
  context->trace.add(kernel->name, "compute", start);
  return status;
}

sw_rt_status sw_rt_copy_rows(sw_rt_context *context, const void *input,
                             int64_t input_stride, void *output,
                             int64_t output_stride, int64_t row_bytes,
                             int64_t rows) {
  return context->device->copyRows(input, input_stride, output, output_stride,
                                   row_bytes, rows);
}

sw_rt_status sw_rt_all_reduce(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, sw_rt_op op, const void *input,
                              void *output, int64_t count) {
  return context->device->collective({Call::AllReduce, &context->group(axes),
                                      -1, dtype, op, input, output, count});
}

sw_rt_status sw_rt_all_gather(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, const void *input,
                              void *output, int64_t count) {
  return context->device->collective({Call::AllGather, &context->group(axes),
                                      -1, dtype, SW_RT_SUM, input, output,
                                      count});
}

sw_rt_status sw_rt_reduce_scatter(sw_rt_context *context, uint32_t axes,
                                  sw_rt_dtype dtype, sw_rt_op op,
                                  const void *input, void *output,
                                  int64_t count) {
  return context->device->collective({Call::ReduceScatter,
                                      &context->group(axes), -1, dtype, op,
                                      input, output, count});
}

sw_rt_status sw_rt_all_to_all(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, const void *input,
                              void *output, int64_t count) {
  return context->device->collective({Call::AllToAll, &context->group(axes), -1,
                                      dtype, SW_RT_SUM, input, output, count});
}

sw_rt_status sw_rt_send(sw_rt_context *context, int32_t peer, sw_rt_dtype dtype,
                        const void *buffer, int64_t count) {
  return context->device->collective(
      {Call::Send, nullptr, peer, dtype, SW_RT_SUM, buffer, nullptr, count});
}

sw_rt_status sw_rt_recv(sw_rt_context *context, int32_t peer, sw_rt_dtype dtype,
                        void *buffer, int64_t count) {
  return context->device->collective(
      {Call::Recv, nullptr, peer, dtype, SW_RT_SUM, nullptr, buffer, count});
}

sw_rt_status sw_rt_barrier(sw_rt_context *context) {
  return barrier(*context, context->group(context->mesh.all()));
}

} // extern "C"
