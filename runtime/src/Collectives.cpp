//===- Collectives.cpp - Rank-ordered collectives over a transport --------===//
//
// Direct exchange: member j gets part j of every member, adds the parts in the
// order of the members, and hands the sum to all. Each byte crosses a link
// once per direction, as in a ring, in two steps instead of 2(n-1); and the
// order of additions depends on nothing but the group.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/Combine.h"
#include "runtime/src/Copy.h"
#include "runtime/src/Exchange.h"

#include <algorithm>
#include <cstring>

using namespace shardwright::runtime;

namespace {

/// Elements [first, last) of the part that belongs to member `index`.
struct Part {
  int64_t first, last;
  int64_t size() const { return last - first; }
};
Part partOf(int64_t count, int64_t members, int64_t index) {
  const int64_t chunk = (count + members - 1) / members;
  return {std::min(index * chunk, count), std::min((index + 1) * chunk, count)};
}

const char *at(const void *base, int64_t elements, int64_t width) {
  return static_cast<const char *>(base) + elements * width;
}
char *at(void *base, int64_t elements, int64_t width) {
  return static_cast<char *>(base) + elements * width;
}

/// Adds part `part` of every member in member order into `sum`. The exchange
/// has been begun and the parts posted.
sw_rt_status reduceParts(Exchange &exchange, Part part, const void *input,
                         CombineFunction combine, char *sum) {
  const int64_t width = exchange.width(), bytes = part.size() * width;
  for (int i = 0; i < exchange.size(); ++i) {
    const Sink sink{sum, i == 0 ? nullptr : combine, width};
    if (i == exchange.me())
      sink.take(0, at(input, part.first, width), bytes);
    else if (sw_rt_status status = exchange.receive(i, 0, sink, bytes))
      return status;
  }
  return exchange.drain();
}

sw_rt_status unsupported(sw_rt_context &context, const char *call,
                         sw_rt_dtype dtype) {
  return context.fail(SW_RT_UNSUPPORTED,
                      std::string("expected ") + call +
                          " of f64, f32, bf16 or i32, but got " + name(dtype));
}

} // namespace

sw_rt_status shardwright::runtime::allReduce(sw_rt_context &context,
                                             Group &group, sw_rt_dtype dtype,
                                             sw_rt_op op, const void *input,
                                             void *output, int64_t count) {
  CombineFunction combine = combineFunction(op, dtype);
  if (!combine)
    return unsupported(context, "all_reduce", dtype);
  Exchange exchange(context, group, Call::AllReduce, dtype, op, count);
  if (sw_rt_status status = exchange.begin())
    return status;
  const int64_t width = exchange.width();
  if (exchange.size() == 1) {
    if (input != output)
      copyBytes(output, input, count * width);
    return SW_RT_OK;
  }
  const Part mine = partOf(count, exchange.size(), exchange.me());
  char *result = at(output, mine.first, width);
  char *sum = result;
  if (input == output)
    if (sw_rt_status status = exchange.stage(mine.size() * width, sum))
      return status;
  for (int i : exchange.others()) {
    const Part part = partOf(count, exchange.size(), i);
    exchange.post(i, 0, at(input, part.first, width), part.size() * width);
  }
  if (sw_rt_status status = reduceParts(exchange, mine, input, combine, sum))
    return status;
  if (sum != result)
    copyBytes(result, sum, mine.size() * width);

  for (int i : exchange.others())
    exchange.post(i, 1, result, mine.size() * width);
  for (int i : exchange.others()) {
    const Part part = partOf(count, exchange.size(), i);
    if (sw_rt_status status = exchange.receive(
            i, 1, {at(output, part.first, width)}, part.size() * width))
      return status;
  }
  return exchange.drain();
}

sw_rt_status shardwright::runtime::barrier(sw_rt_context &context,
                                           Group &group) {
  Exchange exchange(context, group, Call::Barrier, SW_RT_I32, SW_RT_SUM, 0);
  if (sw_rt_status status = exchange.begin(/*book=*/false))
    return status;
  return exchange.meet();
}

sw_rt_status shardwright::runtime::allGather(sw_rt_context &context,
                                             Group &group, sw_rt_dtype dtype,
                                             const void *input, void *output,
                                             int64_t count) {
  Exchange exchange(context, group, Call::AllGather, dtype, SW_RT_SUM, count);
  if (sw_rt_status status = exchange.begin())
    return status;
  const int64_t width = exchange.width(), bytes = count * width;
  for (int i : exchange.others())
    exchange.post(i, 0, input, bytes);
  char *own = at(output, exchange.me() * count, width);
  if (own != input)
    copyBytes(own, input, bytes);
  for (int i : exchange.others())
    if (sw_rt_status status =
            exchange.receive(i, 0, {at(output, i * count, width)}, bytes))
      return status;
  return exchange.drain();
}

sw_rt_status
shardwright::runtime::reduceScatter(sw_rt_context &context, Group &group,
                                    sw_rt_dtype dtype, sw_rt_op op,
                                    const void *input, void *output,
                                    int64_t count) {
  CombineFunction combine = combineFunction(op, dtype);
  if (!combine)
    return unsupported(context, "reduce_scatter", dtype);
  Exchange exchange(context, group, Call::ReduceScatter, dtype, op, count);
  if (sw_rt_status status = exchange.begin())
    return status;
  if (sw_rt_status status = exchange.wantDivisible())
    return status;
  const int64_t width = exchange.width();
  const Part mine = partOf(count, exchange.size(), exchange.me());
  const int64_t bytes = mine.size() * width;
  if (exchange.size() == 1) {
    if (input != output)
      copyBytes(output, input, bytes);
    return SW_RT_OK;
  }
  char *sum = static_cast<char *>(output);
  if (output == at(input, mine.first, width))
    if (sw_rt_status status = exchange.stage(bytes, sum))
      return status;
  for (int i : exchange.others())
    exchange.post(
        i, 0, at(input, partOf(count, exchange.size(), i).first, width), bytes);
  if (sw_rt_status status = reduceParts(exchange, mine, input, combine, sum))
    return status;
  if (sum != output)
    copyBytes(output, sum, bytes);
  return SW_RT_OK;
}

sw_rt_status shardwright::runtime::allToAll(sw_rt_context &context,
                                            Group &group, sw_rt_dtype dtype,
                                            const void *input, void *output,
                                            int64_t count) {
  Exchange exchange(context, group, Call::AllToAll, dtype, SW_RT_SUM, count);
  if (sw_rt_status status = exchange.begin())
    return status;
  if (sw_rt_status status = exchange.wantDivisible())
    return status;
  if (input == output && count > 0 && exchange.size() > 1)
    return context.fail(SW_RT_INVALID_ARGUMENT,
                         "expected output of all_to_all to differ from its "
                         "input, but got the same buffer");
  const int64_t width = exchange.width();
  const int64_t part = count / exchange.size(), bytes = part * width;
  for (int i : exchange.others())
    exchange.post(i, 0, at(input, i * part, width), bytes);
  if (input != output)
    copyBytes(at(output, exchange.me() * part, width),
              at(input, exchange.me() * part, width), bytes);
  for (int i : exchange.others())
    if (sw_rt_status status =
            exchange.receive(i, 0, {at(output, i * part, width)}, bytes))
      return status;
  return exchange.drain();
}
