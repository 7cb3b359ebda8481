//===- PointToPoint.cpp - Send and receive between two ranks --------------===//
//
// A send and its receive are one exchange of a group of two: the same checks
// and deadlines hold. The ledger books it at both ends, under the axis on which
// the two ranks differ: a receive with the bytes that arrive.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/Exchange.h"

using namespace shardwright::runtime;

namespace {

/// Axes on which ranks a and b differ.
uint32_t axesBetween(const Mesh &mesh, int a, int b) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < mesh.getAxes().size(); ++i)
    if (mesh.coordinate(a, 1u << i) != mesh.coordinate(b, 1u << i))
      mask |= 1u << i;
  return mask;
}

enum class Direction { Send, Receive };

sw_rt_status transfer(sw_rt_context &context, Direction direction, int peer,
                      sw_rt_dtype dtype, const void *source, void *target,
                      int64_t count, bool book) {
  const bool sends = direction == Direction::Send;
  Group pair;
  if (sw_rt_status status =
          makePair(context, sends ? Call::Send : Call::Recv, peer, pair))
    return status;
  Exchange exchange(context, pair, Call::Send, dtype, SW_RT_SUM, count);
  if (sw_rt_status status = exchange.begin(/*book=*/false))
    return status;
  if (book)
    context.ledger.add(sends ? Call::Send : Call::Recv, pair.axesName,
                       context.phase, count * exchange.width());
  const int64_t bytes = count * exchange.width();
  if (!sends)
    return exchange.receive(1, 0, {target}, bytes);
  exchange.post(1, 0, source, bytes);
  return exchange.drain();
}

} // namespace

sw_rt_status shardwright::runtime::makePair(sw_rt_context &context, Call call,
                                            int peer, Group &pair) {
  if (peer < 0 || peer >= context.mesh.ranks() || peer == context.rank())
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected peer of send or recv to be another rank "
                        "below " +
                            std::to_string(context.mesh.ranks()) +
                            ", but got " + std::to_string(peer));
  const size_t ranks = static_cast<size_t>(context.transport->getSize());
  context.sendNumber.resize(ranks);
  context.receiveNumber.resize(ranks);
  pair.axes = axesBetween(context.mesh, context.rank(), peer);
  pair.axesName = context.mesh.name(pair.axes);
  pair.members = {context.rank(), peer};
  pair.number =
      (call == Call::Send ? context.sendNumber
                          : context.receiveNumber)[static_cast<size_t>(peer)]++;
  return SW_RT_OK;
}

sw_rt_status shardwright::runtime::sendUnbooked(sw_rt_context &context,
                                                int peer, const void *data,
                                                int64_t bytes) {
  // bf16 is the two-byte type; an odd length is padded by the caller.
  return transfer(context, Direction::Send, peer, SW_RT_BF16, data, nullptr,
                  bytes / 2, false);
}

sw_rt_status shardwright::runtime::receiveUnbooked(sw_rt_context &context,
                                                   int peer, void *data,
                                                   int64_t bytes) {
  return transfer(context, Direction::Receive, peer, SW_RT_BF16, nullptr, data,
                  bytes / 2, false);
}

sw_rt_status shardwright::runtime::send(sw_rt_context &context, int peer,
                                        sw_rt_dtype dtype, const void *buffer,
                                        int64_t count) {
  return transfer(context, Direction::Send, peer, dtype, buffer, nullptr, count,
                  true);
}

sw_rt_status shardwright::runtime::receive(sw_rt_context &context, int peer,
                                           sw_rt_dtype dtype, void *buffer,
                                           int64_t count) {
  return transfer(context, Direction::Receive, peer, dtype, nullptr, buffer,
                  count, true);
}
