//===- Exchange.cpp - One call of a group, with its checks ----------------===//
#include "runtime/src/Exchange.h"

#include <algorithm>

namespace shardwright::runtime {

Exchange::Exchange(sw_rt_context &context, Group &group, Call call,
                   sw_rt_dtype dtype, sw_rt_op op, int64_t count)
    : context(context), group(group), call(call), dtype(dtype),
      deadline(deadlineIn(context.timeoutSeconds)), start(nowNanoseconds()) {
  envelope.call = call;
  envelope.dtype = dtype;
  envelope.op = op;
  envelope.axes = group.axes;
  envelope.owners = group.owners;
  envelope.count = count;
  envelope.number = group.number++;
  envelope.phase = context.phase;
  for (int i = 1; i < size(); ++i)
    order.push_back((group.me + i) % size());
  received.assign(group.members.size(), false);
  received[static_cast<size_t>(group.me)] = true;
}

Exchange::~Exchange() {
  if (size() == 1)
    return;
  context.communicationNanoseconds += nowNanoseconds() - start;
  if (context.trace.isEnabled())
    context.trace.add(name(call), "collective", start,
                      "{\"axes\": \"" + group.axesName + "\", \"bytes\": " +
                          std::to_string(envelope.count * width()) +
                          ", \"phase\": \"" + name(context.phase) + "\"}");
}

sw_rt_status Exchange::begin(bool book) {
  if (context.status != SW_RT_OK)
    return SW_RT_ABORTED;
  if (envelope.count < 0)
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected count of " + describe(envelope) +
                            " to be 0 or more, but got " +
                            std::to_string(envelope.count));
  if (group.axes & ~context.mesh.all())
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected axes of " + std::string(name(call)) +
                            " to be axes of the mesh " + context.mesh.text() +
                            ", but got the mask " + std::to_string(group.axes));
  if (book && size() > 1)
    context.book(call, group.axesName, envelope.count * width());
  return SW_RT_OK;
}

sw_rt_status Exchange::wantDivisible() {
  if (envelope.count % size() == 0)
    return SW_RT_OK;
  return context.fail(SW_RT_INVALID_ARGUMENT,
                      "expected count of " + describe(envelope) +
                          " to be divisible by its " + std::to_string(size()) +
                          " members, but got " +
                          std::to_string(envelope.count));
}

sw_rt_status Exchange::stage(int64_t bytes, char *&memory) {
  Staging &staging = context.staging;
  memory = small;
  if (bytes <= static_cast<int64_t>(sizeof(small)))
    return SW_RT_OK;
  if (staging.grows && staging.limit < bytes) {
    staging.own.resize(static_cast<size_t>(bytes));
    staging.memory = staging.own.data();
    staging.limit = bytes;
  }
  if (bytes > staging.limit)
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected the comm part of the arena to hold " +
                            std::to_string(bytes) + " bytes of staging for " +
                            describe(envelope) + ", but it has " +
                            std::to_string(staging.limit));
  memory = staging.memory;
  return SW_RT_OK;
}

void Exchange::post(int member, int round, const void *data, int64_t bytes) {
  envelope.round = round;
  context.transport->post(group.members[static_cast<size_t>(member)], envelope,
                          data, bytes);
}

sw_rt_status Exchange::receive(int member, int round, const Sink &sink,
                               int64_t bytes) {
  const int peer = group.members[static_cast<size_t>(member)];
  Envelope got;
  int64_t gotBytes = 0;
  switch (context.transport->await(peer, deadline, got, gotBytes)) {
  case Wait::Ready:
    break;
  case Wait::TimedOut: {
    std::vector<int> absent;
    for (size_t i = 0; i < group.members.size(); ++i)
      if (!received[i] && !context.transport->arrived(group.members[i]))
        absent.push_back(group.members[i]);
    if (absent.empty()) // arrived this very moment, too late
      absent.push_back(peer);
    return timedOut(absent);
  }
  case Wait::Poisoned:
    return poisoned();
  }
  envelope.round = round;
  if (!got.matches(envelope) || gotBytes != bytes)
    return context.fail(SW_RT_MISMATCH,
                        "expected rank " + std::to_string(peer) + " to call " +
                            describe(envelope) + " as rank " +
                            std::to_string(context.rank()) +
                            " does, but it called " + describe(got));
  switch (context.transport->consume(peer, deadline, sink)) {
  case Wait::Ready:
    received[static_cast<size_t>(member)] = true;
    return SW_RT_OK;
  case Wait::TimedOut:
    return timedOut({peer});
  case Wait::Poisoned:
    break;
  }
  return poisoned();
}

sw_rt_status Exchange::drain() {
  std::vector<int> pending;
  switch (context.transport->drain(deadline, pending)) {
  case Wait::Ready:
    std::fill(received.begin(), received.end(), false);
    received[static_cast<size_t>(group.me)] = true;
    return SW_RT_OK;
  case Wait::TimedOut:
    return timedOut(pending);
  case Wait::Poisoned:
    break;
  }
  return poisoned();
}

sw_rt_status Exchange::meet() {
  for (int i : order)
    post(i, 0, nullptr, 0);
  for (int i : order)
    if (sw_rt_status status = receive(i, 0, {}, 0))
      return status;
  return drain();
}

sw_rt_status Exchange::tell() {
  post(1, 0, nullptr, 0);
  return drain();
}

sw_rt_status Exchange::hear() { return receive(1, 0, {}, 0); }

sw_rt_status Exchange::timedOut(const std::vector<int> &absent) {
  std::string ranks, reasons;
  for (int rank : absent) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    // Follow who waits for whom: an absent rank may itself be a victim.
    std::string chain;
    int at = rank;
    for (int steps = 0; steps < context.mesh.ranks(); ++steps) {
      const int next = context.transport->waitsFor(at);
      if (next < 0 || next == at)
        break;
      chain += " waits for rank " + std::to_string(next);
      at = next;
      if (at == context.rank())
        break;
      if (context.transport->waitsFor(at) >= 0)
        chain += ", which";
    }
    if (!chain.empty())
      reasons += "; rank " + std::to_string(rank) + chain;
  }
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g", context.timeoutSeconds);
  return context.fail(
      SW_RT_TIMEOUT,
      "expected rank" + std::string(absent.size() > 1 ? "s " : " ") + ranks +
          " to join " + describe(envelope) + " within " + seconds +
          " s, but rank " + std::to_string(context.rank()) + " waited in vain" +
          reasons + onDevice());
}

std::string Exchange::onDevice() const {
  const std::string call = context.device->unfinishedCall();
  return call.empty() ? "" : "; its device is at " + call;
}

sw_rt_status Exchange::poisoned() {
  return context.failPoisoned(describe(envelope) + onDevice());
}

std::string Exchange::describe(const Envelope &e) const {
  std::string text = name(e.call);
  if (e.call == Call::Send)
    text += " number " + std::to_string(e.number);
  else
    text += " number " + std::to_string(e.number) + " over axes '" +
            context.mesh.name(e.axes) + "'";
  text += std::string(" (") + (e.op == SW_RT_MAX ? "max, " : "") +
          name(static_cast<sw_rt_dtype>(e.dtype)) + ", " +
          std::to_string(e.count) + " elements, phase " +
          name(static_cast<sw_rt_phase>(e.phase)) + ")";
  return text;
}

} // namespace shardwright::runtime
